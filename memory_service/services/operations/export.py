"""Whole tables as files: all that is listed, and what runs and predictions add up to.

Each piece is a page read in a transaction of its own: a reader that is slow, or never comes back, pins
neither a connection nor a snapshot.
"""

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from types import UnionType
from typing import Any, get_args, get_type_hints

from cachetools import LRUCache
from sqlalchemy import select

from memory_service.domain.learning.observation import Observation as Observed
from memory_service.domain.monitoring.event import KIND_FIELDS, SETTING_FIELDS
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import unknown_name, wrong_value
from memory_service.schemas.lists import MAX_LIMIT
from memory_service.services.conflicts.conflicts import narrowed_conflicts
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.knowledge.outcomes import BESIDE
from memory_service.services.runs.scored_runs import compared
from memory_service.services.runs.telemetry import known_run_key
from memory_service.services.tables.file_formats import TableExport, in_format
from memory_service.services.tables.paging import Query, key_name, parse_query
from memory_service.services.tables.table_rows import TABLES, listed_columns, one_page, table_named
from memory_service.store.dialects import UtcDateTime
from memory_service.store.engine import read_object
from memory_service.store.queries import rows, runs
from memory_service.store.queries.rows import fingerprints
from memory_service.store.tables.runs import Run, RunEvent

MOST_BYTES = 16 * 2**20
MOST_OF_ONE = 4 * 2**20
"""A larger file is made anew each time, and never whole in memory."""

CACHED_TABLES = ("claims", "competitions", "models", "profiles", "solutions", "strategies")
"""Whose export depends on their own rows alone, not on devices or outcomes of runs."""

Key = tuple[str, str]
"""(table, query)"""


class ExportCache:
    """Up to 16 MiB of files; the least recently used goes first. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: LRUCache[Key, tuple[object, bytes]] = LRUCache(MOST_BYTES, lambda file: len(file[1]))

    def get(self, key: Key, fingerprint: object) -> bytes | None:
        """The file, None where it was made of other rows, or never."""
        with self._lock:
            known, file = self._files.get(key, (None, b""))
        return file if known == fingerprint else None

    def put(self, key: Key, fingerprint: object, file: bytes) -> None:
        with self._lock:
            self._files[key] = (fingerprint, file)


def cached(database: Database, key: Key, pieces: Iterator[bytes]) -> tuple[bytes] | Iterator[bytes]:
    """The whole file from the cache; else the pieces, which are cached once all were read."""
    fingerprint = _fingerprint(database, key[0])
    known = database.caches.of(ExportCache).get(key, fingerprint)
    return (known,) if known is not None else _caching(database, key, fingerprint, pieces)


def _caching(database: Database, key: Key, fingerprint: object, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Nothing is cached where a row changed since the fingerprint was taken: each page of rows is a
    transaction of its own."""
    file, size = list[bytes](), 0
    for piece in pieces:
        size += len(piece)
        file = [*file, piece] if size <= MOST_OF_ONE else []
        yield piece
    if size <= MOST_OF_ONE and _fingerprint(database, key[0]) == fingerprint:
        database.caches.of(ExportCache).put(key, fingerprint, b"".join(file))


def _fingerprint(database: Database, table: str) -> object:
    with database.read() as transaction:
        return fingerprints(transaction.session, table)[table]


Filters = Mapping[str, Any]
Row = Mapping[str, Any]
Pages = Iterator[Sequence[Row]]


def stream_rows(
    database: Database,
    table: str,
    filters: Filters | None = None,
    sort: str | None = None,
    format: str = "jsonl",  # noqa: A002 - the name of the query parameter
) -> tuple[bytes] | Iterator[bytes]:
    """All rows that match: one piece from the cache (a tuple), else pieces as they are made. Everything wrong
    is raised here, before the first piece."""
    pieces = in_format(table_export(database, table, filters, sort), format)
    if TABLES.get(table) not in CACHED_TABLES:
        return pieces
    key = (TABLES[table], repr((format, sort, sorted((filters or {}).items()))))
    return cached(database, key, pieces)


