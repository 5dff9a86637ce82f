"""Rows of a file taken back: exported tables that were edited in a spreadsheet, and files of facts.

Every table that people may correct comes back as XLSX, as CSV (commas, semicolons or tabs, as spreadsheets
write them) or as JSON lines. What each line would do is found first and shown; then all of it is one change,
with one reason, which is undone as one (`curation.undo_together`).
"""

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Literal

import orjson

from memory_service.child_processes import TooCostly
from memory_service.domain.common.row_difference import difference
from memory_service.errors import InvalidInput, MemoryServiceError, wrong_value
from memory_service.schemas.rows import ROW_MODELS, fields_of, validate
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.editorial.curation import MOST_ROWS, Change, EncoderSource, write_changes
from memory_service.services.editorial.seed_files import TABLES, as_row, table_of
from memory_service.services.tables.file_formats import exported_cell, undefused
from memory_service.services.tables.spreadsheet import MOST_CHARACTERS, as_csv
from memory_service.services.tables.table_rows import CORRECTABLE, check_correction, check_new
from memory_service.store.queries import history, rows

Outcome = Literal["taken", "changed", "there", "refused"]

MOST_BYTES = 256 * 2**20
MOST_LINES = 2_000
"""Rows of a table that somebody sends: each is looked at beside the one that is stored."""
MOST_COLUMNS = 200
"""Of a table, and members of a line of JSON: each unknown one is answered with the nearest names."""
Seen = dict[tuple[str, str], tuple["ImportedLine", Mapping[str, Any]]]
"""(table, key) -> the line that names the row first and is not refused, and what stands in it."""

ORDER = (*TABLES, *(table for table in CORRECTABLE if table not in TABLES))
"""Competitions first, as other rows name them."""


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """What a line does: taken as a new row; changes a row (`changes`: [{"field", "before", "after"}]); is
    there already, with the same values; or is refused, and why. `values`: of the row, or what changes."""

    line: int
    table: str | None
    key: str | None
    outcome: Outcome
    why: str | None = None
    changes: Sequence[Mapping[str, Any]] = ()
    values: Mapping[str, Any] | None = None
    version: int | None = None


