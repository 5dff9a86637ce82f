"""How does what a run tells get onto the disk, once, however often it is sent?

An event is acknowledged when its transaction is on disk. Requests that come at the same time share one
transaction: whoever gets the lock writes for all who wait, so that waiting for the disk is paid once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_service.errors import NotFound
from memory_service.services.observations import conclude
from memory_service.services.run_events import NewEvent, parse_events
from memory_service.services.run_fields import run_key
from memory_service.services.unit import Database, WriteUnit
from memory_service.store import runs

__all__ = ["known_run_key", "take_events"]

MOST_SHOWN = 100
RUNNING = "running"


def take_events(database: Database, run_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """`{"accepted", "duplicates", "differing"}`; differing: seqs that were there with another body, which
    stays. NotFound for a run nobody began; InvalidInput (nothing is kept) for what is no event.

    Events of a run that has ended count too: what is concluded from it is concluded anew.
    """
    events = parse_events(body)
    key = known_run_key(run_id)
    batch = _batch(key, events)
    _writer(database).write(batch)
    if batch.status is None:
        raise NotFound(f"There is no run {key}; begin it with POST /runs")
    if batch.status != RUNNING and batch.accepted:
        conclude(database, key)
    return {
        "accepted": batch.accepted,
        "duplicates": batch.duplicates,
        "differing": sorted(batch.differing)[:MOST_SHOWN],
    }


def known_run_key(run_id: str) -> str:
    """The run's id in its one spelling; NotFound for what cannot be one."""
    try:
        return run_key(run_id)
    except ValueError:
        shown = run_id[:80].encode("utf-8", "replace").decode()
        raise NotFound(f"There is no run {shown!r}: an id is a UUID") from None


@dataclass(eq=False)
class _Batch:
    """One request's events, each seq once, and what became of them. status: of the run; None: no such run."""

    run_id: str
    events: Sequence[NewEvent]
    duplicates: int
    differing: set[int]
    accepted: int = 0
    status: str | None = None
    error: BaseException | None = None
    done: bool = False

    def rows(self) -> list[tuple[str, int, str, str]]:
        return [(self.run_id, *event) for event in self.events]


def _batch(run_id: str, events: Sequence[NewEvent]) -> _Batch:
    """Of two events with one seq in one request the first counts, as it would over two requests."""
    first: dict[int, NewEvent] = {}
    differing = {event[0] for event in events if first.setdefault(event[0], event) != event}
    return _Batch(run_id, list(first.values()), len(events) - len(first), differing)


@dataclass(eq=False)
class _Writer:
    """Writes batches to one database, all that wait in one transaction."""

    database: weakref.ReferenceType[Database]
    waiting: list[_Batch] = field(default_factory=list)
    line: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def write(self, batch: _Batch) -> None:
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

    def _commit(self, group: Sequence[_Batch]) -> None:
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


def _all_new(database: Database, group: Sequence[_Batch]) -> bool:
    """The usual case: one executemany for all. False, and nothing written, where something was there."""
    try:
        with database.tell() as unit:
            rows = [row for batch in _known(unit, group) for row in batch.rows()]
            if runs.add_events(unit.session, rows) != len(rows):
                raise _RepeatedError  # noqa: TRY301 - rolls the transaction back
    except _RepeatedError:
        return False
    for batch in group:
        batch.accepted = len(batch.events) if batch.status is not None else 0
    return True


def _one_by_one(database: Database, group: Sequence[_Batch]) -> None:
    counted = []
    with database.tell() as unit:
        for batch in _known(unit, group):
            new = runs.add_events(unit.session, batch.rows())
            there = {}
            if new < len(batch.events):
                there = runs.bodies(unit.session, batch.run_id, (event[0] for event in batch.events))
            counted.append(
                (
                    batch,
                    new,
                    {seq for seq, *told in batch.events if seq in there and list(there[seq]) != told},
                )
            )
    for batch, new, differing in counted:
        batch.accepted = new
        batch.duplicates += len(batch.events) - new
        batch.differing |= differing


def _known(unit: WriteUnit, group: Sequence[_Batch]) -> list[_Batch]:
    statuses = runs.statuses(unit.session, (batch.run_id for batch in group))
    for batch in group:
        batch.status = statuses.get(batch.run_id)
    return [batch for batch in group if batch.status is not None]


_writers: weakref.WeakKeyDictionary[Database, _Writer] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def _writer(database: Database) -> _Writer:
    with _making:
        writer = _writers.get(database)
        if writer is None:
            writer = _writers[database] = _Writer(weakref.ref(database))
        return writer
