"""Queries of the history of changes: who, when, why, and the row before."""

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any, Literal

from sqlalchemy import func, insert, select

from memory_service.store.session import RECORDED, ReadSession, WriteSession
from memory_service.store.tables.knowledge import History

Action = Literal["create", "update", "delete"]


def record(
    session: WriteSession,
    at: dt.datetime,
    table: str,
    row: str,
    action: Action,
    *,
    who: str,
    why: str,
    version: int = 0,
    origin: Literal["seed", "user"] = "user",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Add one entry. `version` is the row's after the change (before it, for a deletion)."""
    values = {"table": table, "row": row, "version": version, "action": action, "origin": origin, "at": at}
    values |= {"who": who, "why": why, "before": before, "after": after}
    session.execute(insert(History), [values])
    session.info.setdefault(RECORDED, []).append(values)


def of_row(session: ReadSession, table: str, row: str, limit: int = 100) -> list[History]:
    """The entries of a row, newest first; they outlive the row."""
    query = select(History).where(History.table == table, History.row == row)
    return list(session.scalars(query.order_by(History.id.desc()).limit(limit)))


def latest(
    session: ReadSession, tables: Collection[str], limit: int, before: int | None = None
) -> list[History]:
    """Entries by people of these tables, newest first; `before`: only those older than this entry."""
    query = select(History).where(History.origin == "user").order_by(History.id.desc()).limit(limit)
    query = query if before is None else query.where(History.id < before)
    found = [
        each for table in sorted(tables) for each in session.scalars(query.where(History.table == table))
    ]
    return sorted(found, key=lambda each: -each.id)[:limit]


def latest_ids(session: ReadSession, table: str, limit: int) -> tuple[int, ...]:
    """Those of the latest entries of a table; several: who writes at the same time may end in any order."""
    query = select(History.id).where(History.table == table).order_by(History.id.desc())
    return tuple(session.scalars(query.limit(limit)))


def wrote_since(session: ReadSession, table: str, before: tuple[int, ...], who: str) -> bool:
    """Whether one wrote entries of a table since these were its `latest_ids`."""
    query = select(History.id).where(History.table == table, History.who == who, History.id.not_in(before))
    return session.scalar(query.where(History.id > min(before, default=0)).limit(1)) is not None


def first_tellers(session: ReadSession, table: str, row: str) -> tuple[str, ...]:
    """Who added a row the last time, then who changed it first."""
    of_row = (History.table == table) & (History.row == row)
    # Not by the index of actions, in which SQLite would read all that was ever added to any table.
    create = History.action.concat("") == "create"
    added = select(func.max(History.id)).where(of_row, create).scalar_subquery()
    query = select(History.who).where(of_row, History.id >= added)
    return tuple(session.scalars(query.order_by(History.id).limit(2)))


def creators(session: ReadSession, table: str) -> dict[str, str]:
    """Row -> who added it the last time."""
    added = select(func.max(History.id)).where(History.table == table, History.action.concat("") == "create")
    query = select(History.row, History.who).where(History.id.in_(added.group_by(History.row)))
    return {row.row: row.who for row in session.execute(query)}


def entry(session: ReadSession, table: str, row: str, entry_id: int) -> History | None:
    query = select(History).where(History.id == entry_id, History.table == table, History.row == row)
    return session.scalars(query).one_or_none()


def of_change(session: ReadSession, entry_id: int) -> list[History]:
    """The entries that were written with this one, in order: one transaction has one time."""
    one = select(History.at, History.who, History.why).where(History.id == entry_id).subquery()
    query = select(History).join(
        one, (History.at == one.c.at) & (History.who == one.c.who) & (History.why == one.c.why)
    )
    return list(session.scalars(query.order_by(History.id)))


def after_version(session: ReadSession, table: str, row: str, version: int) -> History | None:
    """The first entry after a version of a row; its `before` is the row at that version."""
    query = select(History).where(History.table == table, History.row == row, History.version > version)
    return session.scalars(query.order_by(History.id).limit(1)).one_or_none()


def shipped_values(session: ReadSession, table: str, row: str) -> Mapping[str, Any] | None:
    """What a row's seed said: the row before the first change by a person since; None where there is none."""
    of_row = select(History).where(History.table == table, History.row == row)
    last_seed = select(func.coalesce(func.max(History.id), 0)).where(
        History.table == table, History.row == row, History.origin == "seed"
    )
    query = of_row.where(History.id > last_seed.scalar_subquery(), History.origin == "user")
    first = session.scalars(query.order_by(History.id).limit(1)).one_or_none()
    return None if first is None else first.before


def deleted_by_people(session: ReadSession, table: str) -> set[str]:
    """Keys whose last entry is a deletion by a person: a seed does not bring them back."""
    last = select(func.max(History.id)).where(History.table == table).group_by(History.row)
    query = select(History.row).where(
        History.id.in_(last), History.action == "delete", History.origin == "user"
    )
    return set(session.scalars(query))
