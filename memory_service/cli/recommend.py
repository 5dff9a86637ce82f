"""`memory-service recommend …`: the plan of /recommend in a terminal, as a script, as text, or as JSON."""

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.text import Text

from memory_service.cli.common import output
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit, spinner, stderr
from memory_service.cli.common.remote import ServerUrl, get, server_asked
from memory_service.cli.describe import TARGET, question_of
from memory_service.domain.planning.explanation.plan_text import plan_lines, plan_markdown
from memory_service.schemas.recommend import RecommendRequest, plan_request


class Form(StrEnum):
    """How the plan is written."""

    tables = "tables"
    script = "script"
    blend = "blend"
    text = "text"
    json = "json"


@takes_fields_of(RecommendRequest)
def recommend(
    given: dict[str, str],
    database: AnotherUrl = None,
    server: ServerUrl = None,
    form: Annotated[
        Form, typer.Option(help="Tables, a script, the script that joins its runs, text to paste, or JSON.")
    ] = Form.tables,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder of data: what `describe` says of it is part of the question."
        ),
    ] = None,
    target: Annotated[str, TARGET] = "",
    script: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the script to this folder: train.py and what all share."),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="The reasons, too.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Stages, runs, recipe and reasons, too.")] = False,
    json: bool = JSON_OPTION,
) -> None:
    """One explicit plan for this task, this data, this card, these minutes."""
    given = given if data is None else {**question_of(data, target), **given}
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.services.planning.recommend import recommend as ask

        ready = open_ready(database)

        def planned(fields: dict[str, Any]) -> dict[str, Any]:
            return ask(ready, plan_request(fields))
    else:

        def planned(fields: dict[str, Any]) -> dict[str, Any]:
            return get(asked, "/recommend", {**fields, "detail": "full"})

    answer = planned(given)
    if answer.get("needs") and not json and sys.stdin.isatty():
        spinner.stop()
        for need in answer["needs"]:
            choices = ", ".join(str(each["value"]) for each in need["options"])
            given[need["field"]] = typer.prompt(f"{need['question']} ({choices})", err=True)
        answer = planned(given)
    if script is not None:
        _write_folder(script, answer, lambda number: planned({**given, "run": number}), asked)
    spinner.stop()
    if form in (Form.script, Form.blend, Form.text) and not json:
        sys.stdout.write(_written(form, answer, single="single" in given, server=asked))
        return
    emit(answer, json or form is Form.json, partial(render_plan, why=why, everything=everything))


def _write_folder(
    folder: Path, answer: Mapping[str, Any], of_run: Callable[[int], Any], server: str | None
) -> None:
    """train.py of the plan, run_N.py of each run of its portfolio, blend.py, and the modules they import."""
    from memory_service.services.planning.plan_script import blend_script, plan_files
    from memory_service.services.planning.script_choice import NoScript

    files = plan_files(answer, server or "")
    for run in answer["portfolio"] if len(answer["portfolio"]) > 1 else ():
        try:
            own = plan_files(of_run(run["run"]), server or "")
            files |= {f"run_{run['run']}.py": own.pop("train.py"), **own}
        except NoScript as error:
            stderr.print(f"run {run['run']}: {error}", highlight=False, markup=False, soft_wrap=True)
    if len(answer["portfolio"]) > 1:
        with suppress(NoScript):
            files["blend.py"] = blend_script(answer)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    stderr.print(f"{folder}: {', '.join(sorted(files))}", highlight=False, markup=False, soft_wrap=True)


def _written(form: Form, answer: Mapping[str, Any], *, single: bool, server: str | None) -> str:
    """The plan as a file: a script, or text to paste; a script reports to the server that planned it."""
    if form is Form.text:
        return plan_markdown(answer)
    from memory_service.services.planning.plan_script import blend_script, plan_script

    return blend_script(answer) if form is Form.blend else plan_script(answer, server or "", single=single)


def render_plan(answer: Mapping[str, Any], *, why: bool = False, everything: bool = False) -> Text:
    """The answer in some twenty lines (`plan_lines`), as wide as the window."""
    width = min(output.stdout.width, 100)
    lines = plan_lines(answer, why=why, everything=everything)
    return Text("\n".join(_folded(each, width) for each in lines))


def _folded(line: str, width: int) -> str:
    """Lines of whole words, a figure beside its unit."""
    kept = _UNIT.sub("\N{NO-BREAK SPACE}", line)
    return fill(kept, width, **_WHOLE_WORDS).replace("\N{NO-BREAK SPACE}", " ")


_UNIT = re.compile(r"(?<=[\d)]) (?=(?:%|GiB|s|min|samples/s|x)\b|%)|(?<= x) (?=\d)")


_WHOLE_WORDS: dict[str, Any] = {
    "subsequent_indent": " ", "break_long_words": False, "break_on_hyphens": False,
}  # fmt: skip
