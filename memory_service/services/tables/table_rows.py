"""Rows of the tables of knowledge: listed, read, added, corrected and deleted, with history.

Tables are named as their pages are: competitions, patterns, models, gpus, strategies, claims, and sizing
(profiles, listed without the profile itself). Rows are mappings with the keys of the seeds and the store's
bookkeeping.
"""

import datetime as dt
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import select

from memory_service.domain.common.row_difference import difference
from memory_service.domain.cost.profile import Profile
from memory_service.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    Moved,
    NotFound,
    nothing_named,
    unknown_name,
    wrong_value,
)
from memory_service.schemas import rows as values_of_rows
from memory_service.schemas.fields import clean_text, key_text
from memory_service.services.database.transactions import ReadTransaction, WriteTransaction
from memory_service.services.tables.audit import NO_KEY
from memory_service.services.tables.mode_limit import check_shown
from memory_service.services.tables.paging import Query, parse_query
from memory_service.services.tables.usable_rows import proven
from memory_service.store.dialects import UtcDateTime
from memory_service.store.queries import calibrations, history, passages, rows
from memory_service.store.queries.rows import fingerprints
from memory_service.store.tables.knowledge import Correctable, History, Pattern, Solution

CORRECTABLE = ("competitions", "solutions", "patterns", "models", "gpus", "strategies", "claims")
"""People add and correct rows of these. Profiles are computed, and computed again when they are wrong."""

TABLES: Mapping[str, str] = {**{name: name for name in CORRECTABLE}, "sizing": "profiles"}
"""Name of the page -> name of the table."""

_NAMES = {"solutions": ("competition", "rank")}
"""The fields that make the key of a row, where it is not one of them."""

LONGEST_WHY = 4_000

PAGING_FIELDS = ("sort", "limit", "cursor")

BOOKKEEPING_SHOWN = ("version", "origin", "corrected", "created_at", "updated_at")
"""What a row says about itself beside its values."""

