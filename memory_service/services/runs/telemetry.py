"""Events of runs, written once each however often they are sent.

An event is acknowledged when its transaction is on disk. One thread writes: all requests that wait share one
transaction, so that waiting for the disk is paid once, and the connection stays warm.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import anyio.to_thread
import orjson

from memory_service.domain.monitoring.event import AS_TOLD, Event
from memory_service.domain.monitoring.plausibility import (
    SET_ASIDE,
    Announced,
    earliest_moment,
    implausible,
    latest_moment,
)
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.monitoring.two_tellers import RENUMBERED, renumbered
from memory_service.errors import MemoryServiceError, NotFound, Unavailable
from memory_service.schemas.events import ReportedEvent, StoredEvent, as_stored, parse_events
from memory_service.schemas.fields import utc_text
from memory_service.schemas.runs import run_key
from memory_service.services.database.transactions import BulkTransaction, Database
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.runs.observations import conclude_again
from memory_service.services.runs.summaries import (
    Begun,
    Folding,
    begun,
    note_teller,
    or_nothing,
    told_by_another,
)
from memory_service.services.runs.verdicts import remembered_verdict, reported_verdict
from memory_service.store.queries import runs
from memory_service.store.session import Statements

MOST_SHOWN = 100
RUNNING = "running"

READ_AT_ONCE = 500
"""Events of a request that are checked in 2 ms, between other requests; more of them beside these."""

WRITTEN_AT_ONCE = 4_000
"""Events of a transaction: some 20 ms."""

LARGE, PART = 500, 1_000
"""A batch of more than `LARGE` events is written a part at a time, each in a transaction of its own: those
that wait meanwhile go between."""

WRITTEN_WITHIN_SECONDS = 45.0
"""A commit waits for another writer of SQLite for 15 s at most, and 25 s for a PostgreSQL that hangs."""

MOST_WAITING = 50_000
"""Events that wait for their transaction: some 20 MB, of one key a quarter. More are told to come again."""


async def take_events(database: Database, run_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """`{"accepted", "duplicates", "differing", "ignored", "verdict"}`; differing: seqs that were there with
    another body, which stays; ignored: values that cannot be meant, and why. NotFound for a run nobody
    began; InvalidInput (nothing is stored) for what is no event.

    Events of a run that has ended count too: what is concluded from it is concluded anew. Meanwhile no thread
    waits.
    """
    events = body.get("events")
    if isinstance(events, list) and (len(events) > READ_AT_ONCE or _values(events) > 10 * READ_AT_ONCE):
        batch = await anyio.to_thread.run_sync(_batch, run_id, body)
    else:
        batch = _batch(run_id, body)
    if told_by_another(database, batch.run_id):
        await anyio.to_thread.run_sync(note_teller, database, batch.run_id)
    loop = asyncio.get_running_loop()
    written: asyncio.Future[None] = loop.create_future()
    database.caches.of(_Writer, database).write(batch, written)
    timer = loop.call_later(WRITTEN_WITHIN_SECONDS, _give_up, written)
    try:
        await written
    finally:
        timer.cancel()
    if batch.status == RUNNING and batch.error is None and batch.accepted:
        now = remembered_verdict(database, batch.run_id, batch.reported, batch.kinds, max(batch.moments))
        if now is not None:
            return batch.answer(now)
    return await anyio.to_thread.run_sync(_answer, database, batch)


def _values(events: Sequence[Any]) -> int:
    return sum([len(event) for event in events if event.__class__ is dict])


def _batch(run_id: str, body: Mapping[str, Any]) -> Batch:
    events = parse_events(body)
    return Batch.of(known_run_key(run_id), events)


def _finish(group: Iterable[asyncio.Future[None]]) -> None:
    for written in group:
        if not written.done():  # its request was given up
            written.set_result(None)


def _give_up(written: asyncio.Future[None]) -> None:
    if not written.done():
        late = Unavailable("the database did not take the events in time; send them again")
        written.set_exception(late)


def _answer(database: Database, batch: Batch) -> dict[str, Any]:
    if batch.error is not None:
        raise batch.error
    if batch.status is None:
        raise NotFound(f"There is no run {batch.run_id}; begin it first: POST /runs or the tool start_run")
    if batch.status != RUNNING and batch.accepted:
        or_nothing(batch.run_id, lambda: conclude_again(database, batch.run_id))
    new = batch.accepted > 0
    return batch.answer(reported_verdict(database, batch.run_id, batch.status, batch.kinds, new=new))


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
    ignored   {seq, field, value, why} of values that cannot be meant
    error     what kept it from the disk, or the rest of it; done: how many events were tried
    """

    run_id: str
    reported: list[ReportedEvent]
    events: list[StoredEvent]
    moments: list[float]
    duplicates: int
    differing: set[int]
    kinds: frozenset[str]
    accepted: int = 0
    status: str | None = None
    start: float = 0.0
    ignored: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    done: int = 0
    asker: str | None = field(default_factory=ASKER.get)

    @classmethod
    def of(cls, run_id: str, reported: Sequence[ReportedEvent]) -> Batch:
        """Of two events with one seq in one request the first counts, as it would over two requests."""
        stored = [as_stored(one) for one in reported]
        differing: set[int] = set()
        duplicates = len(stored) - len({seq for seq, _, _ in stored})
        if duplicates:
            first: dict[int, int] = {}
            differing = {e[0] for n, e in enumerate(stored) if stored[first.setdefault(e[0], n)] != e}
            reported, stored = [reported[n] for n in first.values()], [stored[n] for n in first.values()]
        moments = [dt.datetime.fromisoformat(fields["at"]).timestamp() for _, _, fields in reported]
        kinds = frozenset([kind for _, kind, _ in reported])
        return cls(run_id, list(reported), stored, moments, duplicates, differing, kinds)

    def parts(self) -> Iterator[Batch]:
        """Batches of its events in their order, to be written and added."""
        for n in range(0, len(self.events), PART):
            some = {name: getattr(self, name)[n : n + PART] for name in ("reported", "events", "moments")}
            yield replace(self, **some, duplicates=0, differing=set(), ignored=[])

    def add(self, part: Batch) -> bool:
        """Take over what became of a part; whether that was the last one, or the others need not be tried."""
        now = slice(self.done, self.done + len(part.events))
        self.reported[now], self.events[now], self.moments[now] = part.reported, part.events, part.moments
        self.done = now.stop
        self.accepted += part.accepted
        self.duplicates += part.duplicates
        self.differing |= part.differing
        self.ignored += part.ignored
        self.status, self.start, self.error = part.status, part.start, part.error
        return self.error is not None or self.status is None or self.done == len(self.events)

    def answer(self, verdict: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "differing": sorted(self.differing)[:MOST_SHOWN],
            "ignored": self.ignored[:MOST_SHOWN],
            "verdict": verdict,
        }

    def of_run(self, status: str, begun: Begun, now: dt.datetime, summary: Callable[[], Summary]) -> None:
        """The run is there. No event may be earlier than the run, or later than the service's clock allows:
        such a one counts as reported now, and keeps its own as `at_told`. What no such run can report is set
        aside. summary: of what it told before."""
        self.status, self.start = status, begun.started
        self._set_aside(begun.announced, summary)
        if self.kinds & RENUMBERED:
            for n, fields in renumbered(summary(), self.reported).items():
                self._replace(n, fields)
        latest = latest_moment(begun.started, begun.created, now.timestamp())
        earliest = earliest_moment(begun.started)
        if max(self.moments, default=latest) <= latest and min(self.moments, default=earliest) >= earliest:
            return
        for n, moment in enumerate(self.moments):
            if not earliest <= moment <= latest:
                seq, _, fields = self.reported[n]
                told = fields["at"]
                why = "is before the run began" if moment < earliest else "is still to come"
                self.ignored.append(_ignored(seq, "at", told, f"{why}: counted as reported now"))
                self._replace(n, {**fields, "at": utc_text(now.isoformat()), "at_told": told})
                self.moments[n] = now.timestamp()

    def _set_aside(self, announced: Announced, summary: Callable[[], Summary]) -> None:
        odd = [n for n, (_, kind, fields) in enumerate(self.reported) if implausible(kind, fields, announced)]
        if not odd:
            return
        announced = announced.at_least({name: stated[2] for name, stated in summary().settings.items()})
        for _, _, fields in self.reported:
            announced = announced.at_least(fields)
        for n in odd:
            seq, kind, fields = self.reported[n]
            found = implausible(kind, fields, announced)
            self.ignored += [_ignored(seq, name, fields[name], why) for name, why in found.items()]
            aside = {name: fields[name] for name in (fields if "epoch" in found else found) if name != "at"}
            if aside:
                left = {name: value for name, value in fields.items() if name not in aside}
                self._replace(n, {**left, SET_ASIDE: aside})

    def _replace(self, n: int, fields: dict[str, Any]) -> None:
        seq, kind, _ = self.reported[n]
        self.reported[n] = (seq, kind, fields)
        self.events[n] = as_stored(self.reported[n])

    def rows(self, but: Mapping[int, Any] | None = None) -> list[tuple[str, int, str, str]]:
        return [(self.run_id, *event) for event in self.events if not but or event[0] not in but]

    def in_own_time(self, but: Mapping[int, Any] | None = None) -> list[Event]:
        """The reported events, in the run's own time."""
        return [
            Event(seq, kind, moment - self.start, fields)
            for (seq, kind, fields), moment in zip(self.reported, self.moments, strict=True)
            if not but or seq not in but
        ]


