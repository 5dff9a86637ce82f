"""Queries that all tables of knowledge share: list, read, insert, change.

Values go in and out as mappings with the keys of the seeds; `BOOKKEEPING` is what the store adds.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    String,
    Table,
    delete,
    func,
    insert,
    inspect,
    literal,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm.exc import StaleDataError

from memory_service.store import dialects
from memory_service.store.dialects import JsonObject
from memory_service.store.engine import is_readable
from memory_service.store.session import ReadSession, WriteSession, locked_if
from memory_service.store.tables.devices import Calibration, Device
from memory_service.store.tables.knowledge import (
    Base,
    Claim,
    Competition,
    Correctable,
    Gpu,
    History,
    Model,
    ModelTask,
    Pattern,
    Profile,
    Solution,
    Strategy,
)
from memory_service.store.tables.runs import Observation, Run

ENTITIES: Mapping[str, type[Correctable]] = {
    each.__tablename__: each
    for each in (Competition, Solution, Pattern, Model, Profile, Gpu, Claim, Strategy)
}
"""In the order in which rows may be inserted (parents first)."""

LISTED: Mapping[str, type[Base]] = {
    **ENTITIES,
    **{each.__tablename__: each for each in (Device, Calibration, Run, Observation, History)},
}
"""What can be paged, filtered and exported: the tables of knowledge, and what the service itself records."""

TRACED_FOR_A_RUN = "traced for a run"
"""The source of such profiles, which are no part of the catalogue."""

_FEW = 500

BOOKKEEPING = ("version", "origin", "corrected", "seed_digest", "created_at", "updated_at")


def columns(entity: type[Base]) -> tuple[str, ...]:
    """Column names in the order of the table's definition, key first, bookkeeping last."""
    if not issubclass(entity, Correctable):
        return tuple(c.name for c in entity.__table__.columns)
    names = [c.name for c in entity.__table__.columns if c.name not in BOOKKEEPING]
    facts = [name for name in names if name not in ("source", "grade")]
    return (*facts, "source", "grade", *BOOKKEEPING)


def key_of(entity: type[Base]) -> str:
    """The name of the key column: slug, name or id."""
    return next(iter(_table(entity).primary_key.columns)).name


def column(entity: type[Base], name: str) -> InstrumentedAttribute[Any]:
    attribute: InstrumentedAttribute[Any] = getattr(entity, name)
    return attribute


def values_of(row: Correctable) -> dict[str, Any]:
    """A row as a mapping with every column, times as datetime."""
    return {name: getattr(row, name) for name in columns(type(row))}


def knowledge_values(row: Correctable) -> dict[str, Any]:
    """The same without `BOOKKEEPING`."""
    return {name: value for name, value in values_of(row).items() if name not in BOOKKEEPING}


