"""`memory-service doctor`: check whether this machine can run the service."""

from dataclasses import asdict

import typer

from memory_service.cli.common.databases import DatabaseUrl
from memory_service.cli.common.output import JSON_OPTION, emit, table


def doctor(database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """Look at settings, packages, accelerator, encoder, database, disk and port; exit 1 for a problem."""
    from memory_service.services.operations.doctor import examine
    from memory_service.settings import load_settings

    findings = examine(load_settings(database_url=database))
    rows = [(f.part, f.status, f.found, f.advice) for f in findings]
    drawn = table(None, ("part", "status", "found", "advice"), rows)
    emit([asdict(f) for f in findings], json, lambda _: drawn)
    if any(f.status == "problem" for f in findings):
        raise typer.Exit(1)
