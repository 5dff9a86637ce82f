"""`memory-service review train.py …`: what to change in a script before it is launched."""

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import EXIT_REFUSED, EXIT_USAGE, JSON_OPTION, emit, stderr, stdout
from memory_service.cli.common.remote import ServerUrl, is_light, post, post_text, server_asked
from memory_service.schemas.review import ReviewFacts, ReviewQuery
from memory_service.schemas.validation_errors import checked

_LEVELS = ("error", "warning", "note")
_STYLE = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@takes_fields_of(ReviewFacts, without=("filename",))
def review(
    fields: dict[str, str],
    script: Annotated[
        Path,
        typer.Argument(
            help="The training script, notebook, or folder or zip of a project; - reads standard input.",
            allow_dash=True,
        ),
    ],
    fail_on: Annotated[str, typer.Option(help="error, warning or note: exit 1 from here on.")] = "warning",
    sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0.")] = False,
    database: AnotherUrl = None,
    server: ServerUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """What to change in a training script before it burns the budget. It is read, never run.

    A light installation knows no cards: with --server or MEMORY_SERVER the server reviews it, sizes included.
    """
    from memory_service import __version__
    from memory_service.review.findings import sarif as as_sarif

    if fail_on not in _LEVELS:
        _usage(f"--fail-on must be one of {', '.join(_LEVELS)}, not {fail_on!r}")
    asked = server_asked(server, database, light=None)
    if asked is None:
        from memory_service.services.review.review import review_script

        known = open_ready(database) if "gpu" in fields and not (is_light() and database is None) else None

    def one(more: dict[str, Any]) -> dict[str, Any]:
        if asked is None:
            return review_script(known, {**fields, **more})
        if "files" not in more:
            return post_text(f"{asked}/review", more["script"], fields)
        return post(f"{asked}/review", {**checked(ReviewQuery, fields).explicit(), **more})

    if script.is_dir() or (script.suffix == ".zip" and script.is_file()):
        from memory_service.services.review.review import review_folder

        answer = review_folder(one, script)
    else:
        answer = one({"script": _read(script, outputs=asked is None)})
    if sarif:
        emit(as_sarif(answer["findings"], str(script), __version__), True, str)
    else:
        emit(answer, json, lambda shown: stdout.print(render_review(shown, str(script)), soft_wrap=True))
    if any(answer["counts"][level] for level in _LEVELS[: _LEVELS.index(fail_on) + 1]):
        raise typer.Exit(EXIT_REFUSED)


def render_review(answer: Mapping[str, Any], name: str) -> RenderableType:
    """Findings in order of lines, each with its fix, then what was not checked."""
    parts: list[RenderableType] = []
    for finding in answer["findings"]:
        cell = f"cell {finding['cell']}:" if finding.get("cell") else ""
        place = f"{name}/{finding['file']}" if finding.get("file") else name
        head = Text(f"{place}:{cell}{finding['line']}:{finding['column']} ")
        head.append(f"{finding['severity']} {finding['rule']}", style=_STYLE[finding["severity"]])
        head.append(f" ({finding['source']}) {finding['message']}")
        parts += [head, Text("\n".join(f"    {line}" for line in finding["fix"].splitlines()), style="green")]
    counts = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for level, n in answer["counts"].items())
    parts.append(Text(f"{name}: {'nothing to change' if answer['ok'] else counts}", style="bold"))
    ran = answer["read"].get("run", {})
    read = {key: value for key, value in answer["read"].items() if key != "run"}
    for title, told in (("read", read), ("its outputs say", ran)):
        if told:
            parts.append(Text(f"{title}: {', '.join(f'{key}={value}' for key, value in told.items())}"))
    parts += [Text(f"not checked: {line}") for line in answer["not_checked"]]
    return Group(*parts)


def _read(script: Path, *, outputs: bool) -> bytes:
    """The file, a notebook with its outputs where they stay here; one byte more than is reviewed at most."""
    from memory_service.review.source.project import LONGEST_NOTEBOOK, without_outputs

    try:
        with nullcontext(sys.stdin.buffer) if str(script) == "-" else script.open("rb") as file:
            raw = file.read(LONGEST_NOTEBOOK + 1)
    except OSError as error:
        _usage(f"{script}: {error.strerror}")
        raise
    return raw if outputs else without_outputs(raw)


def _usage(message: str) -> None:
    stderr.print(message, markup=False, highlight=False)
    raise typer.Exit(EXIT_USAGE)