def all_rows(session: ReadSession, table: str, keys: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every row as its seed would be written, ordered by key. keys: where they are few, of these alone."""
    entity = ENTITIES[table]
    names = [name for name in columns(entity) if name not in BOOKKEEPING]
    key = column(entity, key_of(entity))
    query = select(*(column(entity, name) for name in names)).order_by(key)
    query = query.where(key.in_(keys)) if 0 < len(keys) <= _FEW else query
    return [dict(zip(names, row, strict=True)) for row in session.execute(query)]


def stamps(session: ReadSession, table: str) -> dict[str, object]:
    """Key -> what is another after any change of the row, in the order of keys."""
    entity = ENTITIES[table]
    key = column(entity, key_of(entity))
    changed = type_coerce(entity.updated_at, String)  # as the driver has it: reading times takes longest
    found = session.execute(select(key, entity.version, changed).order_by(key))
    return {key: stamp for key, *stamp in found}


def damaged(session: ReadSession) -> Iterator[str]:
    """ "table key: why" of each row where a column of objects holds none."""
    for table in Base.metadata.sorted_tables:
        objects = [column for column in table.columns if isinstance(column.type, JsonObject)]
        if objects:
            query = select(*table.primary_key.columns, *objects)
            found = session.execute(query.execution_options(yield_per=500))
            yield from _damaged(table, (row._mapping for row in found))


def damaged_rows(rows: Iterable[Base]) -> Iterator[str]:
    """The same of rows that were read."""
    for row in rows:
        table = inspect(type(row)).local_table
        yield from _damaged(table, [{column: getattr(row, column.name) for column in table.columns}])


def _damaged(table: Any, rows: Iterable[Mapping[Any, Any]]) -> Iterator[str]:
    for row in rows:
        objects = (column for column in table.columns if isinstance(column.type, JsonObject))
        if cut := [column.name for column in objects if not is_readable(row[column])]:
            key = "/".join(str(row[column]) for column in table.primary_key.columns)
            yield f"{table.name} {key}: {', '.join(cut)} is no JSON object"


def written_here(session: ReadSession, table: str) -> frozenset[str]:
    """Keys of the rows that a person wrote or corrected."""
    entity = ENTITIES[table]
    by_person = (entity.origin == "user") | entity.corrected
    return frozenset(session.scalars(select(column(entity, key_of(entity))).where(by_person)))


def find(session: ReadSession, table: str, key: str, *, to_change: bool = False) -> Correctable | None:
    """The row, locked against other writers with `to_change`."""
    entity = ENTITIES[table]
    query = locked_if(select(entity).where(column(entity, key_of(entity)) == key), to_change)
    return session.scalars(query).one_or_none()


def profiles_of(session: ReadSession, model: str) -> list[Mapping[str, Any]]:
    """Its profiles of autocast, without checkpointing."""
    query = select(Profile.profile).where(Profile.model == model, Profile.precision == "amp")
    return list(session.scalars(query.where(Profile.checkpointing.is_(False))))


def traced_since(session: ReadSession, moment: dt.datetime) -> list[dict[str, Any]] | None:
    """The profiles stored after a moment, where all of them were traced for runs; None otherwise."""
    names = [name for name in columns(Profile) if name not in BOOKKEEPING]
    query = select(*(column(Profile, name) for name in names)).where(Profile.updated_at > moment)
    found = [dict(zip(names, row, strict=True)) for row in session.execute(query)]
    return found if all(row["source"] == TRACED_FOR_A_RUN for row in found) else None


def keys(session: ReadSession, table: str) -> list[str]:
    entity = ENTITIES[table]
    return list(session.scalars(select(column(entity, key_of(entity)))))


def insert_all(session: WriteSession, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert complete rows (bookkeeping included)."""
    if not rows:
        return
    session.execute(insert(ENTITIES[table]), list(rows))
    _replace_tasks(session, table, rows)


def change(session: WriteSession, row: Correctable, values: Mapping[str, Any]) -> None:
    """Give a row new values; its version rises. StaleDataError if it moved meanwhile."""
    for name, value in values.items():
        setattr(row, name, value)
    session.flush()
    table = row.__tablename__
    _replace_tasks(session, table, [values_of(row)])


def remove(session: WriteSession, row: Correctable) -> None:
    """Delete a row; its passages and tasks go with it."""
    entity = type(row)
    key = key_of(entity)
    same: ColumnElement[bool] = column(entity, key) == getattr(row, key)
    result = session.execute(delete(entity).where(same, entity.version == row.version))
    if getattr(result, "rowcount", 0) != 1:
        raise StaleDataError("the row moved meanwhile")


def upsert(session: WriteSession, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert complete rows; one whose key is there is overwritten, its version and creation kept."""
    entity = ENTITIES[table]
    if rows:
        dialects.of(session).upsert(session, _table(entity), rows, key_of(entity))


def bookkeeping(origin: str, now: dt.datetime, seed_digest: str | None = None) -> dict[str, Any]:
    times = {"created_at": now, "updated_at": now}
    return {"version": 1, "origin": origin, "corrected": False, "seed_digest": seed_digest, **times}


def _table(entity: type[Base]) -> Table:
    return cast("Table", entity.__table__)  # each is mapped to one


def _replace_tasks(session: WriteSession, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    if table != "models":
        return
    task_rows = [{"model": row["name"], "task": task} for row in rows for task in dict.fromkeys(row["tasks"])]
    names = sorted({row["name"] for row in rows})
    session.execute(delete(ModelTask).where(ModelTask.model.in_(names)))
    if task_rows:
        session.execute(insert(ModelTask), task_rows)


def fingerprints(session: ReadSession, *tables: str) -> dict[str, tuple[int, int, str]]:
    """Table -> (rows, sum of versions, latest change), which differs after any insert, correction or deletion
    of a row. One statement for all."""
    return {
        table: (int(count), int(versions or 0), str(latest))
        for table, count, versions, latest in session.execute(_statement(tables))
    }


@lru_cache(maxsize=8)
def _statement(tables: tuple[str, ...]) -> CompoundSelect[Any]:
    """Profiles are written whole, never corrected: their versions, behind 15 MB of figures, are not read."""

    def of(table: str) -> Any:
        entity, count = ENTITIES[table], func.count()
        changes = count if table == "profiles" else func.sum(entity.version)
        return select(literal(table), count, changes, func.max(entity.updated_at))

    return union_all(*map(of, tables))