def table_export(
    database: Database, table: str, filters: Filters | None = None, sort: str | None = None,
    keys: Sequence[str] | None = None,
) -> TableExport:  # fmt: skip
    """The table as it will leave; with `keys` these rows, in this order. InvalidInput with the nearest names
    for what is not known; NotFound for a run that nobody began."""
    requested = {name: value for name, value in (filters or {}).items() if value is not None}
    if table in _SPECIAL:
        return _SPECIAL[table](database, requested, sort)
    if table not in EXPORTS:
        raise unknown_name("table", table, EXPORTS)
    query = parse_query(table_named(table), requested, sort, MAX_LIMIT)
    columns = {name: _stored_type(query.table, name) for name in listed_columns(query.table)}
    beside = _counted if query.table == "patterns" else BESIDE.get(query.table)
    columns |= _COLUMNS_BESIDE.get(query.table, {})
    if keys is not None:
        return TableExport(columns, partial(_named_pages, database, query, keys, beside))
    return TableExport(columns, partial(_pages, database, query, beside))


Beside = Callable[[ReadTransaction, Sequence[Row]], list[dict[str, Any]]]


def _pages(database: Database, query: Query, beside: Beside | None) -> Pages:
    following: Query | None = query
    while following is not None:
        with database.read() as transaction:
            page = one_page(transaction, following)
            items = beside(transaction, page.items) if beside is not None and page.items else page.items
        yield items
        following = query.resumed(page.next) if page.next else None


def _named_pages(database: Database, query: Query, keys: Sequence[str], beside: Beside | None) -> Pages:
    key = key_name(query.table)
    for start in range(0, len(keys), MAX_LIMIT):
        some = keys[start : start + MAX_LIMIT]
        asked = replace(query, filters=((key, "of", some),))
        found = {row[key]: row for page in _pages(database, asked, beside) for row in page}
        yield [found[name] for name in some if name in found]


def _stored_type(table: str, name: str) -> type[Any]:
    stored = rows.LISTED[table].__table__.columns[name].type
    if isinstance(stored, UtcDateTime):
        return dt.datetime
    kind: type[Any] = stored.python_type
    return kind if kind in (bool, int, float, str) else object


def _counted(transaction: ReadTransaction, found: Sequence[Row]) -> list[dict[str, Any]]:
    """Patterns with their tallies, flat."""
    reported = BESIDE["patterns"](transaction, found)
    return [{**row, **tally["outcomes"]} for row, tally in zip(found, reported, strict=True)]


_COLUMNS_BESIDE: Mapping[str, dict[str, type[Any]]] = {
    "patterns": {n: {"chance_better": object, "demoted": bool}.get(n, int) for n in Tally().as_dict()},
    "gpus": {"devices": object},
    "strategies": {"steers_plans": bool},
    "calibrations": {"stale": object},
}
"""Of what rows carry beside their columns: name -> type."""


def _observations(database: Database, requested: Filters, sort: str | None) -> TableExport:
    """What runs showed of devices: the observation's fields as columns."""
    query = parse_query("observations", requested, sort, MAX_LIMIT)
    hints = get_type_hints(Observed)
    columns = {field.name: _plain_type(hints[field.name]) for field in fields(Observed)}

    def opened(_: ReadTransaction, found: Sequence[Row]) -> list[dict[str, Any]]:
        return [{"id": row["id"], **row["observation"]} for row in found]

    return TableExport({"id": str, **columns}, partial(_pages, database, query, opened))


