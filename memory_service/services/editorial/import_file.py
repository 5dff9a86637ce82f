"""Rows of a file of JSON lines taken over as a person's own: competitions, solutions and patterns."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from memory_service.errors import InvalidInput, MemoryServiceError, NotFound
from memory_service.schemas.rows import validate
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import EncoderSource, add_row
from memory_service.services.editorial.facts_format import TABLES, as_row, table_of
from memory_service.services.tables.table_rows import get_row
from memory_service.store.queries.rows import ENTITIES, key_of

Outcome = Literal["taken", "there", "refused"]


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """What became of a line: taken; there already, with the same values; or refused, and why."""

    line: int
    table: str | None
    key: str | None
    outcome: Outcome
    why: str | None = None


def import_file(database: Database, path: Path, *, encoder: EncoderSource, who: str) -> list[ImportedLine]:
    """What became of each line, in order; competitions are taken first, as other rows name them.

    InvalidInput for a file that cannot be read. Nothing that is stored is overwritten.
    """
    done: list[ImportedLine] = []
    waiting: dict[str, list[tuple[int, dict[str, Any]]]] = {table: [] for table in TABLES}
    for line, text in _lines(path):
        try:
            raw = json.loads(text)
            waiting[table_of(raw)].append((line, raw))
        except (ValueError, RecursionError) as error:
            done.append(ImportedLine(line, None, None, "refused", f"is not JSON: {error}"))
        except InvalidInput as error:
            done.append(ImportedLine(line, None, None, "refused", error.detail))
    add = partial(add_row, encoder=encoder, who=who, why=f"imported from {path.name}")
    for table, rows in waiting.items():
        done += [_imported(database, table, line, raw, add) for line, raw in rows]
    return sorted(done, key=lambda one: one.line)


MOST_BYTES = 256 * 2**20


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{path} cannot be read: it must be an ordinary file of at most 256 MiB")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _imported(
    database: Database, table: str, line: int, raw: Mapping[str, Any], add: Callable[..., Any]
) -> ImportedLine:
    key = None
    try:
        values = as_row(table, raw)
        checked = validate(table, values)
        key = str(checked[key_of(ENTITIES[table])])
        other = _differing(database, table, key, {n: checked[n] for n in values if n in checked})
        if other is None:
            add(database, table, values)
            return ImportedLine(line, table, key, "taken")
    except MemoryServiceError as error:
        nearest = ", ".join(dict.fromkeys(name for wrong in error.errors for name in wrong.nearest))
        hint = f" (nearest: {nearest})" if nearest and nearest not in error.detail else ""
        return ImportedLine(line, table, key, "refused", error.detail + hint)
    if other:
        message = f"is there with another {', '.join(other)}; correct that row, or delete it first"
        return ImportedLine(line, table, key, "refused", message)
    return ImportedLine(line, table, key, "there")


def _differing(database: Database, table: str, key: str, values: Mapping[str, Any]) -> Sequence[str] | None:
    """The fields that the stored row has otherwise; None where there is no such row. What the file leaves
    open may be known here."""
    with database.read() as transaction:
        try:
            stored = get_row(transaction, table, key)
        except NotFound:
            return None
    return [name for name, value in values.items() if value is not None and stored[name] != value]
