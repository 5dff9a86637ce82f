"""`memory-service import FILE`: exported tables that were edited, and files of facts, taken back."""

from collections import Counter
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory_service.cli.common.databases import AnotherUrl, caller, open_at_head
from memory_service.cli.common.output import EXIT_REFUSED, JSON_OPTION, emit, table

if TYPE_CHECKING:
    from memory_service.services.editorial.import_file import ImportedLine


def register(app: typer.Typer) -> None:
    app.command("import")(import_rows)


def import_rows(
    file: Annotated[
        Path, typer.Argument(help="CSV or JSON lines: an edited `export` of any table, or facts.")
    ],
    why: Annotated[str | None, typer.Option(help="Why; needed to correct rows that are stored.")] = None,
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Take rows back from a file; says of each line whether it was taken, changed a row, was there already,
    or was refused and why. All of it is one change. Nothing stored is overwritten without --why; exit 1 when
    a line was refused."""
    from memory_service.services.competitions.encoding import encoder_at
    from memory_service.services.editorial.import_file import import_file
    from memory_service.settings import load_settings

    model = load_settings().embedding_model
    with open_at_head(database) as opened:
        lines = import_file(opened, file, encoder=lambda: encoder_at(model)[0], who=caller(), why=why)
    counts = Counter(one.outcome for one in lines)
    answer = {name: counts[name] for name in ("taken", "changed", "there", "refused")}
    columns = (">line", "table", "key", "outcome", "why")
    title = ", ".join(f"{count} {name}" for name, count in answer.items())
    told = [one for one in lines if one.outcome != "there"]
    drawn = table(title, columns, [(*astuple(one)[:4], one.why or _changed(one)) for one in told])
    emit(answer | {"lines": [asdict(one) for one in lines]}, json, lambda _: drawn)
    if counts["refused"]:
        raise typer.Exit(EXIT_REFUSED)


def _changed(line: "ImportedLine") -> str:
    return "; ".join(f"{each['field']}: {each['before']} → {each['after']}" for each in line.changes)
