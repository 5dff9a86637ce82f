"""Queries of outcomes of runs and the counts that follow from them."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import case, delete, func, insert, null, or_, select, update

from memory_service.domain.runs.pattern_effect import Tally
from memory_service.store.queries.runs import fairly
from memory_service.store.session import ReadSession, WriteSession, bulk
from memory_service.store.tables import outcomes as tables
from memory_service.store.tables.knowledge import Competition
from memory_service.store.tables.outcomes import Outcome, Serving
from memory_service.store.tables.runs import Run, RunEvent

_COUNTS = ("served", "followed", "compared", "without", "better", "same", "worse", "weight", "won")


def of_run(session: ReadSession, run_id: str) -> Outcome | None:
    return session.scalars(select(Outcome).where(Outcome.run_id == run_id)).one_or_none()


def begin(session: WriteSession, run_id: str, place: str, advice: Any, now: dt.datetime) -> None:
    """Store what a run was advised when it began."""
    row = {"run_id": run_id, "place": place, "advice": advice, "updated_at": now}
    session.execute(insert(Outcome), [row])


def keep(
    session: WriteSession,
    run_id: str,
    place: str,
    ended_at: dt.datetime,
    outcome: Mapping[str, Any],
    now: dt.datetime,
) -> None:
    """Replace a run's outcome and servings."""
    values = {"place": place, "ended_at": ended_at, "outcome": dict(outcome), "updated_at": now}
    changed = bulk(session, update(Outcome).where(Outcome.run_id == run_id).values(**values))
    if changed == 0:
        session.execute(insert(Outcome), [{"run_id": run_id, **values}])
    session.execute(delete(Serving).where(Serving.run_id == run_id))
    rows = [
        {"run_id": run_id, "subject": subject, "place": place, "followed": followed}
        for subject, followed in sorted(outcome["served"].items())
    ]
    if rows:
        session.execute(insert(Serving), rows)


def drop(session: WriteSession, run_id: str, now: dt.datetime) -> None:
    """Take back a run's outcome and servings; what it was advised stays."""
    values = {"ended_at": None, "outcome": null(), "updated_at": now}
    bulk(session, update(Outcome).where(Outcome.run_id == run_id).values(**values))
    session.execute(delete(Serving).where(Serving.run_id == run_id))


def of_place(session: ReadSession, place: str, limit: int) -> Sequence[Mapping[str, Any]]:
    """Outcomes of the latest runs that ended in one place, the latest first, with their `reporter`."""
    return [{**row.outcome, "reporter": row.told_by} for row in latest(session, place, limit)]


def latest(session: ReadSession, place: str, limit: int) -> Sequence[Any]:
    """The same with the run and when it ended: rows (run_id, ended_at, outcome, told_by)."""
    query = select(Outcome.run_id, Outcome.ended_at, Outcome.outcome, Run.told_by)
    query = query.join(Run, Run.id == Outcome.run_id)
    query = query.where(Outcome.place == place, Outcome.ended_at.is_not(None))
    return session.execute(fairly(query, Outcome.ended_at, limit)).all()


def with_metric(session: ReadSession, limit: int) -> Sequence[Any]:
    """Runs of competitions that ended, the last begun first: rows (competition, task, model, n_train, folds,
    epochs, input_size, outcome, told_by)."""
    columns = [getattr(Run, name) for name in _TRAINED]
    query = select(*columns, Outcome.outcome, Run.told_by).join(Outcome, Outcome.run_id == Run.id)
    query = query.where(Run.competition.is_not(None), Outcome.ended_at.is_not(None))
    return session.execute(fairly(query, Run.started_at, limit)).all()


_TRAINED = ("competition", "task", "model", "n_train", "folds", "epochs", "input_size")


def served_counts(session: ReadSession, place: str, subjects: Collection[str]) -> dict[str, tuple[int, int]]:
    """Subject -> (how often served, how often followed) in one place."""
    followed = func.sum(case((Serving.followed.is_(True), 1), else_=0))
    query = select(Serving.subject, func.count(), followed)
    query = query.where(Serving.subject.in_(sorted(subjects)), Serving.place == place)
    return {
        subject: (int(served), int(done or 0))
        for subject, served, done in session.execute(query.group_by(Serving.subject))
    }


def compared_in(session: ReadSession, place: str) -> set[str]:
    """The subjects of which something was compared in one place."""
    query = select(tables.Tally.subject).where(tables.Tally.place == place, tables.Tally.compared > 0)
    return set(session.scalars(query))


