"""Queries of runs, events and observations."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Update, and_, bindparam, delete, func, insert, select, text, update

from memory_service.domain.prediction.trust import HOST, SEVERAL, key_of
from memory_service.errors import NotFound
from memory_service.store.session import ReadSession, Statements, WriteSession, bulk, locked_if
from memory_service.store.tables.knowledge import Competition
from memory_service.store.tables.outcomes import Outcome
from memory_service.store.tables.runs import NOT_RAW, Observation, Run, RunEvent

EVENT_COLUMNS = ("run_id", "seq", "kind", "body")
MOST_AFTER, MOST_OF_PLAN = 20, 64

MOST_OF_A_CASE = 8
"""Observations of one model, batch and setting on one device that may teach: more than learning weighs
(`domain.learning.corrections`)."""

Event = tuple[str, int, str, str]


class EndedRun(NamedTuple):
    """What scoring needs of a run; not the entity, which costs four times as much to make."""

    id: str
    gpu: str
    device: str
    family: str
    status: str
    created_at: dt.datetime
    batch_size: int | None
    excluded: str | None
    samples_per_second: float | None
    epoch_seconds: float | None
    total_minutes: float | None
    prediction: Mapping[str, Any] | None
    model: str
    input_size: int | None
    told_by: str
    n_train: int | None
    folds: int | None
    epochs: int | None
    minutes: float | None


SUBJECT = (
    "device", "gpu", "model", "input_size", "precision", "layout", "mode", "optimizer", "compiled",
    "checkpointing", "stack", "batch_size", "out_of_memory", "reporter",
)  # fmt: skip
"""Members of an observation that distinguish cases."""


def _subject_of(wire: Mapping[str, Any]) -> tuple[str, ...]:
    """What is no step has more of them; subjects of steps stay as they were stored."""
    return SUBJECT if wire.get("part", "step") == "step" else (*SUBJECT, "part", "cores", "outputs", "leaves")


def add(session: WriteSession, values: Mapping[str, Any]) -> None:
    """Insert a run; IntegrityError when its id is taken."""
    session.execute(insert(Run), [values])


def find(session: ReadSession, run_id: str, *, to_change: bool = False) -> Run | None:
    """The run; locked against other writers with `to_change`."""
    query = locked_if(select(Run).where(Run.id == run_id), to_change)
    return session.scalars(query).one_or_none()


def existing(session: ReadSession, run_id: str, *, to_change: bool = False) -> Run:
    """The same; NotFound where there is none."""
    run = find(session, run_id, to_change=to_change)
    if run is None:
        raise NotFound(f"There is no run {run_id}")
    return run


def find_several(session: WriteSession, run_ids: Iterable[str]) -> list[Run]:
    """Those that are there, each locked before anything else is: whoever ends one of them begins so, too."""
    found = (find(session, run_id, to_change=True) for run_id in sorted(run_ids))
    return [run for run in found if run is not None]


def change(session: WriteSession, run_id: str, values: Mapping[str, Any]) -> None:
    bulk(session, update(Run).where(Run.id == run_id).values(**values))
    if "told_by" in values:
        for table in (Outcome, Observation):
            of_run = update(table).where(table.run_id == run_id)
            bulk(session, of_run.values(teller=key_of(values["told_by"])))


def of_plan(session: ReadSession, plan_id: str, reporter: str) -> Sequence[Run]:
    """The latest runs of a plan that a key, or somebody without one (""), may have begun: so many of those
    that it alone told of, that several did, and that no key did."""
    tellers = [Run.told_by == teller for teller in sorted({reporter, SEVERAL, ""})]
    tellers += [] if reporter else [Run.told_by.startswith(HOST)]
    found: list[Run] = []
    for told in tellers:
        query = select(Run).where(Run.plan_id == plan_id, told).order_by(Run.created_at.desc())
        found += session.scalars(query.limit(MOST_OF_PLAN))
    return found


class Going(NamedTuple):
    """A run that has not ended."""

    id: str
    started_at: dt.datetime
    created_at: dt.datetime
    minutes: float | None


def running_since(session: ReadSession, before: dt.datetime, after: str, limit: int) -> list[Going]:
    """Those that began before a moment, by id behind `after`."""
    query = select(*(getattr(Run, name) for name in Going._fields))
    query = query.where(Run.finished_at.is_(None), Run.created_at < before, Run.id > after)
    return [Going(*row) for row in session.execute(query.order_by(Run.id).limit(limit))]


def without_waste(session: ReadSession, after: str, limit: int) -> Sequence[Run]:
    """Ended runs without counted waste, by id behind `after`."""
    query = select(Run).where(Run.wasted_minutes.is_(None), Run.finished_at.is_not(None), Run.id > after)
    return session.scalars(query.order_by(Run.id).limit(limit)).all()


def add_waste(session: WriteSession, run_id: str, values: Mapping[str, Any]) -> None:
    """Unless it was counted meanwhile."""
    bulk(session, update(Run).where(Run.id == run_id, Run.wasted_minutes.is_(None)).values(**values))


def beginnings(session: ReadSession, run_ids: Collection[str]) -> dict[str, tuple[Any, ...]]:
    """id -> (start by the run's own clock, creation by ours, given, watch); none of it ever changes."""
    columns = (Run.id, Run.started_at, Run.created_at, Run.given, Run.watch)
    query = select(*columns).where(Run.id.in_(sorted(run_ids)))
    return {row[0]: tuple(row[1:]) for row in session.execute(query)}


def add_events(at: Statements, events: Sequence[Event]) -> int:
    """Insert rows of `EVENT_COLUMNS`, skipping taken (run, seq); how many were new."""
    if not events:
        return 0
    return at.insert_new(RunEvent.__tablename__, EVENT_COLUMNS, events)


def bodies(at: Statements, run_id: str, seqs: Iterable[int]) -> dict[int, tuple[str, str]]:
    """seq -> (kind, body) of those that are there."""
    ordered = sorted(set(seqs))
    found: dict[int, tuple[str, str]] = {}
    for start in range(0, len(ordered), 500):
        some = ordered[start : start + 500]
        mark = at.dialect.mark
        query = f"SELECT seq, kind, body FROM run_events WHERE run_id = {mark} AND seq IN "  # noqa: S608
        query += f"({', '.join([mark] * len(some))})"
        found |= {seq: (kind, body) for seq, kind, body in at.rows(query, (run_id, *some))}
    return found


def events_between(at: Statements, run_id: str, after: int, before: int) -> list[tuple[int, str, str]]:
    """(seq, kind, body) of those with after < seq < before."""
    mark = at.dialect.mark
    query = "SELECT seq, kind, body FROM run_events "
    query += f"WHERE run_id = {mark} AND seq > {mark} AND seq < {mark}"
    return at.rows(query, (run_id, after, before))


def last_seq(at: Statements, run_id: str, before: int) -> int:
    """The greatest seq below `before`; -1 where there is none."""
    mark = at.dialect.mark
    query = f"SELECT max(seq) FROM run_events WHERE run_id = {mark} AND seq < {mark}"  # noqa: S608
    ((found,),) = at.rows(query, (run_id, before))
    return -1 if found is None else int(found)


def started_after(session: ReadSession, run: Run) -> list[Mapping[str, Any]]:
    """The bodies of the first `MOST_AFTER` runs of the same model, task and competition after this one."""
    query = select(Run.given).where(Run.model == run.model, Run.task == run.task)
    query = query.where(Run.created_at > run.created_at)
    same = Run.competition.is_(None) if run.competition is None else Run.competition == run.competition
    return list(session.scalars(query.where(same).order_by(Run.created_at).limit(MOST_AFTER)))


def events_of(session: ReadSession, run_id: str) -> list[tuple[int, str, str]]:
    """(seq, kind, body) in the order of seq."""
    query = select(RunEvent.seq, RunEvent.kind, RunEvent.body).where(RunEvent.run_id == run_id)
    return [(row.seq, row.kind, row.body) for row in session.execute(query.order_by(RunEvent.seq))]


def latest_events(
    session: ReadSession, run_id: str, limit: int, *, marks: bool = False
) -> list[tuple[int, str, str]]:
    """(seq, kind, body) of those with the greatest seqs; of marks alone: without raw samples."""
    query = select(RunEvent.seq, RunEvent.kind, RunEvent.body).where(RunEvent.run_id == run_id)
    query = query.where(text(NOT_RAW)) if marks else query
    found = session.execute(query.order_by(RunEvent.seq.desc()).limit(limit))
    return [(row.seq, row.kind, row.body) for row in found]


def last_event_bodies(session: ReadSession, run_ids: Collection[str]) -> dict[str, str]:
    """id -> body of the latest event; runs without any are left out."""
    last = (
        select(RunEvent.run_id, func.max(RunEvent.seq).label("seq"))
        .where(RunEvent.run_id.in_(sorted(run_ids)))
        .group_by(RunEvent.run_id)
        .subquery()
    )
    query = select(RunEvent.run_id, RunEvent.body).join(
        last, and_(RunEvent.run_id == last.c.run_id, RunEvent.seq == last.c.seq)
    )
    return {row.run_id: row.body for row in session.execute(query)}


def competition_metrics(session: ReadSession, slugs: Collection[str]) -> dict[str, dict[str, str | None]]:
    """slug -> {"metric", "metric_direction"} of its record."""
    query = select(Competition.slug, Competition.metric, Competition.metric_direction)
    found = session.execute(query.where(Competition.slug.in_(sorted(slugs))))
    return {row.slug: {"metric": row.metric, "metric_direction": row.metric_direction} for row in found}


class Recent(NamedTuple):
    """What a run is found by, and where its minutes went. waste: by part (`Run.waste`)."""

    id: str
    status: str
    task: str
    competition: str | None
    model: str
    gpu: str
    device: str
    wasted_on: str | None
    started_at: dt.datetime
    finished_at: dt.datetime | None
    waste: Mapping[str, float] | None


def last_change(session: ReadSession) -> dt.datetime | None:
    """When a run last began, ended or was counted; events change no run."""
    return session.scalar(select(func.max(Run.updated_at)))


def recent(session: ReadSession, limit: int) -> list[Recent]:
    """The runs that began last, latest first."""
    query = select(*(getattr(Run, name) for name in Recent._fields))
    return [Recent(*row) for row in session.execute(query.order_by(Run.started_at.desc()).limit(limit))]


def ids_from(session: ReadSession, prefix: str, limit: int) -> list[str]:
    """Ids that begin so, ascending."""
    query = select(Run.id).where(Run.id >= prefix, Run.id < prefix + "~")
    return list(session.scalars(query.order_by(Run.id).limit(limit)))


def several(session: ReadSession, run_ids: Collection[str]) -> Sequence[Run]:
    return session.scalars(select(Run).where(Run.id.in_(sorted(run_ids)))).all()


def ended(session: ReadSession, run_ids: Collection[str]) -> list[EndedRun]:
    """These runs, in no order."""
    query = select(*(getattr(Run, name) for name in EndedRun._fields))
    return [EndedRun(*row) for ids in parts(run_ids) for row in session.execute(query.where(Run.id.in_(ids)))]


def observations_by_run(session: ReadSession, run_ids: Collection[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Run -> its observations that can be read."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for ids in parts(run_ids):
        query = select(Observation.run_id, Observation.observation).order_by(Observation.id)
        for row in session.execute(query.where(Observation.run_id.in_(ids))):
            if row.observation:
                found.setdefault(row.run_id, []).append(row.observation)
    return found


def parts(run_ids: Iterable[str]) -> Iterator[list[str]]:
    """Sorted, so many as a statement may name."""
    ids = sorted(run_ids)
    return (ids[start : start + 500] for start in range(0, len(ids), 500))


def observations_of(session: ReadSession, run_id: str) -> list[Mapping[str, Any]]:
    query = select(Observation.observation).where(Observation.run_id == run_id).order_by(Observation.id)
    return [observation for observation in session.scalars(query) if observation]


def _of_subject(limit: int, offset: int) -> Update:
    """Of a subject so many behind so many, the latest first."""
    of = select(Observation.id).where(Observation.subject == bindparam("of"))
    of = of.order_by(Observation.updated_at.desc(), Observation.id.desc()).limit(limit).offset(offset)
    return update(Observation).where(Observation.id.in_(of))


_LATEST = {True: _of_subject(MOST_OF_A_CASE, 0), False: _of_subject(64, MOST_OF_A_CASE)}


def replace_observations(
    session: WriteSession, run_id: str, found: Sequence[Mapping[str, Any]], now: dt.datetime
) -> None:
    """Also says anew which of their subjects, with those that they replace, are the latest."""
    of_run = Observation.run_id == run_id
    subjects = set(session.scalars(select(Observation.subject).where(of_run)))
    session.execute(delete(Observation).where(of_run))
    if found:
        told_by = session.scalar(select(Run.told_by).where(Run.id == run_id))
        told = {"run_id": run_id, "teller": key_of(told_by or ""), "latest": False, "updated_at": now}
        rows = [
            {"id": f"{run_id}/{number}", "observation": dict(wire), **told}
            | {"subject": "|".join(str(wire.get(name)) for name in _subject_of(wire))}
            | {name: wire[name] for name in ("gpu", "device", "model")}
            for number, wire in enumerate(found)
        ]
        session.execute(insert(Observation), rows)
        subjects |= {str(row["subject"]) for row in rows}
    if subjects:
        of = [{"of": subject} for subject in sorted(subjects)]
        for is_latest, changed in _LATEST.items():
            session.connection().execute(changed.values(latest=is_latest), of)
