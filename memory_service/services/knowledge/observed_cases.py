"""The latest few observations of each case; after a run only what it adds is read."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.trust import trusted
from memory_service.services.database.transactions import ReadTransaction
from memory_service.store.engine import is_readable
from memory_service.store.queries import observations as store

MOST_OF_A_CASE = 8
"""Of one model, batch and setting on one device: more than learning weighs
(`domain.learning.corrections`)."""

Kept = tuple[dt.datetime, str, Observation]


@dataclass(frozen=True)
class Observed:
    """The latest observations of each case, as the database had them.

    state   as `store.queries.observations.state` gave it
    cases   case -> (when it was written, id, observation), the latest first
    """

    state: tuple[int, dt.datetime | None] = (0, None)
    cases: Mapping[str, tuple[Kept, ...]] = field(default_factory=dict)

    @cached_property
    def all(self) -> tuple[Observation, ...]:
        """Those that may teach, the oldest first."""
        rows = sorted((row for rows in self.cases.values() for row in rows), key=lambda row: row[:2])
        return trusted(observation for _, _, observation in rows)


def observed(transaction: ReadTransaction, cached: Observed | None = None) -> Observed:
    """The observations now; those of `cached`, read earlier, are reused unless something changed."""
    now, cached = store.state(transaction.session), cached or Observed()
    if cached.state == now:
        return cached
    if cached.state[1] is not None:
        known = {row[:2] for rows in cached.cases.values() for row in rows if row[0] == cached.state[1]}
        later = store.since(transaction.session, cached.state[1])
        new = [row for row in later if (row.updated_at, row.id) not in known]
        # Only where nothing was replaced or deleted, and nobody wrote at an earlier time than what was read.
        if len(new) == now[0] - cached.state[0]:
            return Observed(now, _with(cached.cases, new))
    return Observed(now, _with({}, store.latest(transaction.session, MOST_OF_A_CASE)))


def _with(
    cases: Mapping[str, tuple[Kept, ...]], rows: Iterable[store.ObservationRow]
) -> dict[str, tuple[Kept, ...]]:
    added: dict[str, list[Kept]] = {}
    for row in rows:
        if is_readable(row.observation):
            stored = (row.updated_at, row.id, Observation.from_dict(row.observation))
            added.setdefault(row.subject, []).append(stored)
    found = dict(cases)
    for subject, new in added.items():
        every = sorted((*found.get(subject, ()), *new), key=lambda row: row[:2], reverse=True)
        found[subject] = tuple(every[:MOST_OF_A_CASE])
    return found
