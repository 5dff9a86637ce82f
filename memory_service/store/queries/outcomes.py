"""Queries of outcomes of runs and the counts that follow from them."""

import datetime as dt
import heapq
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    TextClause,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    update,
)

from memory_service.domain.monitoring.event import number_of
from memory_service.domain.prediction.trust import key_of
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.store.queries.runs import parts
from memory_service.store.session import ReadSession, WriteSession, bulk, each_value
from memory_service.store.tables import outcomes as tables
from memory_service.store.tables.knowledge import Competition
from memory_service.store.tables.outcomes import COMPETITIONS, ENDED, STARTED, TOTAL, Marked, Outcome
from memory_service.store.tables.runs import Run, RunEvent

_COLUMNS = [getattr(tables.Tally, name) for name in Tally.__slots__]


def of_run(session: ReadSession, run_id: str) -> Outcome | None:
    return session.scalars(select(Outcome).where(Outcome.run_id == run_id)).one_or_none()


def begin(
    session: WriteSession, run_id: str, place: str, told_by: str, advice: Any, now: dt.datetime
) -> None:
    """Store what a run was advised when it began."""
    row = {"run_id": run_id, "place": place, "teller": key_of(told_by), "advice": advice, "updated_at": now}
    session.execute(insert(Outcome), [row])


def keep(session: WriteSession, run: Run, place: str, now: dt.datetime, **values: Any) -> None:
    """Replace these of a run's outcome."""
    host = run.given.get("host")  # whatever a client sent
    minutes = number_of(host.get("start_up_minutes")) if isinstance(host, dict) else None
    values |= {"place": place, "updated_at": now, "start_up_minutes": minutes}
    changed = bulk(session, update(Outcome).where(Outcome.run_id == run.id).values(**values))
    if changed == 0:
        row = {"run_id": run.id, "teller": key_of(run.told_by), **values}
        session.execute(insert(Outcome), [row])


def drop(session: WriteSession, run_id: str, now: dt.datetime) -> None:
    """Take back a run's outcome; what it was advised stays."""
    values = {"ended_at": None, "outcome": null(), "updated_at": now}
    bulk(session, update(Outcome).where(Outcome.run_id == run_id).values(**values))


def of_place(session: ReadSession, place: str, limit: int) -> Sequence[Mapping[str, Any]]:
    """Outcomes of the latest runs that ended in one place, the latest first, with their `reporter`."""
    return [{**row.outcome, "reporter": row.told_by} for row in latest(session, place, limit)]


def latest(session: ReadSession, place: str, limit: int) -> Sequence[Any]:
    """The same with the run and when it ended: rows (run_id, ended_at, outcome, told_by)."""
    query = select(Outcome.run_id, Outcome.ended_at, Outcome.outcome, Run.told_by)
    return _fairly(session, query, limit, text(ENDED), Outcome.place == place)


def with_metric(session: ReadSession, limit: int) -> Sequence[Any]:
    """The latest runs of competitions that ended: rows (run_id, competition, task, model, n_train, folds,
    epochs, input_size, outcome, told_by)."""
    columns = [getattr(Run, name) for name in _TRAINED]
    query = select(Outcome.run_id, *columns, Outcome.outcome, Run.told_by)
    return _fairly(session, query, limit, text(COMPETITIONS))


_TRAINED = ("competition", "task", "model", "n_train", "folds", "epochs", "input_size")


class StartUp(NamedTuple):
    """Minutes that a run's box took to start, as the run told."""

    device: str
    gpu: str
    minutes: float
    told_by: str


def start_ups(session: ReadSession, limit: int) -> list[StartUp]:
    """Those of the latest runs that ended and told."""
    columns: list[Any] = [Run.device, Run.gpu, Outcome.start_up_minutes, Run.told_by]
    query = select(Outcome.run_id, *columns)
    return [StartUp(*told) for _, *told in _fairly(session, query, limit, text(STARTED))]


def ended_states(session: ReadSession, filters: Mapping[str, Any], limit: int) -> dict[str, dt.datetime]:
    """Run that ended -> when it changed last, of the latest; without those that somebody excluded.

    filters   column of runs -> value, and `since`: ended then or later
    """
    narrowed = [Outcome.ended_at >= value if name == "since" else getattr(Run, name) == value
                for name, value in filters.items()]  # fmt: skip
    columns: list[Any] = [Outcome.run_id, Run.updated_at]
    rows = _fairly(session, select(*columns), limit, text(ENDED), narrowed=narrowed)
    return {row.run_id: row.updated_at for row in rows}


_OF_HOSTS = 10


def _fairly(
    session: ReadSession,
    query: Select[Any],
    limit: int,
    *where: ColumnElement[bool] | TextClause,
    narrowed: Sequence[ColumnElement[bool]] = (),
) -> list[Any]:
    """Rows of a query over outcomes and runs: the latest, `limit` at most, of each reporter as many as of the
    others: who floods the service with runs hides nobody else's. By an index: of each key no more than
    `limit` are looked at, of all hosts, which anybody may name, `_OF_HOSTS` times as many."""
    order, turns = (Outcome.ended_at.desc(), Outcome.run_id.desc()), Counter[str]()
    found: list[tuple[int, float, str]] = []
    for teller in each_value(session, Outcome.teller, *where):
        latest = select(Outcome.run_id, Outcome.ended_at).where(*where, Outcome.teller == teller)
        if narrowed:
            latest = latest.join(Run, Run.id == Outcome.run_id).where(*narrowed)
        mine = latest.order_by(*order).limit(limit if teller else _OF_HOSTS * limit).subquery()
        told = select(mine.c.run_id, mine.c.ended_at, Run.told_by).join(Run, Run.id == mine.c.run_id)
        for run_id, at, who in session.execute(told.order_by(mine.c.ended_at.desc(), mine.c.run_id.desc())):
            turns[who] += 1
            found.append((turns[who], -at.timestamp(), run_id))
    chosen = sorted(heapq.nsmallest(limit, found), key=lambda each: each[1:])
    query = query.join_from(Outcome, Run, Run.id == Outcome.run_id)
    of = [session.execute(query.where(Outcome.run_id.in_(ids))) for ids in parts(run for *_, run in chosen)]
    rows = {row.run_id: row for some in of for row in some}
    return [rows[run_id] for *_, run_id in chosen]