def _plain_type(hint: Any) -> type[Any]:
    """`float | None` -> float; a choice of words is text."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return next((one for one in parts if one in (bool, int, float)), str)


def _accuracy(database: Database, requested: Filters, sort: str | None) -> TableExport:
    """Every figure that was predicted for a run and happened, one a row; filters and sorts are those of
    runs."""
    query = parse_query("runs", requested, sort, MAX_LIMIT)
    about = ("gpu", "device", "family", "model", "input_size", "batch_size", "precision", "status")
    columns: dict[str, type[Any]] = {"run_id": str, "finished_at": dt.datetime}
    columns |= {name: _stored_type("runs", name) for name in about}
    columns |= {"quantity": str, "predicted": float, "low": float, "high": float, "grade": str, "n": int}
    columns |= {"basis": str, "actual": float, "error_percent": float, "inside": bool, "excluded": str}

    def scored(transaction: ReadTransaction, found: Sequence[Row]) -> list[dict[str, Any]]:
        ids = [row["id"] for row in found if row["finished_at"] is not None]
        stored = select(Run.id, Run.prediction).where(Run.id.in_(ids))
        predictions = {one.id: one.prediction for one in transaction.session.execute(stored)}
        observations = runs.observations_by_run(transaction.session, ids)
        return [
            {"run_id": row["id"], "finished_at": row["finished_at"], **{name: row[name] for name in about}}
            | {**pair, **{"predicted" if n == "value" else n: v for n, v in pair["predicted"].items()}}
            for row in found
            if row["finished_at"] is not None
            for pair in compared(row, predictions.get(row["id"]), observations.get(row["id"], ()))
        ]

    return TableExport(columns, partial(_pages, database, query, scored))


def _conflicts(database: Database, requested: Filters, sort: str | None) -> TableExport:
    found = narrowed_conflicts(database, requested, sort)
    numbers: dict[str, type[Any]] = dict.fromkeys(("input_size", "image_size", "batch_size"), int)
    numbers["apart"] = float
    nested = ("assumed", "sides", "uses", "fits")
    names = (
        "id", "quantity", "unit", "gpu", "device", "model", "image_size", "input_size", "batch_size",
        "precision", "assumed", "statement", "sides", "apart", "used", "uses", "why", "fits",
    )  # fmt: skip
    columns = {name: numbers.get(name, object if name in nested else str) for name in names}
    return TableExport(columns, lambda: iter([found]))


def _run_events(database: Database, requested: Filters, sort: str | None) -> TableExport:
    """The events of one run, in the order of seq."""
    unknown = [name for name in requested if name not in ("run_id", "kind")]
    if unknown:
        raise unknown_name("filter", unknown[0], ("run_id", "kind"))
    if sort not in (None, "seq"):
        raise unknown_name("sort", str(sort), ("seq",))
    if "run_id" not in requested:
        raise wrong_value("run_id", "is needed: events leave one run at a time")
    key = known_run_key(str(requested["run_id"]))
    kinds = [str(requested["kind"])] if "kind" in requested else []
    with database.read() as transaction:
        runs.existing(transaction.session, key)

    def pages() -> Pages:
        query = select(RunEvent.seq, RunEvent.kind, RunEvent.body).where(RunEvent.run_id == key)
        query = query.where(RunEvent.kind.in_(kinds)) if kinds else query
        query = query.order_by(RunEvent.seq).limit(_EVENTS_AT_ONCE)
        last, more = -1, True
        while more:
            with database.read() as transaction:
                reported = transaction.session.execute(query.where(RunEvent.seq > last)).all()
            yield [{"run_id": key, "seq": e.seq, "kind": e.kind, **read_object(e.body)} for e in reported]
            more = len(reported) == _EVENTS_AT_ONCE
            last = reported[-1].seq if reported else last

    return TableExport(_event_columns(), pages)


_EVENTS_AT_ONCE = 2_000


def _event_columns() -> Mapping[str, type[Any]]:
    """Every field that some kind of event has. A loss may be the text "nan": as a number it is one."""
    columns: dict[str, type[Any]] = {"run_id": str, "seq": int, "kind": str, "at": dt.datetime}
    types = {"number": float, "whole": float, "score": float, "flag": bool}
    for forms in KIND_FIELDS.values():
        for name, form in {**SETTING_FIELDS, **forms}.items():
            columns.setdefault(name, types.get(form.sort, str))
    return columns | {"at_told": dt.datetime}


_SPECIAL: Mapping[str, Callable[[Database, Filters, str | None], TableExport]] = {
    "accuracy": _accuracy,
    "conflicts": _conflicts,
    "observations": _observations,
    "run-events": _run_events,
}

EXPORTS = (*TABLES, "runs", "calibrations", "devices", "history", *_SPECIAL)
"""Names of all tables that leave."""
