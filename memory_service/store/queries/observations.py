"""Queries of observations of runs: those that may teach, however many are stored."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, String, select, text, type_coerce

from memory_service.store.queries.runs import parts
from memory_service.store.session import ReadSession, each_value
from memory_service.store.tables.runs import LATEST, Observation

ObservationRow = Row[Any]
"""updated_at, id, observation (wire form)."""

_OF_HOSTS = 10


def latest(session: ReadSession, of_key: int) -> dict[str, object]:
    """Id -> what is another when it was written anew, of those that may teach: of the latest of each subject
    the latest of each key, of all hosts `_OF_HOSTS` times as many."""
    written = type_coerce(Observation.updated_at, String).label(
        "written"
    )  # as the driver has it: reading times takes longest
    found: dict[str, object] = {}
    for teller in each_value(session, Observation.teller, text(LATEST)):
        query = select(Observation.id, written).where(text(LATEST), Observation.teller == teller)
        query = query.order_by(Observation.updated_at.desc(), Observation.id.desc())
        of_teller = query.limit(of_key if teller else _OF_HOSTS * of_key)
        found |= {row.id: row.written for row in session.execute(of_teller)}
    return found


def several(session: ReadSession, ids: Collection[str]) -> Sequence[ObservationRow]:
    query = select(Observation.updated_at, Observation.id, Observation.observation)
    return [row for some in parts(ids) for row in session.execute(query.where(Observation.id.in_(some)))]
