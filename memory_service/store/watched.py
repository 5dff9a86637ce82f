"""How are a run's summary, the place in its log and the advice it got read and written?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, insert, select, update

from memory_service.store import dialects
from memory_service.store.run_tables import RunAdvice, RunLog, RunSummary
from memory_service.store.session import ReadSession, WriteSession

__all__ = [
    "add_advice",
    "advice_of",
    "begin_summary",
    "keep_log",
    "keep_summaries",
    "last_advice",
    "lock_counts",
    "log_of",
    "summary_of",
]

_COLUMNS = ("run_id", "events", "summary")


def begin_summary(session: WriteSession, run_ids: Sequence[str], text: str | None = None) -> None:
    """A place for the summaries of these runs; those that have one are passed over. text: of no events; None
    where it has to be made from the events that are there."""
    rows = [(run_id, 0, text) for run_id in run_ids]
    dialects.of(session).insert_new(session, RunSummary.__tablename__, _COLUMNS, rows)


def lock_counts(session: WriteSession, run_ids: Iterable[str]) -> dict[str, int]:
    """run -> events in its summary; nobody else can fold into them until this transaction ends. Always taken
    in the order of ids, so that two who tell of the same runs cannot wait for each other."""
    dialect = dialects.of(session)
    table = RunSummary.__tablename__
    return dict(dialect.locked(session, table, ("run_id", "events"), run_ids, dialect.lock_row))


def summary_of(session: ReadSession, run_id: str) -> tuple[int, str | None] | None:
    """(events, summary as JSON); None where the run has no place for one."""
    row = session.execute(
        select(RunSummary.events, RunSummary.summary).where(RunSummary.run_id == run_id)
    ).one_or_none()
    return None if row is None else (row.events, row.summary)


def keep_summaries(session: WriteSession, rows: Sequence[tuple[str, int, str]]) -> None:
    """Write (run, events, summary as JSON) of runs whose counts are locked."""
    mark = dialects.of(session).mark
    change = f"UPDATE {RunSummary.__tablename__} SET events = {mark}, summary = {mark} WHERE run_id = {mark}"  # noqa: S608
    given = [(events, text, run_id) for run_id, events, text in rows]
    session.connection().exec_driver_sql(change, given)


def log_of(session: ReadSession, run_id: str, *, to_change: bool = False) -> RunLog | None:
    """How far the log was read; locked against other writers when it is about to be changed."""
    query = select(RunLog).where(RunLog.run_id == run_id)
    if to_change:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalars(query).one_or_none()


def keep_log(session: WriteSession, run_id: str, values: Mapping[str, Any], *, new: bool) -> None:
    """IntegrityError when it is not new although it was thought to be."""
    if new:
        session.execute(insert(RunLog), [{"run_id": run_id, **values}])
        return
    session.execute(
        update(RunLog).where(RunLog.run_id == run_id).values(**values),
        execution_options={"synchronize_session": False},
    )


def last_advice(session: ReadSession, run_id: str) -> RunAdvice | None:
    query = select(RunAdvice).where(RunAdvice.run_id == run_id).order_by(RunAdvice.number.desc()).limit(1)
    return session.scalars(query).one_or_none()


def advice_of(session: ReadSession, run_id: str, most: int) -> list[RunAdvice]:
    """The latest `most`, oldest first."""
    query = select(RunAdvice).where(RunAdvice.run_id == run_id).order_by(RunAdvice.number.desc()).limit(most)
    return list(session.scalars(query))[::-1]


def add_advice(session: WriteSession, run_id: str, values: Mapping[str, Any]) -> None:
    """Under the next number; IntegrityError where somebody else took it at the same time."""
    last = session.scalar(select(func.max(RunAdvice.number)).where(RunAdvice.run_id == run_id))
    number = 0 if last is None else last + 1
    session.execute(insert(RunAdvice), [{"run_id": run_id, "number": number, **values}])