def tallies(session: ReadSession, without: Iterable[str] = ()) -> dict[str, Tally]:
    """Subject -> its tally over all places but these, where something was compared."""
    found = _tallies(session, tables.Tally.place == TOTAL, tables.Tally.compared > 0)
    for place in without:
        for subject, tally in compared_in(session, place).items():
            if subject in found:
                found[subject] -= tally
    return found


def compared_in(session: ReadSession, place: str) -> dict[str, Tally]:
    """Subject -> its tally in one place, where something was compared."""
    return _tallies(session, tables.Tally.place == place, tables.Tally.compared > 0)


def tallies_of(session: ReadSession, subjects: Iterable[str], place: str = TOTAL) -> dict[str, Tally]:
    """Subject -> its tally in a place; those without any are left out."""
    found: dict[str, Tally] = {}
    for some in parts(set(subjects)):
        found |= _tallies(session, tables.Tally.place == place, tables.Tally.subject.in_(some))
    return found


def places_of(session: ReadSession, subject: str, limit: int) -> dict[str, Tally]:
    """Place -> the tally of a subject there, the most followed first."""
    of = tables.Tally.subject == subject, tables.Tally.place != TOTAL, tables.Tally.compared > 0
    query = select(tables.Tally.place, *_COLUMNS).where(*of).order_by(tables.Tally.followed.desc(), "place")
    return {place: _tally(counts) for place, *counts in session.execute(query.limit(limit))}


def _tallies(session: ReadSession, *where: ColumnElement[bool]) -> dict[str, Tally]:
    found = session.execute(select(tables.Tally.subject, *_COLUMNS).where(*where))
    return {subject: _tally(counts) for subject, *counts in found}


def _tally(counts: Sequence[Any]) -> Tally:
    by_key = {key: (worth, won) for key, (worth, won) in counts[-1].items()}
    return replace(Tally(*counts[:-1]), by_key=by_key)


def write_tallies(session: WriteSession, place: str, counted: Mapping[str, Tally], now: dt.datetime) -> None:
    """Replace the tallies of these subjects in one place and over all, but of families: they are not few."""
    before = tallies_of(session, counted, place)
    counted = {subject: now if now.served else Tally() for subject, now in counted.items()}
    changed = {subject: now for subject, now in counted.items() if now != before.get(subject, Tally())}
    totals = tallies_of(session, [each for each in changed if not each.startswith("family:")])
    rows = []
    for subject, tally in sorted(changed.items()):
        there = [(place, tally)]
        if not subject.startswith("family:"):
            total = totals.get(subject, Tally()) + tally - before.get(subject, Tally())
            there.append((TOTAL, total))
        rows += [
            {"subject": subject, "place": where, "updated_at": now, **asdict(counts)}
            for where, counts in there
            if counts.served
        ]
    for some in parts(changed):
        same = tables.Tally.place.in_((place, TOTAL)), tables.Tally.subject.in_(some)
        session.execute(delete(tables.Tally).where(*same))
    if rows:
        session.execute(insert(tables.Tally), rows)


def mark(session: WriteSession, place: str) -> None:
    """Outcomes of the place changed; whoever marks it holds the revision."""
    unmark(session, place)
    session.execute(insert(Marked), [{"place": place, "mark": uuid.uuid4().hex}])


def unmark(session: WriteSession, place: str) -> None:
    bulk(session, delete(Marked).where(Marked.place == place))


def mark_of(session: ReadSession, place: str) -> str | None:
    return session.scalar(select(Marked.mark).where(Marked.place == place))


def marked(session: ReadSession) -> Sequence[str]:
    """Places to be counted."""
    return session.scalars(select(Marked.place).order_by(Marked.place)).all()


def fingerprint(session: ReadSession) -> tuple[int, str]:
    """(how many tallies over all places, when the latest changed): differs after any change."""
    query = select(func.count(), func.max(tables.Tally.updated_at)).where(tables.Tally.place == TOTAL)
    number, changed = session.execute(query).one()
    return int(number), str(changed)


def direction_of(session: ReadSession, slug: str | None) -> str | None:
    """Which way a competition's metric improves; None where unknown."""
    if slug is None:
        return None
    return session.scalar(select(Competition.metric_direction).where(Competition.slug == slug))


def unconcluded(session: ReadSession, after: str, limit: int) -> list[str]:
    """Ended runs without an outcome, by id behind `after`: their server was killed, or older than outcomes.
    None that somebody excluded."""
    query = select(Run.id).outerjoin(Outcome, Outcome.run_id == Run.id)
    query = query.where(Run.finished_at.is_not(None), Run.finish.is_not(None), Outcome.ended_at.is_(None))
    query = query.where(Run.exclusion.is_(None), Run.id > after)
    return list(session.scalars(query.order_by(Run.id).limit(limit)))


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
