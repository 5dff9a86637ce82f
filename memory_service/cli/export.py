"""`memory-service export TABLE`: write a whole table as CSV, JSON lines or Parquet."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from memory_service.cli.common.databases import DatabaseUrl, open_at_head


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
