"""Tables that are shown as grids, and leave as files with the rows that their page shows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memory_service.errors import NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.operations.export import table_export
from memory_service.services.pages import competitions, conflicts, devices, knowledge, strategies
from memory_service.services.pages.grid import gridded, value_at
from memory_service.services.tables.file_formats import TableExport
from memory_service.services.tables.table_rows import history_of

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GridTable:
    """One table.

    rows    all of it in its usual order, of what the address asks
    facets  name of a filter -> the field it is of
    stored  the table of the store behind it, whose rows can be brought back; None: `columns` are computed
    more    what else its page shows, of the database, what was asked, and the grid
    """

    rows: Callable[[Database, Mapping[str, str]], Sequence[Row]]
    facets: Mapping[str, str]
    key: str = "id"
    stored: str | None = None
    columns: Mapping[str, type[Any]] | None = None
    more: Callable[[Database, Mapping[str, str], Row], dict[str, Any]] | None = None
    by_meaning: bool = False
    """`rows` found what is searched for."""


def _plainly(*names: str) -> dict[str, str]:
    return {name: name for name in names}


GRIDS: Mapping[str, GridTable] = {
    "competitions": GridTable(
        competitions.rows, _plainly(*competitions.FACETS), "slug", "competitions", None,
        competitions.searched, by_meaning=True,
    ),
    "conflicts": GridTable(
        conflicts.rows, _plainly("kind", "used", "quantity", "gpu", "model"), "id", None, conflicts.COLUMNS,
        lambda *_: {"kinds": conflicts.KINDS},
    ),
    "devices": GridTable(devices.rows, _plainly("kind", "architecture"), "slug", "gpus", None, devices.more),
    "models": GridTable(
        knowledge.models, {"task": "tasks", **_plainly("family", "library", "device", "pretrained")},
        "name", "models",
    ),
    "patterns": GridTable(
        knowledge.patterns, _plainly("task", "kind", "size", "scope"), "id", "patterns", None, knowledge.won
    ),
    "solutions": GridTable(
        knowledge.solutions,
        {"task": "task", "modality": "modality", "family": "families", "technique": "techniques",
         "basis": "basis"},
        "id", "solutions",
    ),
    "strategies": GridTable(
        strategies.rows,
        {"table": "table", "use": "use", "verdict": "now.verdict", "gpu": "key.gpu",
         **_plainly("corrected", "rule", "grade")},
        "id", "strategies", None, strategies.more,
    ),
    "techniques": GridTable(
        knowledge.techniques, _plainly("stage"), "name", None, knowledge.TECHNIQUE_COLUMNS,
        knowledge.modalities,
    ),
}  # fmt: skip


def grid_page(database: Database, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """`gridded` of a table with what else its page shows, and `history`: of a row just saved its last."""
    table = GRIDS[name]
    rows = table.rows(database, asked)
    question = _narrowing(asked, table)

    def make() -> tuple[Sequence[Row], dict[str, Any]]:
        return rows, gridded(rows, question, table.key, table.facets)

    if table.by_meaning and "q" not in asked:  # many rows, the same until one changes
        grid = database.caches.stored(gridded, (name, id(rows), *sorted(question.items())), make, 64)[1]
    else:
        grid = make()[1]
    page = grid | (table.more(database, asked, grid) if table.more else {})
    if table.stored and asked.get("saved", "undone") != "undone":
        with suppress(NotFound), database.read() as transaction:  # somebody took it back
            page["history"] = history_of(transaction, table.stored, asked["saved"])[:1]
    return page


def grid_export(database: Database, name: str, asked: Mapping[str, str]) -> TableExport:
    """All rows that the page of a table has in all."""
    table = GRIDS[name]
    rows = table.rows(database, asked)
    found = gridded(rows, _narrowing(asked, table), table.key, table.facets, len(rows) + 1)["items"]
    if table.stored is not None:
        export = table_export(database, table.stored, keys=[row[table.key] for row in found])
        return _apart(export, found) if name == "strategies" and "table" in asked else export
    columns = table.columns or {}

    def pages() -> Iterator[Sequence[Row]]:
        yield [{column: value_at(row, column) for column in columns} for row in found]

    return TableExport(columns, pages)


def _apart(export: TableExport, rows: Sequence[Row]) -> TableExport:
    """With a column for each piece of a key and a value, as the page of one table of strategies has them."""
    columns: dict[str, type[Any]] = {}
    for name, kind in export.columns.items():
        pieces = (
            [f"{name}.{piece}" for row in rows for piece in row[name] or ()]
            if name in ("key", "value")
            else ()
        )
        columns |= dict.fromkeys(pieces, object) if pieces else {name: kind}
    return TableExport(columns, export.pages)


def _narrowing(asked: Mapping[str, str], table: GridTable) -> Mapping[str, str]:
    asked = {name: text.replace("drives plans", "read by plans") for name, text in asked.items()}  # old `use`
    return {name: text for name, text in asked.items() if name != "q" or not table.by_meaning}
