"""`memory-service doctor`: check whether this machine can run the service."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from memory_service.cli.common.output import JSON_OPTION, emit, table


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="Another database than MEMORY_DATABASE_URL.")
    ] = None,
    json: bool = JSON_OPTION,
) -> None:
    """Look at Python, packages, accelerator, encoder, database, disk and port; exit 1 for a problem."""
    from memory_service.services.operations.doctor import examine
    from memory_service.settings import load_settings

    findings = examine(load_settings(database_url=database))
    rows = [(f.part, f.status, f.found, f.advice) for f in findings]
    emit(
        [asdict(f) for f in findings],
        json,
        lambda _: table(None, ("part", "status", "found", "advice"), rows),
    )
    if any(f.status == "problem" for f in findings):
        raise typer.Exit(1)
