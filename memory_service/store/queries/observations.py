"""Queries of observations of runs, and of those new since the last reading."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, func, select

from memory_service.store.session import ReadSession
from memory_service.store.tables.runs import Observation

ObservationRow = Row[Any]
"""subject, updated_at, id, observation (wire form)."""

_COLUMNS = (Observation.subject, Observation.updated_at, Observation.id, Observation.observation)


def state(session: ReadSession) -> tuple[int, dt.datetime | None]:
    """(how many, when the latest changed): differs after any change of what was observed."""
    number, changed = session.execute(select(func.count(), func.max(Observation.updated_at))).one()
    return int(number), changed


def latest(session: ReadSession, most_of_a_subject: int) -> Sequence[ObservationRow]:
    """The latest of each subject."""
    order = (Observation.updated_at.desc(), Observation.id.desc())
    place = func.row_number().over(partition_by=Observation.subject, order_by=order).label("place")
    ranked = select(Observation.id, place).subquery()
    query = select(*_COLUMNS).join(ranked, ranked.c.id == Observation.id)
    return session.execute(query.where(ranked.c.place <= most_of_a_subject)).all()


def since(session: ReadSession, moment: dt.datetime) -> Sequence[ObservationRow]:
    """Those written then or later."""
    return session.execute(select(*_COLUMNS).where(Observation.updated_at >= moment)).all()
