"""How does a whole table leave? As CSV, JSON lines or Parquet, in pieces, never all in memory.

Each piece is a page read in a transaction of its own: a reader that is slow, or never comes back, pins
neither a connection nor a snapshot. Cells that a spreadsheet would run as a formula are defused with a
leading apostrophe.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from memory_service.errors import unknown_name
from memory_service.services.catalogue import listed_columns, one_page, table_named
from memory_service.services.paging import MAX_LIMIT, Query, parse_query
from memory_service.services.unit import Database
from memory_service.store import rows

__all__ = ["FORMATS", "MEDIA_TYPES", "Format", "defused", "stream_rows", "write_parquet"]

Format = Literal["csv", "jsonl"]
FORMATS: tuple[str, ...] = get_args(Format)
MEDIA_TYPES: Mapping[str, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def stream_rows(
    database: Database,
    table: str,
    filters: Mapping[str, Any] | None = None,
    sort: str | None = None,
    format: str = "jsonl",  # noqa: A002 - the name of the query parameter
) -> Iterator[bytes]:
    """All rows that match, in UTF-8 pieces. Everything wrong is raised here, before the first piece."""
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    query = parse_query(table_named(table), filters, sort, MAX_LIMIT)
    return _csv(database, query) if format == "csv" else _jsonl(database, query)


def write_parquet(
    database: Database, table: str, target: Path, filters: Mapping[str, Any] | None = None
) -> int:
    """Write a table as a Parquet file, nested values as JSON text; the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    query = parse_query(table_named(table), filters, None, MAX_LIMIT)
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    columns = rows.LISTED[query.table].__table__.columns
    names = listed_columns(query.table)
    types = {name: kinds.get(columns[name].type.python_type, pa.string()) for name in names}
    schema = pa.schema([pa.field(name, types[name]) for name in names])
    written = 0
    part = target.with_name(target.name + ".part")
    try:
        with pq.ParquetWriter(part, schema) as writer:
            for page in _pages(database, query):
                written += len(page)
                plain = [{name: _cell(row[name]) for name in names} for row in page]
                writer.write_table(pa.Table.from_pylist(plain, schema=schema))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return written


def defused(cell: Any) -> Any:
    """A text that no spreadsheet takes for a formula; other values as they are."""
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _pages(database: Database, query: Query) -> Iterator[list[dict[str, Any]]]:
    following: Query | None = query
    while following is not None:
        with database.read() as unit:
            page = one_page(unit, following)
        yield page.items
        following = query.resumed(page.next) if page.next else None


def _jsonl(database: Database, query: Query) -> Iterator[bytes]:
    for page in _pages(database, query):
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in page).encode()


def _csv(database: Database, query: Query) -> Iterator[bytes]:
    names = listed_columns(query.table)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(names)
    for page in _pages(database, query):
        writer.writerows([defused(_cell(row[name])) for name in names] for row in page)
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
