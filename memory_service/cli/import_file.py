"""`memory-service export TABLE`: write a whole table as CSV, JSON lines or Parquet. `memory-service import`:
edited exports and files of facts, taken back, or past runs from a tracker."""

import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from memory_service.cli.common.databases import AnotherUrl, DatabaseUrl, caller, open_at_head
from memory_service.cli.common.output import EXIT_REFUSED, JSON_OPTION, emit, table


def register(app: typer.Typer) -> None:
    app.command("import")(import_rows)
    app.command("export")(export)


def import_rows(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE | wandb|mlflow|trackio PATH...",
            help="CSV, XLSX or JSON lines: an edited `export` of any table, or facts. Or a tracker, then its "
            "folders or databases.",
        ),
    ],
    paths: Annotated[list[Path] | None, typer.Argument(hidden=True)] = None,
    why: Annotated[str | None, typer.Option(help="Why; needed to correct rows that are stored.")] = None,
    task: Annotated[str | None, typer.Option(help="Task of past runs that do not say theirs.")] = None,
    gpu: Annotated[
        str | None, typer.Option(help="GPU or device of past runs that do not say theirs.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model of past runs that do not say theirs.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Send past runs there, else to MEMORY_SERVER.")
    ] = None,
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Take rows back from a file, 500 rows a change, or the past runs that W&B, MLflow or trackio
    recorded here; says of each what became of it: taken, changed, there already, or refused and why. Nothing
    stored is overwritten without --why, nothing is taken twice; exit 1 when something was refused."""
    if paths:
        stated = {"task": task, "gpu": gpu, "model": model}
        answer = _past_runs(str(file), paths, stated, server, database)
        columns = ("tracker's run", "run_id", "outcome", "why", "notes")
        rows = [
            tuple("; ".join(v) if isinstance(v, list) else v for v in one.values()) for one in answer["runs"]
        ]
    else:
        answer = _rows_of(file, why, database)
        columns = (">line", "table", "key", "outcome", "why")
        told = [one for one in answer["lines"] if one["outcome"] != "there"]
        rows = [(*(one[name] for name in _SHOWN), one["why"] or _changed(one)) for one in told]
    title = ", ".join(f"{answer[name]} {name}" for name in OUTCOMES if name in answer)
    if unknown := answer.get("unknown"):
        most = ", ".join(f"{name} ({count})" for name, count in list(unknown.items())[:8])
        title += f"; {len(unknown)} names not understood, of so many runs: {most}"
    emit(answer, json, lambda _: table(title, columns, rows))
    if answer["refused"]:
        raise typer.Exit(EXIT_REFUSED)


OUTCOMES = ("taken", "changed", "there", "refused")
_SHOWN = ("line", "table", "key", "outcome")


def _rows_of(file: Path, why: str | None, database: str | None) -> dict[str, Any]:
    from memory_service.services.competitions.snapshot import encoder_at
    from memory_service.services.editorial.import_file import import_file
    from memory_service.settings import load_settings

    encoder = load_settings().embedding_model
    with open_at_head(database) as opened:
        lines = import_file(opened, file, encoder=lambda: encoder_at(encoder)[0], who=caller(), why=why)
    counts = Counter[str](one.outcome for one in lines)
    return {name: counts[name] for name in OUTCOMES} | {"lines": [asdict(one) for one in lines]}


def _changed(line: dict[str, Any]) -> str:
    return "; ".join(f"{each['field']}: {each['before']} → {each['after']}" for each in line["changes"])


def _past_runs(
    tracker: str, paths: list[Path], stated: dict[str, str | None], server: str | None, database: str | None
) -> dict[str, Any]:
    from memory_service.cli.common.databases import local_door, remote_door
    from memory_service.cli.common.remote import server_asked
    from memory_service.client.past_runs import READERS
    from memory_service.client.past_runs.reported import tell_all
    from memory_service.errors import unknown_name

    read = READERS.get(tracker.lower())
    if read is None:
        raise unknown_name("tracker", tracker, tuple(READERS))
    found = [one for path in paths for one in read(path)]
    given = {name: value for name, value in stated.items() if value is not None}
    address = server_asked(server, database)
    if address is not None:
        return tell_all(found, given, remote_door(address), time.time())
    with local_door(database) as door:
        return tell_all(found, given, door, time.time())


def export(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="competitions, patterns, models, gpus, …")],
    format: Annotated[  # noqa: A002
        Literal["csv", "xlsx", "jsonl", "parquet"], typer.Option("--format", help="How.")
    ] = "csv",
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", metavar="NAME=VALUE", help="A filter of the table's list; repeatable."),
    ] = None,
    sort: Annotated[str | None, typer.Option("--sort", help="Column, `-` before it for descending.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A new file (needed for parquet and xlsx); else standard output."
        ),
    ] = None,
    database: DatabaseUrl = None,
) -> None:
    """Write a whole table, or the rows that match. An unknown name is answered with the nearest ones; the
    events of a run are `run-events -w run_id=…`."""
    from memory_service.errors import Conflict, FieldError, InvalidInput
    from memory_service.services.operations.export import stream_rows

    if output is not None and output.exists():
        raise Conflict(f"{output} exists; an export overwrites nothing")
    if format in ("parquet", "xlsx") and output is None:
        raise InvalidInput(f"{format} is written to a file: give --output FILE")
    filters: dict[str, str] = {}
    for raw in where or ():
        field, equals, value = raw.partition("=")
        if not equals or field in filters:
            message = "is given twice" if equals else "must be NAME=VALUE"
            raise InvalidInput(f"--where {message}", [FieldError("where", message, raw)])
        filters[field] = value
    with open_at_head(database) as opened:
        pieces = stream_rows(opened, name, filters, sort, format)
        if output is None:
            sys.stdout.buffer.writelines(pieces)
            sys.stdout.buffer.flush()
            return
        part = output.with_name(output.name + ".part")
        try:
            with part.open("wb") as file:
                file.writelines(pieces)
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
    typer.echo(f"{output.stat().st_size} bytes in {output}", err=True)