def _ignored(seq: int, name: str, value: Any, why: str) -> dict[str, Any]:
    return {"seq": seq, "field": name, "value": value, "why": why}


_Waiting = tuple[Batch, asyncio.Future[None]]


class _Writer:
    """Writes batches to one database, all that wait in one transaction, as long as the database is used."""

    def __init__(self, database: Database) -> None:
        self._database = weakref.ref(database)
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._events: Counter[str | None] = Counter()
        weakref.finalize(database, self._waiting.put, None)
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def write(self, batch: Batch, written: asyncio.Future[None]) -> None:
        """`written` is done when the batch is on disk or has its `error`. Unavailable where too many wait, of
        everybody or of the key that asks: a batch of one alone is always taken."""
        n, who = len(batch.events), batch.asker
        with self._lock:
            own = self._events[who] if who is not None else 0
            if self._events.total() + n > MOST_WAITING or (own and own + n > MOST_WAITING // 4):
                whose = "events of this key" if own else "events"
                raise Unavailable(f"too many {whose} wait for the database; send them again in a moment")
            self._events[who] += n
        self._waiting.put((batch, written))

    def _run(self) -> None:
        """Until the database is gone: all small batches that wait, then a part of a large one."""
        large: deque[tuple[_Waiting, Iterator[Batch]]] = deque()
        while True:
            small, size = list[_Waiting](), 0
            with contextlib.suppress(Empty):
                while size < WRITTEN_AT_ONCE:
                    more = self._waiting.get(block=not small and not large)
                    if more is None:
                        return
                    if len(more[0].events) > LARGE:
                        large.append((more, more[0].parts()))
                    else:
                        small.append(more)
                        size += len(more[0].events)
            if small:
                self._commit([batch for batch, _ in small])
                self._wake(small)
            if large:
                waiting, parts = large[0]
                part = next(parts)
                self._commit([part])
                if waiting[0].add(part):
                    self._wake([waiting])
                    large.popleft()

    def _wake(self, group: Sequence[_Waiting]) -> None:
        with self._lock:
            for batch, _ in group:
                self._events[batch.asker] -= len(batch.events)
                if not self._events[batch.asker]:
                    del self._events[batch.asker]
        waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for _, written in group:
            waiting.setdefault(written.get_loop(), []).append(written)
        for loop, those in waiting.items():  # waking it costs as much for one as for all
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop has ended
                loop.call_soon_threadsafe(_finish, those)

    def _commit(self, group: Sequence[Batch]) -> None:
        database = self._database()
        assert database is not None  # noqa: S101 - whoever waits holds it
        try:
            known = _known(database, group)
            if known and not _all_new(database, known):
                _one_by_one(database, known)
        except BaseException as error:  # noqa: BLE001 - each who waits raises it
            if len(group) > 1 and not isinstance(error, MemoryServiceError):
                for batch in group:  # what one of them breaks the others do without
                    self._commit([batch])
                return
            for batch in group:
                batch.error = error


class _RepeatedError(Exception):
    """Leaves the transaction without a trace: some of it was there already."""


def _all_new(database: Database, group: Sequence[_Known]) -> bool:
    """The usual case: one insertion for all. False, and nothing written, where something was there."""
    try:
        with database.bulk_write() as transaction:
            folding = _folding(transaction, group)
            rows = [row for batch, _ in group for row in batch.rows()]
            if runs.add_events(transaction.statements, rows) != len(rows):
                raise _RepeatedError  # noqa: TRY301 - rolls the transaction back
            for batch, _ in group:
                folding.add(batch.run_id, batch.in_own_time())
            folding.write()
    except _RepeatedError:
        folding.done()
        return False
    folding.done()
    for batch, _ in group:
        batch.accepted = len(batch.events)
    return True


def _one_by_one(database: Database, group: Sequence[_Known]) -> None:
    counted = []
    with database.bulk_write() as transaction:
        folding = _folding(transaction, group)
        for batch, _ in group:
            counted.append((batch, insert(transaction.statements, folding, batch)))
        folding.write()
    folding.done()
    for batch, there in counted:
        batch.accepted = len(batch.events) - len(there)
        batch.duplicates += len(there)
        batch.differing |= {
            e[0] for e in batch.events if e[0] in there and _as_reported(there[e[0]]) != _as_reported(e[1:])
        }


def insert(at: Statements, folding: Folding, batch: Batch) -> dict[int, tuple[str, str]]:
    """Write the events that are not there yet, and fold them; seq -> (kind, body) of those that are. The
    run's summary is locked by `folding`: nobody else adds events to it meanwhile."""
    there = runs.bodies(at, batch.run_id, (event[0] for event in batch.events))
    runs.add_events(at, batch.rows(but=there))
    folding.add(batch.run_id, batch.in_own_time(but=there))
    return there


def _as_reported(event: tuple[str, str]) -> tuple[str, str]:
    kind, body = event
    if not any(f'"{name}"' in body for name in ("at_told", SET_ASIDE, AS_TOLD)):
        return kind, body
    fields = orjson.loads(body)
    fields |= fields.pop(SET_ASIDE, None) or {}
    fields |= fields.pop(AS_TOLD, None) or {}
    if "at_told" in fields:
        fields["at"] = fields.pop("at_told")
    return kind, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


_Known = tuple[Batch, Begun]


def _known(database: Database, group: Iterable[Batch]) -> list[_Known]:
    """The batches of runs that are there."""
    since = begun(database, {batch.run_id for batch in group})
    return [(batch, since[batch.run_id]) for batch in group if batch.run_id in since]


def _folding(transaction: BulkTransaction, group: Sequence[_Known]) -> Folding:
    """Locks the runs of all batches and their summaries."""
    starts = {batch.run_id: since.started for batch, since in group}
    folding = Folding(transaction.caches, transaction.statements, starts)
    for batch, since in group:
        status = folding.statuses[batch.run_id]
        batch.of_run(status, since, transaction.now, partial(folding.summary, batch.run_id))
    return folding