def tallies_of(session: ReadSession, subjects: Iterable[str]) -> dict[str, Tally]:
    """Subject -> its tally over all places; those without any are left out."""
    ordered = sorted(set(subjects))
    found: dict[str, Tally] = {}
    for start in range(0, len(ordered), 500):
        query = select(tables.Tally).where(tables.Tally.subject.in_(ordered[start : start + 500]))
        for row in session.scalars(query):
            tally = Tally(*(getattr(row, name) for name in _COUNTS))
            found[row.subject] = found.get(row.subject, Tally()) + tally
    return found


def tallies(session: ReadSession) -> dict[str, dict[str, Tally]]:
    """Subject -> place -> tally; places where nothing was compared are left out."""
    columns = [getattr(tables.Tally, name) for name in ("subject", "place", *_COUNTS)]
    query = select(*columns).where(tables.Tally.compared > 0)
    found: dict[str, dict[str, Tally]] = {}
    # Columns, not entities: after a run ended all of them are read again.
    for subject, place, *counts in session.execute(query.order_by(tables.Tally.subject, tables.Tally.place)):
        found.setdefault(subject, {})[place] = Tally(*counts)
    return found


def write_tallies(session: WriteSession, place: str, counted: Mapping[str, Tally], now: dt.datetime) -> None:
    """Replace the tallies of these subjects in one place."""
    if not counted:
        return
    same = (tables.Tally.place == place, tables.Tally.subject.in_(sorted(counted)))
    session.execute(delete(tables.Tally).where(*same))
    rows = [
        {"subject": subject, "place": place, "updated_at": now}
        | {name: getattr(tally, name) for name in _COUNTS}
        for subject, tally in sorted(counted.items())
        if tally.served
    ]
    if rows:
        session.execute(insert(tables.Tally), rows)


def fingerprint(session: ReadSession) -> tuple[int, str]:
    """(how many tallies, when the latest changed): differs after any change."""
    number, changed = session.execute(select(func.count(), func.max(tables.Tally.updated_at))).one()
    return int(number), str(changed)


def direction_of(session: ReadSession, slug: str | None) -> str | None:
    """Which way a competition's metric improves; None where unknown."""
    if slug is None:
        return None
    return session.scalar(select(Competition.metric_direction).where(Competition.slug == slug))


def unconcluded(session: ReadSession, limit: int) -> list[str]:
    """Ended runs without an outcome: their server was killed, or older than outcomes. None that somebody
    excluded."""
    query = select(Run.id).outerjoin(Outcome, Outcome.run_id == Run.id)
    query = query.where(Run.finished_at.is_not(None), Run.finish.is_not(None), Outcome.ended_at.is_(None))
    query = query.where(Run.exclusion.is_(None))
    return list(session.scalars(query.order_by(Run.finished_at, Run.id).limit(limit)))


def to_thin(session: ReadSession, before: dt.datetime, limit: int) -> list[tuple[str, bool]]:
    """(run, whether it ended) of unthinned runs that ended (or began) before a moment, oldest first."""
    query = select(Run.id, Run.finished_at).outerjoin(Outcome, Outcome.run_id == Run.id)
    query = query.where(func.coalesce(Run.finished_at, Run.started_at) < before, Run.created_at < before)
    query = query.where(or_(Outcome.run_id.is_(None), Outcome.thinned_at.is_(None)))
    found = session.execute(query.order_by(Run.started_at, Run.id).limit(limit))
    return [(row.id, row.finished_at is not None) for row in found]


def thin(session: WriteSession, run_id: str, bodies: Mapping[int, str], gone: Sequence[int]) -> int:
    """Replace the bodies of these events and delete the others; how many were deleted."""
    for seq, body in bodies.items():
        event = (RunEvent.run_id == run_id, RunEvent.seq == seq)
        bulk(session, update(RunEvent).where(*event).values(body=body))
    for start in range(0, len(gone), 500):
        some = gone[start : start + 500]
        bulk(session, delete(RunEvent).where(RunEvent.run_id == run_id, RunEvent.seq.in_(some)))
    return len(gone)


def mark_thinned(session: WriteSession, run_id: str, place: str, now: dt.datetime) -> None:
    changed = bulk(session, update(Outcome).where(Outcome.run_id == run_id).values(thinned_at=now))
    if changed == 0:
        row = {"run_id": run_id, "place": place, "thinned_at": now, "updated_at": now}
        session.execute(insert(Outcome), [row])