def import_file(
    database: Database, path: Path, *, encoder: EncoderSource, who: str, why: str | None = None
) -> list[ImportedLine]:
    """What became of each line, in order. Stored rows are corrected only where a reason (`why`) is given.

    InvalidInput for a file that cannot be read.
    """
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{path} cannot be read: it must be an ordinary file of at most 256 MiB")
        text = text_of(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    lines = look(database, text)
    if why is None:
        lines = [_kept(one) if one.outcome == "changed" else one for one in lines]
    apply(database, lines, encoder=encoder, who=who, why=why or f"imported from {path.name}")
    return lines


def text_of(raw: bytes, sheet: Callable[[bytes], str] = as_csv) -> str:
    """What a file says as text: of a spreadsheet its first sheet as CSV (`sheet` reads it); InvalidInput."""
    try:
        return sheet(raw) if raw.startswith(b"PK\x03\x04") else raw.decode("utf-8-sig")
    except (TooCostly, UnicodeDecodeError) as error:
        raise wrong_value("file", f"cannot be read: {error}") from error


def _kept(line: ImportedLine) -> ImportedLine:
    names = ", ".join(dict.fromkeys(each["field"].partition(".")[0] for each in line.changes))
    message = f"is there with another {names}; say why, to correct it"
    return replace(line, outcome="refused", why=message)


def apply(
    database: Database, lines: Sequence[ImportedLine], *, encoder: EncoderSource, who: str | None, why: str
) -> int | None:
    """Store what the lines add and change, so many rows (`MOST_ROWS`) all or nothing; a number of the first
    change, None where nothing is."""
    actions: dict[Outcome, history.Action] = {"taken": "create", "changed": "update"}
    useful = [line for table in ORDER for line in lines if line.table == table and line.outcome in actions]
    changes = [
        Change(str(one.table), str(one.key), actions[one.outcome], one.values or {}, one.version)
        for one in useful
    ]
    if not changes:
        return None
    for start in range(0, len(changes), MOST_ROWS):  # others write between them
        write_changes(database, changes[start : start + MOST_ROWS], encoder=encoder, who=who, why=why)
    with database.read() as transaction:
        return history.of_row(transaction.session, changes[0].table, changes[0].key, 1)[0].id


def look(
    database: Database,
    text: str,
    table: str | None = None,
    most: float = inf,
    still_wanted: Callable[[], None] = lambda: None,
) -> list[ImportedLine]:
    """What each line of a file would do, in order. InvalidInput for a text that is no table, and for one of
    over `most` rows.

    still_wanted   is called before each row; what it raises ends the look
    """
    done: list[ImportedLine] = []
    waiting: dict[str, list[tuple[int, Mapping[str, Any], bool]]] = {name: [] for name in ORDER}
    begin = text.lstrip("\ufeff \n")
    found = _json_lines(text) if begin.startswith("{") else _cells(begin, table)
    for n, (line, raw, is_text) in enumerate(found, 1):
        if n > most:
            raise wrong_value("file", f"has more than {most} rows; send it in parts")
        if isinstance(raw, str):
            done.append(ImportedLine(line, table, None, "refused", raw))
            continue
        try:
            waiting[table or _table(raw)].append((line, raw, is_text))
        except InvalidInput as error:
            done.append(ImportedLine(line, table, None, "refused", error.detail))
    seen: Seen = {}
    with database.read() as transaction:
        for name, some in waiting.items():
            for line, raw, is_text in some:
                still_wanted()
                one = _looked(transaction, name, line, raw, is_text, seen)
                if one.key is not None and one.outcome != "refused":
                    seen.setdefault((name, one.key), (one, raw))
                done.append(one)
    return sorted(done, key=lambda one: one.line)


def stamp(lines: Sequence[ImportedLine]) -> str:
    """The same for the same outcome: what is applied is what was shown."""
    told = [(one.line, one.table, one.key, one.outcome, one.version, one.values) for one in lines]
    return hashlib.sha256(repr(told).encode("utf-8", "replace")).hexdigest()


def _json_lines(text: str) -> Iterator[tuple[int, Any, bool]]:
    for line, one in enumerate(text.split("\n"), 1):
        if one.strip():
            try:
                raw = value_of(one, "json")
                if not isinstance(raw, dict):
                    raw = "is no JSON object"
                elif len(raw) > MOST_COLUMNS:
                    raw = f"has over {MOST_COLUMNS} members"
                yield line, raw, False
            except ValueError as error:
                yield line, f"is {error}", False


def _cells(text: str, table: str | None) -> Iterator[tuple[int, Any, bool]]:
    """Rows of a table of cells; InvalidInput for a head that names no key."""
    csv.field_size_limit(MOST_BYTES)
    head = text.partition("\n")[0]
    mark = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    try:
        names = [name.strip() for name in next(reader, [])]
        if not any(rows.key_of(rows.ENTITIES[one]) in names for one in ([table] if table else CORRECTABLE)):
            known = "the key of its rows" if table is None else rows.key_of(rows.ENTITIES[table])
            raise wrong_value("file", f"has no head that names {known}, as an exported table has", head[:80])
        if len(names) > MOST_COLUMNS:
            raise wrong_value(
                "file", f"has {len(names)} columns; a table has at most {MOST_COLUMNS}", head[:80]
            )
        repeated = sorted(name for name, n in Counter(names).items() if name and n > 1)
        if repeated:
            raise wrong_value("file", f"names a column twice: {', '.join(repeated)}", head[:80])
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(names):
                yield reader.line_num, f"has {len(cells)} cells under {len(names)} names", True
            else:
                yield reader.line_num, dict(zip(names, cells, strict=False)), True
    except csv.Error as error:
        raise wrong_value("file", f"cannot be read as a table in line {reader.line_num}: {error}") from error


def _table(raw: Any) -> str:
    """The table that most of a row's names are fields of."""
    if isinstance(raw, Mapping):
        counts = {
            table: len(set(fields_of(table)) & raw.keys())
            for table in CORRECTABLE
            if rows.key_of(rows.ENTITIES[table]) in raw
        }
        best = [table for table, n in counts.items() if n == max(counts.values()) and n > 2]
        if len(best) == 1:
            return best[0]
    return table_of(raw)


def _looked(
    transaction: ReadTransaction, table: str, line: int, raw: Mapping[str, Any], is_text: bool, seen: Seen
) -> ImportedLine:
    """One line beside the row that is stored."""
    key = None
    try:
        key = _key(table, raw)
        if (table, key) in seen:
            first, same = seen[table, key]
            if same == raw:
                return ImportedLine(line, table, key, "there")
            raise InvalidInput(f"names the same row as line {first.line}")
        stored = rows.find(transaction.session, table, key)
        if stored is None:
            return _added(
                transaction, table, line, key, _whole(table, raw, {}) if is_text else raw, is_text, seen
            )
        now = rows.knowledge_values(stored)
        then = _as_exported(transaction, table, key, raw, now, stored.version)
        changes = _changes(table, _whole(table, raw, then) if is_text else raw, then, is_text)
        changes = {name: value for name, value in changes.items() if value != now[name]}
        moved = [name for name in changes if now[name] != then[name]]
        if moved:
            raise InvalidInput(f"somebody changed {', '.join(moved)} since the export; export it again")
        if not changes:
            return ImportedLine(line, table, key, "there")
        check_correction(transaction, table, key, changes, stored.version)
    except MemoryServiceError as error:
        nearest = ", ".join(dict.fromkeys(name for wrong in error.errors for name in wrong.nearest))
        hint = f" (nearest: {nearest})" if nearest and nearest not in error.detail else ""
        return ImportedLine(line, table, key, "refused", error.detail + hint)
    told = difference({name: now[name] for name in changes}, changes)
    return ImportedLine(line, table, key, "changed", None, told, changes, stored.version)


def _key(table: str, raw: Mapping[str, Any]) -> str:
    name = rows.key_of(rows.ENTITIES[table])
    key = raw.get(name)
    if key is None and table == "solutions":
        key = f"{raw.get('competition')}#{raw.get('rank')}"
    if not isinstance(key, str) or not key.strip():
        raise wrong_value(name, "is needed: it names the row")
    return undefused(key.strip())


def _as_exported(
    transaction: ReadTransaction,
    table: str,
    key: str,
    raw: Mapping[str, Any],
    now: Mapping[str, Any],
    version: int,
) -> Mapping[str, Any]:
    """The row at the version that the line was exported with; as it is now where none is said."""
    text = str(raw.get("version") or "").strip().removesuffix(".0")
    if not text.isdecimal() or not 0 < int(text[:9]) < version:
        return now
    entry = history.after_version(transaction.session, table, key, int(text[:9]))
    return {**now, **entry.before} if entry is not None and entry.before else now


def _whole(table: str, raw: Mapping[str, Any], then: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cells with the objects that stand piece by piece (`value.batch_size`) as JSON, where a piece differs
    from the export; an emptied piece goes. Those of a new row may all be empty."""
    apart = {name for name in fields_of(table) if kind_of(table, name) == "json"} - raw.keys()
    new = [] if then else [name.partition(".")[0] for name in raw]
    objects: dict[str, dict[str, Any]] = {whole: {} for whole in new if whole in apart}
    for name, cell in raw.items():
        whole, _, piece = name.partition(".")
        was = then.get(whole) or {}
        if whole not in apart or not isinstance(was, Mapping) or _same(cell, exported_cell(was.get(piece))):
            continue
        now = objects.setdefault(whole, dict(was))
        now[piece] = piece_of(was.get(piece), undefused(_plain(cell)))
        if now[piece] in ("", None):
            del now[piece]
    return {**raw, **{whole: json.dumps(pieces) for whole, pieces in objects.items()}}


def piece_of(was: Any, text: str) -> Any:
    """What a cell of an object says in place of what it was."""
    if isinstance(was, str):
        return text
    try:
        return value_of(_pointed(text), "boolean" if text.lower() in ("true", "false") else "json")
    except ValueError:
        return text


def _changes(table: str, raw: Mapping[str, Any], then: Mapping[str, Any], is_text: bool) -> dict[str, Any]:
    """The fields in which a line differs from the row as it was exported."""
    own = [name for name in fields_of(table) if name in raw]
    if is_text:
        apart = {name: raw[name] for name in own if not _same(raw[name], exported_cell(then[name]))}
        cut = [name for name, cell in apart.items() if _is_cut(cell, exported_cell(then[name]))]
        if cut:
            most = f"{MOST_CHARACTERS:,}"
            raise InvalidInput(f"{', '.join(cut)}: the spreadsheet has only the first {most} characters")
        return {name: value for name, value in _read(table, apart).items() if value != then[name]}
    whole = "version" in raw  # an export says all of a row; a file of facts may leave open what is known here
    values = raw if whole else as_row(table, raw)
    given = {name: values[name] for name in own if name in values}
    return {name: v for name, v in given.items() if v != then[name] and (whole or v is not None)}


def _added(
    transaction: ReadTransaction,
    table: str,
    line: int,
    key: str,
    raw: Mapping[str, Any],
    is_text: bool,
    seen: Seen,
) -> ImportedLine:
    values = (
        {name: value for name, value in _read(table, raw).items() if value is not None} if is_text else raw
    )
    values = as_row(table, values) if table in TABLES else values
    own = fields_of(table)
    values = {n: v for n, v in values.items() if n in own} if is_text or "version" in raw else dict(values)
    named = seen.get(("competitions", str(values.get("competition"))))
    if named and named[0].outcome == "taken":  # its competition is in the same file
        validate(table, values)
    else:
        check_new(transaction, table, values)
    return ImportedLine(line, table, key, "taken", values=values)


def _same(cell: str, exported: str) -> bool:
    """Whether a cell is as it was exported; spreadsheets cut long ones."""
    comma = _COMMA.fullmatch(plain := _plain(cell)) and plain.replace(",", ".") == exported
    return bool(comma) or plain in (_plain(exported), _plain(exported[:MOST_CHARACTERS]))


def _is_cut(cell: str, exported: str) -> bool:
    """Whether a cell that was edited is of a text whose end a spreadsheet left out."""
    cell, whole, kept = _plain(cell), _plain(exported), _plain(exported[:MOST_CHARACTERS])
    as_long = MOST_CHARACTERS - 5 * _END < len(cell) <= MOST_CHARACTERS
    ends_so = len(cell) > _END and cell[-_END:] in kept[-2 * _END :] and not whole.endswith(cell[-_END:])
    return len(exported) > MOST_CHARACTERS and (as_long or ends_so)


_END = 200
"""Characters at the end of a cell by which a cut one is known."""


def _pointed(text: str) -> str:
    """A number with a decimal comma as one with a point; "1,024" may be a thousand, and stays."""
    return text.replace(",", ".") if _COMMA.fullmatch(text) and not _GROUPED.fullmatch(text) else text


_COMMA, _GROUPED = re.compile(r"-?\d{1,15},\d{1,15}"), re.compile(r"-?[1-9]\d{0,2},\d{3}")


def _plain(cell: str) -> str:
    return cell.replace("\r\n", "\n").replace("\r", "\n").strip()


def _read(table: str, cells: Mapping[str, str]) -> dict[str, Any]:
    """Cells as values of the table's fields; InvalidInput names each that cannot be read."""
    wrong, values = [], dict[str, Any]()
    for name in fields_of(table):
        if name in cells:
            try:
                values[name] = value_of(undefused(_plain(cells[name])), kind_of(table, name))
            except ValueError as error:
                wrong.append(f"{name} cannot be read: {error}")
    if wrong:
        raise InvalidInput("; ".join(wrong))
    return values


@cache
def schema_of(table: str) -> Mapping[str, Any]:
    """JSON Schema of each field of a table."""
    properties: dict[str, Any] = ROW_MODELS[table].model_json_schema()["properties"]
    return properties


def form_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a field may be beside null."""
    forms = (form for form in schema.get("anyOf", (schema,)) if form.get("type") != "null")
    form: Mapping[str, Any] = next(forms)
    return form


def kind_of(table: str, name: str) -> str:
    """How a field is written as text: `text`, `long`, `number`, `boolean`, `choice` or `json`."""
    form = form_of(schema_of(table)[name])
    if "enum" in form or "const" in form:
        return "choice"
    if form.get("type") in ("object", "array") or "$ref" in form:
        return "json"
    kinds = {"boolean": "boolean", "integer": "number", "number": "number"}
    return kinds.get(str(form.get("type")), "long" if form.get("maxLength", 0) > 1000 else "text")


def value_of(text: str, kind: str) -> Any:
    """What a text says; ValueError for what cannot be read."""
    if text == "":
        return None
    if kind == "json":
        try:
            value = orjson.loads(text)
            orjson.dumps(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"no JSON ({error.msg} in line {error.lineno})") from None
        except orjson.JSONEncodeError:
            raise ValueError("nested deeper than 254 levels") from None
        return value
    if kind == "number":
        for read in (int, float):
            with suppress(ValueError):
                return read(_pointed(text))
        raise ValueError("must be a number")
    return {"true": True, "false": False}.get(text.lower(), text) if kind == "boolean" else text
