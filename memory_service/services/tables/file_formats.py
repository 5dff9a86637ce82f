"""Tables as CSV, XLSX, JSON lines or Parquet, in pieces, never all in memory."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import orjson

from memory_service.errors import NotInstalled, unknown_name
from memory_service.schemas.lists import FORMATS
from memory_service.services.tables import spreadsheet

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FORMATS", "MEDIA_TYPES", "TableExport", "defused", "exported_cell", "flat", "in_format", "undefused",
]  # fmt: skip

MEDIA_TYPES: Mapping[str, str] = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": spreadsheet.MEDIA_TYPE,
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}

Row = Mapping[str, Any]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Also full-width: some programs read them alike."""

GROUP_ROWS = 5_000
GROUP_CHARACTERS = 8_000_000
"""Of a row group of Parquet, whichever comes first: it is written as a whole."""


PIECE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class TableExport:
    """A table on its way out.

    columns   name -> type of its values: bool, int, float, str, `datetime` (ISO 8601 text in rows), or object
              for nested ones, which are JSON text in CSV and Parquet. A row may lack some;
              `value.batch_size` is a piece of an object, which JSON lines have whole
    pages     gives the rows, some at a time; called once
    """

    columns: Mapping[str, type[Any]]
    pages: Callable[[], Iterator[Sequence[Row]]]


def in_format(table: TableExport, format: str) -> Iterator[bytes]:  # noqa: A002 - the query parameter's name
    """The pieces of the file; InvalidInput for a format that is not offered, before the first piece."""
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if format == "parquet" and find_spec("pyarrow") is None:
        raise NotInstalled(
            "Parquet needs pyarrow: pip install 'memory-service[server]'; csv and jsonl need nothing"
        )
    return _joined({"csv": _csv, "xlsx": _xlsx, "jsonl": _jsonl, "parquet": _parquet}[format](table))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of `PIECE_BYTES` or more, but for the last and at an empty one: on a busy server each waits for
    its turn."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES or not piece:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def defused(cell: Any) -> Any:
    """A text that no spreadsheet takes for a formula (a leading apostrophe); other values as they are."""
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def undefused(cell: str) -> str:
    """A text as it was before `defused`."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def exported_cell(value: Any) -> str:
    """A value as a cell of CSV has it."""
    cell = _cell(value)
    return "" if cell is None else str(cell)


def flat(value: Any) -> Any:
    """A value that fits a cell: nested ones as JSON text."""
    return orjson.dumps(value).decode() if isinstance(value, dict | list | tuple) else value


def _at(row: Row, name: str) -> Any:
    """A column of a row; `value.batch_size` is one of a piece of an object."""
    value = row.get(name)
    if value is None and "." in name:
        whole, _, part = name.partition(".")
        value = (row.get(whole) or {}).get(part)
    return value


def _cell(value: Any) -> Any:
    """`defused(flat(value))`, for a hundred thousand cells."""
    if isinstance(value, str):
        return "'" + value if value.startswith(_FORMULA) else value
    return value if value is None or type(value) in (int, float, bool) else flat(value)


def _jsonl(table: TableExport) -> Iterator[bytes]:
    for page in table.pages():
        yield b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in page)


def _csv(table: TableExport) -> Iterator[bytes]:
    out = io.StringIO(newline="")
    csv.writer(out).writerow([defused(name) for name in table.columns])
    # All texts in quotes: where semicolons separate, one in a text would begin a cell, and there a formula.
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    yield _taken(out)
    for page in table.pages():
        writer.writerows([_cell(_at(row, name)) for name in table.columns] for row in page)
        yield _taken(out)


def _xlsx(table: TableExport) -> Iterator[bytes]:
    def parts() -> Iterator[list[list[Any]]]:
        yield [[defused(name) for name in table.columns]]
        for page in table.pages():
            yield [[_cell(_at(row, name)) for name in table.columns] for row in page]

    return spreadsheet.written(parts())


def _taken(out: io.StringIO) -> bytes:
    piece = out.getvalue().encode()
    out.seek(0)
    out.truncate()
    return piece


def _parquet(table: TableExport) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), dt.datetime: pa.timestamp("us", "UTC")}
    schema = pa.schema([pa.field(name, kinds.get(kind, pa.string())) for name, kind in table.columns.items()])
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        waiting: list[Row] = []
        characters = 0
        for page in table.pages():
            waiting += page
            characters += sum(len(cell) for row in page for cell in row.values() if isinstance(cell, str))
            if len(waiting) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
                writer.write_table(_group(waiting, table.columns, schema))
                waiting, characters = [], 0
                yield sink.taken()
        if waiting:
            writer.write_table(_group(waiting, table.columns, schema))
    yield sink.taken()


def _group(rows: Sequence[Row], columns: Mapping[str, type[Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    cells = [[_typed(_at(row, name), kind) for row in rows] for name, kind in columns.items()]
    arrays = [pa.array(values, field.type) for values, field in zip(cells, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _typed(value: Any, kind: type[Any]) -> Any:
    if value is None:
        return None
    if kind is dt.datetime:
        return dt.datetime.fromisoformat(value)
    if kind in (bool, int, float):
        return kind(value)
    reported = flat(value)
    return reported if isinstance(reported, str) else orjson.dumps(reported).decode()


class _Sink:
    """What a writer of files writes to, taken away piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._written = 0

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._written += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        piece, self._pieces = b"".join(self._pieces), []
        return piece
