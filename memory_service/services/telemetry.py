"""How does what a run tells get onto the disk, once, however often it is sent?

An event is acknowledged when its transaction is on disk, and with it the run's summary. Requests that come at
the same time share one transaction: whoever gets the lock writes for all who wait, so that waiting for the
disk is paid once.
"""

from __future__ import annotations

import datetime as dt
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from memory_service.domain.watch_clock import latest_moment
from memory_service.domain.watch_event import Event
from memory_service.errors import NotFound
from memory_service.services.observations import conclude
from memory_service.services.run_events import NewEvent, Told, as_kept, parse_events
from memory_service.services.run_fields import run_key, utc_text
from memory_service.services.summaries import Begun, Folding, begun
from memory_service.services.unit import Database, WriteUnit
from memory_service.services.verdicts import told_verdict
from memory_service.store import runs

__all__ = ["Batch", "insert", "known_run_key", "take_events"]

MOST_SHOWN = 100
RUNNING = "running"


def take_events(database: Database, run_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """`{"accepted", "duplicates", "differing", "verdict"}`; differing: seqs that were there with another
    body, which stays. NotFound for a run nobody began; InvalidInput (nothing is kept) for what is no event.

    Events of a run that has ended count too: what is concluded from it is concluded anew.
    """
    events = parse_events(body)
    key = known_run_key(run_id)
    batch = Batch.of(key, events)
    _writer(database).write(batch)
    if batch.status is None:
        raise NotFound(f"There is no run {key}; begin it with POST /runs")
    if batch.status != RUNNING and batch.accepted:
        conclude(database, key)
    return {
        "accepted": batch.accepted,
        "duplicates": batch.duplicates,
        "differing": sorted(batch.differing)[:MOST_SHOWN],
        "verdict": told_verdict(database, key, batch.status, batch.kinds, new=batch.accepted > 0),
    }


def known_run_key(run_id: str) -> str:
    """The run's id in its one spelling; NotFound for what cannot be one."""
    try:
        return run_key(run_id)
    except ValueError:
        shown = run_id[:80].encode("utf-8", "replace").decode()
        raise NotFound(f"There is no run {shown!r}: an id is a UUID") from None


@dataclass(eq=False)
class Batch:
    """One request's events, each seq once, and what became of them. status: of the run; None: no such run.

    events    as they are stored; moments: of each, in seconds since 1970
    start     of the run, in seconds since 1970
    """

    run_id: str
    told: list[Told]
    events: list[NewEvent]
    moments: list[float]
    duplicates: int
    differing: set[int]
    kinds: frozenset[str]
    accepted: int = 0
    status: str | None = None
    start: float = 0.0
    error: BaseException | None = None
    done: bool = False

    @classmethod
    def of(cls, run_id: str, told: Sequence[Told]) -> Batch:
        """Of two events with one seq in one request the first counts, as it would over two requests."""
        kept = [as_kept(one) for one in told]
        first: dict[int, int] = {}
        differing = {e[0] for n, e in enumerate(kept) if kept[first.setdefault(e[0], n)] != e}
        once = list(first.values())
        moments = [dt.datetime.fromisoformat(told[n][2]["at"]).timestamp() for n in once]
        return cls(
            run_id, [told[n] for n in once], [kept[n] for n in once], moments, len(kept) - len(once),
            differing, frozenset(one[1] for one in told),
        )  # fmt: skip

    def of_run(self, status: str, begun: Begun, now: dt.datetime) -> None:
        """The run is there. No event may be later than the service's clock allows: such a one counts as told
        now, and keeps what it said as `at_told`."""
        self.status, self.start = status, begun.started
        latest = latest_moment(begun.started, begun.created, now.timestamp())
        if max(self.moments, default=latest) <= latest:
            return
        for n, moment in enumerate(self.moments):
            if moment > latest:
                seq, kind, fields = self.told[n]
                fields = {**fields, "at": utc_text(now.isoformat()), "at_told": fields["at"]}
                self.told[n], self.moments[n] = (seq, kind, fields), now.timestamp()
                self.events[n] = as_kept(self.told[n])

    def rows(self, but: Mapping[int, Any] | None = None) -> list[tuple[str, int, str, str]]:
        return [(self.run_id, *event) for event in self.events if not but or event[0] not in but]

    def folded(self, but: Mapping[int, Any] | None = None) -> list[Event]:
        """In the run's own time."""
        return [
            Event(kind, seq, moment - self.start, fields)
            for (seq, kind, fields), moment in zip(self.told, self.moments, strict=True)
            if not but or seq not in but
        ]


@dataclass(eq=False)
class _Writer:
    """Writes batches to one database, all that wait in one transaction."""

    database: weakref.ReferenceType[Database]
    waiting: list[Batch] = field(default_factory=list)
    line: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def write(self, batch: Batch) -> None:
        """Returns when the batch is on disk; raises what kept it from there."""
        with self.line:
            self.waiting.append(batch)
        with self.turn:
            if not batch.done:
                with self.line:
                    group, self.waiting = self.waiting, []
                self._commit(group)
        if batch.error is not None:
            raise batch.error

    def _commit(self, group: Sequence[Batch]) -> None:
        database = self.database()
        assert database is not None  # noqa: S101 - whoever waits holds it
        try:
            if not _all_new(database, group):
                _one_by_one(database, group)
        except BaseException as error:  # noqa: BLE001 - each who waits raises it
            for batch in group:
                batch.error = error
        for batch in group:
            batch.done = True


class _RepeatedError(Exception):
    """Leaves the transaction without a trace: some of it was there already."""


def _all_new(database: Database, group: Sequence[Batch]) -> bool:
    """The usual case: one executemany for all. False, and nothing written, where something was there."""
    try:
        with database.tell() as unit:
            folding = _folding(database, unit, group)
            rows = [row for batch in group if batch.status is not None for row in batch.rows()]
            if runs.add_events(unit.session, rows) != len(rows):
                raise _RepeatedError  # noqa: TRY301 - rolls the transaction back
            for batch in group:
                if batch.status is not None:
                    folding.add(batch.run_id, batch.folded())
            folding.write()
    except _RepeatedError:
        return False
    folding.committed()
    for batch in group:
        batch.accepted = len(batch.events) if batch.status is not None else 0
    return True


def _one_by_one(database: Database, group: Sequence[Batch]) -> None:
    counted = []
    with database.tell() as unit:
        folding = _folding(database, unit, group)
        for batch in group:
            if batch.status is not None:
                there = insert(unit, folding, batch)
                counted.append((batch, there))
        folding.write()
    folding.committed()
    for batch, there in counted:
        batch.accepted = len(batch.events) - len(there)
        batch.duplicates += len(there)
        batch.differing |= {
            e[0] for e in batch.events if e[0] in there and _as_told(there[e[0]]) != _as_told(e[1:])
        }


def insert(unit: WriteUnit, folding: Folding, batch: Batch) -> dict[int, tuple[str, str]]:
    """Write the events that are not there yet, and fold them; seq -> (kind, body) of those that are. The
    run's summary is locked by `folding`: nobody else adds events to it meanwhile."""
    there = runs.bodies(unit.session, batch.run_id, (event[0] for event in batch.events))
    runs.add_events(unit.session, batch.rows(but=there))
    folding.add(batch.run_id, batch.folded(but=there))
    return there


def _as_told(event: tuple[str, str]) -> tuple[str, str]:
    kind, body = event
    if '"at_told"' not in body:
        return kind, body
    fields = orjson.loads(body)
    if "at_told" in fields:
        fields["at"] = fields.pop("at_told")
    return kind, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def _folding(database: Database, unit: WriteUnit, group: Sequence[Batch]) -> Folding:
    """Finds the runs of all batches and locks their summaries."""
    statuses = runs.statuses(unit.session, (batch.run_id for batch in group))
    starts = {run_id: begun(database, unit, run_id) for run_id in statuses}
    for batch in group:
        if batch.run_id in statuses:
            batch.of_run(statuses[batch.run_id], starts[batch.run_id], unit.now)
    return Folding(database, unit, {run_id: each.started for run_id, each in starts.items()})


_writers: weakref.WeakKeyDictionary[Database, _Writer] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def _writer(database: Database) -> _Writer:
    with _making:
        writer = _writers.get(database)
        if writer is None:
            writer = _writers[database] = _Writer(weakref.ref(database))
        return writer
