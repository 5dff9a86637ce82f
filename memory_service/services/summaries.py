"""How does what a run has told stay summed up, at the same cost however much that was?

The summary is written in the transaction of the events that go into it: a process that dies loses neither
or both. This process remembers the summaries of the runs it heard last; the count of events beside each in
the database tells whether another process has added to it since.
"""

from __future__ import annotations

import datetime as dt
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from memory_service.domain.watch_event import Event
from memory_service.domain.watch_fold import fold_in
from memory_service.domain.watch_summary import Summary
from memory_service.services.unit import Database, ReadUnit, WriteUnit
from memory_service.store import runs, watched

__all__ = ["Begun", "Folding", "begin_summary", "begun", "read_summary", "remembered"]

MOST_REMEMBERED = 512
"""Runs; a summary takes up to 0.1 MB as objects."""


@dataclass(eq=False)
class _Memory:
    lock: threading.Lock = field(default_factory=threading.Lock)
    held: OrderedDict[str, Summary] = field(default_factory=OrderedDict)
    begun: dict[str, Begun] = field(default_factory=dict)

    def get(self, run_id: str, events: int) -> Summary | None:
        with self.lock:
            known = self.held.get(run_id)
            return known if known is not None and known.events == events else None

    def keep(self, run_id: str, summary: Summary) -> None:
        with self.lock:
            self.held[run_id] = summary
            self.held.move_to_end(run_id)
            if len(self.held) > MOST_REMEMBERED:
                self.held.popitem(last=False)


MOST_BEGUN = 20_000


@dataclass(frozen=True, slots=True)
class Begun:
    """When a run began, in seconds since 1970: by its own clock and by the service's."""

    started: float
    created: float


_NOTHING = orjson.dumps(Summary().as_dict()).decode()

_memories: weakref.WeakKeyDictionary[Database, _Memory] = weakref.WeakKeyDictionary()


def _memory(database: Database) -> _Memory:
    return _memories.setdefault(database, _Memory())


def event_of(seq: int, kind: str, body: str, start: float) -> Event:
    """A kept event in the run's own time. start: of the run, seconds since 1970."""
    fields = orjson.loads(body)
    return Event(kind, seq, dt.datetime.fromisoformat(fields["at"]).timestamp() - start, fields)


def begun(database: Database, unit: ReadUnit, run_id: str) -> Begun:
    """Of a run that is there; looked up once."""
    known = _memory(database).begun
    found = known.get(run_id)
    if found is None:
        started, created = runs.begun(unit.session, run_id)
        if len(known) >= MOST_BEGUN:
            known.clear()
        found = known[run_id] = Begun(started.timestamp(), created.timestamp())
    return found


def begin_summary(unit: WriteUnit, run_id: str) -> None:
    """A new run has told nothing."""
    watched.begin_summary(unit.session, [run_id], _NOTHING)


class Folding:
    """The summaries of some runs while events are added to them, in the transaction of the events.

    starts   run -> its start, seconds since 1970
    """

    def __init__(self, database: Database, unit: WriteUnit, starts: Mapping[str, float]) -> None:
        self._memory, self._unit, self._starts = _memory(database), unit, starts
        self._counts = watched.lock_counts(unit.session, starts) if starts else {}
        missing = starts.keys() - self._counts.keys()
        if missing:  # begun before there were summaries
            watched.begin_summary(unit.session, sorted(missing))
            self._counts |= watched.lock_counts(unit.session, missing)
        self._now: dict[str, Summary] = {}

    def add(self, run_id: str, events: Sequence[Event]) -> None:
        """Fold in events that were not there before and have been inserted by now."""
        if not events:
            return
        known = self._now.get(run_id) or self._known(run_id)
        self._now[run_id] = self._rebuilt(run_id) if known is None else fold_in(known, events)

    def write(self) -> None:
        """Last in the transaction."""
        rows = [(run_id, s.events, orjson.dumps(s.as_dict()).decode()) for run_id, s in self._now.items()]
        if rows:
            watched.keep_summaries(self._unit.session, rows)

    def committed(self) -> None:
        """The transaction is on disk: from now on the summaries are the present ones."""
        for run_id, summary in self._now.items():
            self._memory.keep(run_id, summary)

    def _known(self, run_id: str) -> Summary | None:
        known = self._memory.get(run_id, self._counts[run_id])
        if known is not None:
            return known
        row = watched.summary_of(self._unit.session, run_id)
        return None if row is None or row[1] is None else Summary.from_dict(orjson.loads(row[1]))

    def _rebuilt(self, run_id: str) -> Summary:
        told = runs.events_of(self._unit.session, run_id)
        return fold_in(Summary(), (event_of(*one, self._starts[run_id]) for one in told))


def read_summary(database: Database, unit: ReadUnit, run_id: str, start: float) -> Summary:
    """All that the run has told, summed up."""
    row = watched.summary_of(unit.session, run_id)
    if row is not None and row[1] is not None:
        known = _memory(database).get(run_id, row[0])
        return known or Summary.from_dict(orjson.loads(row[1]))
    told = runs.events_of(unit.session, run_id)
    return fold_in(Summary(), (event_of(*one, start) for one in told))


def remembered(database: Database, run_id: str) -> Summary | None:
    """The summary as this process wrote it last."""
    memory = _memory(database)
    with memory.lock:
        return memory.held.get(run_id)
