"""Queries of a run's summary, its place in the log, and its advice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, insert, select, update

from memory_service.store.session import ReadSession, Statements, WriteSession, bulk, locked_if
from memory_service.store.tables.runs import RunAdvice, RunLog, RunSummary

_TABLE = RunSummary.__tablename__


class LockedRun(NamedTuple):
    """mark: of its stored summary."""

    status: str
    mark: str | None


def begin_summary(at: Statements, run_ids: Sequence[str], text: str | None = None) -> None:
    """Insert missing summaries. text: of no events; None: to be made from the stored events."""
    at.insert_new(_TABLE, ("run_id", "summary"), [(each, text) for each in run_ids])


def lock(at: Statements, run_ids: Iterable[str]) -> dict[str, LockedRun]:
    """Lock these runs against new events and their end (an event and a finish see each other), to the end of
    the transaction, in the order of ids. Those without a summary are left out."""
    keys = tuple(sorted(run_ids))
    marks = ", ".join([at.dialect.mark] * len(keys))
    query = f"SELECT id, status, mark FROM runs JOIN {_TABLE} ON run_id = id WHERE id IN ({marks}) "  # noqa: S608
    return {row[0]: LockedRun(*row[1:]) for row in at.rows(f"{query}ORDER BY id{at.dialect.lock_runs}", keys)}


def summary_of(at: Statements, run_id: str) -> tuple[int | None, str | None, str | None] | None:
    """(upto, mark, summary as JSON); None where the run has no place for one."""
    query = f"SELECT upto, mark, summary FROM {_TABLE} WHERE run_id = {at.dialect.mark}"  # noqa: S608
    found = at.rows(query, (run_id,))
    return found[0] if found else None


def write_summaries(at: Statements, rows: Sequence[tuple[str, int, str, str]]) -> None:
    """Write (run, upto, mark, summary as JSON) of locked runs."""
    mark = at.dialect.mark
    change = f"UPDATE {_TABLE} SET upto = {mark}, mark = {mark}, summary = {mark} "  # noqa: S608
    at.many(f"{change} WHERE run_id = {mark}", [(*values, run_id) for run_id, *values in rows])


def log_of(session: ReadSession, run_id: str, *, to_change: bool = False) -> RunLog | None:
    """How far the log was read; locked with `to_change`."""
    query = locked_if(select(RunLog).where(RunLog.run_id == run_id), to_change)
    return session.scalars(query).one_or_none()


def write_log(session: WriteSession, run_id: str, values: Mapping[str, Any], *, new: bool) -> None:
    """IntegrityError where `new` is wrong."""
    if new:
        session.execute(insert(RunLog), [{"run_id": run_id, **values}])
        return
    bulk(session, update(RunLog).where(RunLog.run_id == run_id).values(**values))


def last_advice(session: ReadSession, run_id: str) -> RunAdvice | None:
    query = select(RunAdvice).where(RunAdvice.run_id == run_id).order_by(RunAdvice.number.desc()).limit(1)
    return session.scalars(query).one_or_none()


def advices(session: ReadSession, run_ids: Sequence[str]) -> dict[str, list[RunAdvice]]:
    """Run -> its advice that can be read, oldest first; runs without any are left out."""
    query = select(RunAdvice).where(RunAdvice.run_id.in_(run_ids))
    found: dict[str, list[RunAdvice]] = {}
    for row in session.scalars(query.order_by(RunAdvice.run_id, RunAdvice.number)):
        if row.verdict:
            found.setdefault(row.run_id, []).append(row)
    return found


def advice_of(session: ReadSession, run_id: str, most: int) -> list[RunAdvice]:
    """The latest `most` that can be read, oldest first."""
    query = select(RunAdvice).where(RunAdvice.run_id == run_id).order_by(RunAdvice.number.desc()).limit(most)
    return [row for row in session.scalars(query) if row.verdict][::-1]


def add_advice(session: WriteSession, run_id: str, values: Mapping[str, Any]) -> None:
    """Under the next number; IntegrityError where it was taken meanwhile."""
    last = session.scalar(select(func.max(RunAdvice.number)).where(RunAdvice.run_id == run_id))
    number = 0 if last is None else last + 1
    session.execute(insert(RunAdvice), [{"run_id": run_id, "number": number, **values}])
