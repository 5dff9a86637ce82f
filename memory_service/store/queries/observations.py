"""Queries of observations of runs, and of those new since the last reading."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, func, or_, select

from memory_service.domain.prediction.trust import KEY
from memory_service.store.session import ReadSession
from memory_service.store.tables.runs import Observation, Run

ObservationRow = Row[Any]
"""subject, updated_at, id, observation (wire form)."""

_COLUMNS = (Observation.subject, Observation.updated_at, Observation.id, Observation.observation)


def state(session: ReadSession) -> tuple[int, dt.datetime | None]:
    """(how many, when the latest changed): differs after any change of what was observed."""
    number, changed = session.execute(select(func.count(), func.max(Observation.updated_at))).one()
    return int(number), changed


def latest(session: ReadSession, of_subject: int, of_key: int) -> Sequence[ObservationRow]:
    """The latest of each subject; of these, where a key told of them, the latest of each key."""
    order = (Observation.updated_at.desc(), Observation.id.desc())
    place = func.row_number().over(partition_by=Observation.subject, order_by=order).label("place")
    ranked = select(Observation.id, Observation.updated_at, Run.told_by, place)
    of = ranked.join(Run, Run.id == Observation.run_id).subquery().c
    latest_first = (of.updated_at.desc(), of.id.desc())
    turn = func.row_number().over(partition_by=of.told_by, order_by=latest_first).label("turn")
    few = select(of.id, of.told_by, turn).where(of.place <= of_subject).subquery().c
    query = select(*_COLUMNS).join(few.id.table, few.id == Observation.id)
    return session.execute(query.where(or_(~few.told_by.startswith(KEY), few.turn <= of_key))).all()


def since(session: ReadSession, moment: dt.datetime) -> Sequence[ObservationRow]:
    """Those written then or later."""
    return session.execute(select(*_COLUMNS).where(Observation.updated_at >= moment)).all()
