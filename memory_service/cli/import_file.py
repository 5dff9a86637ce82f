"""`memory-service import FILE`: take over competitions, solutions and patterns as rows of one's own."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from memory_service.cli.common.databases import AnotherUrl, caller, open_at_head
from memory_service.cli.common.output import EXIT_REFUSED, JSON_OPTION, emit, table


def register(app: typer.Typer) -> None:
    app.command("import")(import_rows)


def import_rows(
    file: Annotated[Path, typer.Argument(help="JSON lines: what `export` writes, or files of facts.")],
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Add competitions, solutions and patterns from a file of JSON lines; says of each line whether it was
    taken, was there already, or was refused and why. Nothing stored is overwritten; exit 1 when a line was
    refused."""
    from memory_service.services.competitions.encoding import encoder_at
    from memory_service.services.editorial.import_file import import_file
    from memory_service.settings import load_settings

    model = load_settings().embedding_model
    with open_at_head(database) as opened:
        lines = import_file(opened, file, encoder=lambda: encoder_at(model)[0], who=caller())
    counts = Counter(one.outcome for one in lines)
    answer = {name: counts[name] for name in ("taken", "there", "refused")}
    columns = (">line", "table", "key", "outcome", "why")
    title = ", ".join(f"{count} {name}" for name, count in answer.items())
    drawn = table(title, columns, [tuple(asdict(one).values()) for one in lines])
    emit(answer | {"lines": [asdict(one) for one in lines]}, json, lambda _: drawn)
    if counts["refused"]:
        raise typer.Exit(EXIT_REFUSED)