_HIDDEN = ("seed_digest", "told_by")
_ONLY_ALONE = {
    "profiles": ("profile",),
    "calibrations": ("fingerprint", "environment", "sections", "missing", "self_check", "runner"),
    "devices": ("told_at",),
    "observations": ("teller", "latest"),
    "history": ("before", "after"),
    "runs": ("digest", "given", "prediction", "summary", "finish", "watch", "exclusion"),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in order; `next` is the cursor of the page behind, None at the end."""

    items: list[dict[str, Any]]
    next: str | None


def table_named(name: str) -> str:
    """The table behind a page's name (`sizing` → `profiles`); InvalidInput with the nearest names."""
    if name in TABLES:
        return TABLES[name]
    if name in rows.LISTED:
        return name
    raise unknown_name("table", name, tuple(TABLES))


def list_rows(
    transaction: ReadTransaction,
    table: str,
    filters: Mapping[str, Any] | None = None,
    sort: str | None = None,
    limit: int | str | None = None,
    cursor: str | None = None,
) -> Page:
    """One page of a table. `filters` and `sort` as `paging.filter_names` and `sort_names` list them."""
    return one_page(transaction, parse_query(table_named(table), filters, sort, limit, cursor))


def list_requested(transaction: ReadTransaction, table: str, requested: Mapping[str, Any]) -> Page:
    """The same for the fields of a URL: filters, `sort`, `limit` and `cursor`."""
    filters = {name: value for name, value in requested.items() if name not in PAGING_FIELDS}
    return list_rows(transaction, table, filters, *(requested.get(name) for name in PAGING_FIELDS))


def one_page(transaction: ReadTransaction, query: Query) -> Page:
    """The page that a checked question asks for."""
    check_shown(query.table)
    shown = listed_columns(query.table)
    found: list[dict[str, Any]] = []
    for part in query.parts(select(*(rows.column(query.entity, name) for name in shown))):
        some = part.limit(query.limit + 1 - len(found))  # one more than the page, to see if it is the last
        found += (dict(zip(shown, row, strict=True)) for row in transaction.session.execute(some))
        if len(found) > query.limit:
            break
    after = query.cursor(found[query.limit - 1]) if len(found) > query.limit else None
    items = found[: query.limit]
    for name in _times(query.table):
        for row in items:
            row[name] = None if row[name] is None else _wire_time(row[name])
    return Page(items, after)


def every_row(transaction: ReadTransaction, table: str) -> list[dict[str, Any]]:
    """All rows of a table of knowledge as lists have them, by key, without long descriptions; read anew only
    where one changed."""
    name = table_named(table)
    check_shown(name)

    def make() -> list[dict[str, Any]]:
        items = one_page(transaction, replace(parse_query(name), limit=sys.maxsize - 1)).items
        return [{n: value for n, value in row.items() if n != "description"} for row in items]

    state = fingerprints(transaction.session, name)[name]
    return transaction.caches.latest((every_row, name), state, make)


def count_rows(transaction: ReadTransaction, table: str, filters: Mapping[str, Any] | None = None) -> int:
    """How many rows match: all of them are looked at, so only who asks for it pays."""
    query = parse_query(table_named(table), filters)
    return int(transaction.session.scalar(query.counting()) or 0)


def listed_columns(table: str) -> tuple[str, ...]:
    """The columns of a list and of an export."""
    hidden = (*_HIDDEN, *_ONLY_ALONE.get(table, ()))
    return tuple(name for name in rows.columns(rows.LISTED[table]) if name not in hidden)


@lru_cache(maxsize=64)
def _times(table: str) -> tuple[str, ...]:
    """Those of `listed_columns` that are times."""
    columns = rows.LISTED[table].__table__.columns
    return tuple(name for name in listed_columns(table) if isinstance(columns[name].type, UtcDateTime))


def get_row(transaction: ReadTransaction, table: str, key: str) -> dict[str, Any]:
    """One row, whole; NotFound when there is none."""
    check_shown(table)
    return on_the_wire(rows.values_of(_existing(transaction, table_named(table), key)))


def create_row(
    transaction: WriteTransaction,
    table: str,
    values: Mapping[str, Any],
    *,
    who: str,
    why: str = "added",
    new_passages: Sequence[passages.NewPassage] | None = None,
) -> dict[str, Any]:
    """Add a row. Conflict names the row that already has the key; InvalidInput each wrong field.

    `new_passages` are a competition's texts, encoded before this transaction
    (`services.editorial.curation` does
    it).
    """
    table = _correctable(table)
    stored = check_new(transaction, table, values)
    key_name = rows.key_of(rows.ENTITIES[table])
    key = stored[key_name]
    if rows.find(transaction.session, table, key) is not None:
        detail = f"{table} already has {key!r}; correct that one or choose another {key_name}"
        raise Conflict(detail, [FieldError(key_name, "is taken", key, (key,))])
    rows.insert_all(transaction.session, table, [stored | rows.bookkeeping("user", transaction.now)])
    if new_passages is not None:
        passages.replace(transaction.session, key, new_passages)
    _record(transaction, table, key, "create", who, why, version=1, after=stored)
    return get_row(transaction, table, key)


def update_row(
    transaction: WriteTransaction,
    table: str,
    key: str,
    changes: Mapping[str, Any],
    *,
    who: str,
    why: str,
    expected_version: int | None = None,
    new_passages: Sequence[passages.NewPassage] | None = None,
) -> dict[str, Any]:
    """Correct a row; a seed never overwrites it afterwards. Conflict when it is not at `expected_version` any
    more.

    Values that are already so change nothing, not even the version. A row that is again as it was shipped is
    not `corrected` any more.
    """
    table = _correctable(table)
    row = _existing(transaction, table, key, to_change=True)
    before, after = _corrected(transaction, table, row, changes, expected_version)
    if after != before:
        shipped = history.shipped_values(transaction.session, table, key) if row.origin == "seed" else None
        changed = after | {"corrected": after != shipped, "updated_at": transaction.now}
        rows.change(transaction.session, row, changed)
        version = row.version
        _record(transaction, table, key, "update", who, why, version=version, before=before, after=after)
    if new_passages is not None:
        passages.replace(transaction.session, key, new_passages)
    return get_row(transaction, table, key)


def check_new(transaction: ReadTransaction, table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they would be stored, used once: who asks before a transaction that writes lets nobody
    wait for that. InvalidInput names each wrong field."""
    stored = values_of_rows.validate(_correctable(table), values)
    _check_use(transaction, table, stored)
    return stored


def check_correction(
    transaction: ReadTransaction, table: str, key: str, changes: Mapping[str, Any], expected: int | None
) -> None:
    """The same of a correction; errors as of `update_row`."""
    _corrected(transaction, table, _existing(transaction, _correctable(table), key), changes, expected)


def _corrected(
    transaction: ReadTransaction,
    table: str,
    row: Correctable,
    changes: Mapping[str, Any],
    expected: int | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values before and after."""
    before, key_name = rows.knowledge_values(row), rows.key_of(type(row))
    key = before[key_name]
    _same_version(transaction, table, key, row, expected)
    given = {name: before[name] for name in values_of_rows.fields_of(table)}  # what follows from them is left
    after = values_of_rows.validate(table, given | dict(changes))
    if after[key_name] != key:
        named = tuple(name for name in _NAMES.get(table, (key_name,)) if after[name] != before[name])
        message = "cannot change; add a new row and delete this one"
        errors = [FieldError(name, message, None, (str(before[name]),)) for name in named]
        raise InvalidInput(f"{' and '.join(named)} names the row and cannot change", errors)
    if after != before:
        _check_use(transaction, table, after, before)
    return before, after


def delete_row(
    transaction: WriteTransaction,
    table: str,
    key: str,
    *,
    who: str,
    why: str,
    expected_version: int | None = None,
) -> None:
    """Delete a row; a seed does not bring it back. Conflict while other rows need it."""
    table = _correctable(table)
    row = _existing(transaction, table, key, to_change=True)
    _same_version(transaction, table, key, row, expected_version)
    if table == "competitions":
        children = (("patterns", Pattern), ("solutions", Solution))
        found = [(name, _naming(transaction, child, key)) for name, child in children]
        needing = [f"{name} {', '.join(ids)}" for name, ids in found if ids]
        if needing:
            raise Conflict(f"competition {key!r} is named by {' and '.join(needing)}; delete those first")
    if table == "gpus":
        named = calibrations.names_by_gpu(transaction.session, [key])[key]
        if named:
            raise Conflict(f"GPU model {key!r} is that of devices {', '.join(named[:5])}; delete those first")
    before = rows.knowledge_values(row)
    rows.remove(transaction.session, row)
    _record(transaction, table, key, "delete", who, why, version=row.version, before=before)


def history_of(transaction: ReadTransaction, table: str, key: str, limit: int = 100) -> list[dict[str, Any]]:
    """What was done to a row, newest first, also after its deletion, each with `changes`: [{field, before,
    after}] and `can_undo`: nothing later touched what it changed. NotFound for a row that never was."""
    table = table_named(table)
    try:
        entries = history.of_row(transaction.session, table, clean_text(key), limit)
    except ValueError:
        entries = []
    if not entries:
        _existing(transaction, table, key)
    return told(transaction, entries)


_OF_ENTRY = ("id", "table", "row", "version", "action", "origin", "at", "who", "why", "before", "after")


def told(transaction: ReadTransaction, entries: Sequence[History]) -> list[dict[str, Any]]:
    """Entries as `history_of` has them; each row is read once."""
    for entry in entries:
        check_shown(entry.table)
    keys = {(entry.table, entry.row) for entry in entries}
    found = {of: rows.find(transaction.session, *of) for of in keys}
    now = {of: None if row is None else rows.knowledge_values(row) for of, row in found.items()}
    return [
        on_the_wire({name: getattr(entry, name) for name in _OF_ENTRY})
        | {
            "changes": difference(entry.before or {}, entry.after or {}),
            "can_undo": _can_undo(entry, now[entry.table, entry.row]),
        }
        for entry in entries
    ]


def _can_undo(entry: History, now: Mapping[str, Any] | None) -> bool:
    """Whether a row (None: gone) still has all that a person's change gave it."""
    if entry.origin == "seed" or (entry.action == "delete") != (now is None):
        return False
    before, after = entry.before or {}, entry.after or {}
    return now is None or all(now.get(n) == v for n, v in after.items() if before.get(n) != v)


def keep_profiles(transaction: WriteTransaction, profiles: Iterable[Profile], *, source: str) -> int:
    """Store profiles computed here; one that is there already is replaced. Returns how many."""
    stored = [
        values_of_rows.profile_values(profile, source, "estimated")
        | rows.bookkeeping("user", transaction.now)
        for profile in profiles
    ]
    rows.upsert(transaction.session, "profiles", stored)
    return len(stored)


def keep_trace(transaction: WriteTransaction, profile: Profile) -> None:
    """Store what was traced for a run, once."""
    if rows.find(transaction.session, "profiles", values_of_rows.profile_id(profile)) is None:
        keep_profiles(transaction, [profile], source=rows.TRACED_FOR_A_RUN)


def _correctable(table: str) -> str:
    if table not in CORRECTABLE:
        raise unknown_name("table", table, CORRECTABLE)
    return table


def _existing(transaction: ReadTransaction, table: str, key: str, *, to_change: bool = False) -> Correctable:
    row = rows.find(transaction.session, table, key_text(key), to_change=to_change)
    if row is None:
        shown = key[:80].encode("utf-8", "replace").decode()
        known = [] if to_change else rows.keys(transaction.session, table)  # not while others wait to write
        near = nothing_named(table, shown, known).errors
        hint = f"; nearest: {', '.join(near[0].nearest)}" if near[0].nearest else ""
        raise NotFound(f"{table} has no {shown!r}{hint}", near)
    return row


def _same_version(
    transaction: ReadTransaction, table: str, key: str, row: Correctable, expected: int | None
) -> None:
    if expected is None or row.version == expected:
        return
    now = rows.knowledge_values(row)
    next_entry = history.after_version(transaction.session, table, key, expected)
    then = next_entry.before if next_entry is not None and next_entry.before is not None else now
    changes = difference(then, now)
    reported = f" ({', '.join(change['field'] for change in changes[:5])})" if changes else ""
    raise Moved(
        f"{table} {key!r} is at version {row.version}, not {expected}: somebody changed it{reported}",
        [FieldError("version", "is not the row's version any more", expected, (str(row.version),))],
        current=on_the_wire(rows.values_of(row)),
        changes=changes,
    )


def _naming(transaction: ReadTransaction, child: type[Pattern] | type[Solution], slug: str) -> Sequence[str]:
    """The first five rows that are about a competition."""
    return transaction.session.scalars(
        select(child.id).where(child.competition == slug).order_by(child.id).limit(5)
    ).all()


def _gpu_names(row: Mapping[str, Any]) -> set[str]:
    return {row["slug"], row["name"], *(row.get("aliases") or ())}


def _check_use(
    transaction: ReadTransaction,
    table: str,
    stored: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> None:
    """Raises where the row cannot be used. before: the row that it corrects."""
    slug = stored.get("competition") if table in ("patterns", "solutions") else None
    if slug is not None and rows.find(transaction.session, "competitions", slug) is None:
        detail = f"competition {slug!r} is not known"
        raise wrong_value("competition", "is not known; add it first", slug, detail=detail)
    if table == "gpus":
        names = _gpu_names(stored) - (_gpu_names(before) if before else set())
        device = calibrations.bearing(transaction.session, names, NO_KEY)
        if device is not None:
            raise Conflict(f"a device that a key registered is called {device!r}; delete it first")
    shipped = rows.profiles_of(transaction.session, stored["name"]) if table == "models" else ()
    if table in ("models", "gpus"):
        build = values_of_rows.BUILT
        proven(build[table](stored), [build["profiles"]({"profile": one}) for one in shipped])


def _record(
    transaction: WriteTransaction, table: str, key: str, action: Any, who: str, why: str, **what: Any
) -> None:
    who, why = _said("who", who, 200), _said("why", why, LONGEST_WHY)
    history.record(transaction.session, transaction.now, table, key, action, who=who, why=why, **what)


def _said(field: str, given: str, most: int) -> str:
    text = given.strip()
    message = "" if 1 <= len(text) <= most else f"must have 1 to {most} characters"
    try:
        clean_text(text)
    except ValueError as error:
        message = str(error)
    if message:
        raise wrong_value(field, message)
    return text


def on_the_wire(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON has it: times in ISO 8601 UTC, without what is the store's own."""
    return {
        name: _wire_time(value) if isinstance(value, dt.datetime) else value
        for name, value in row.items()
        if name not in _HIDDEN
    }


@lru_cache(maxsize=1024)
def _wire_time(value: dt.datetime) -> str:
    return f"{value.isoformat(timespec='microseconds')[:26]}Z"
