"""The summary of a run's events, up to date at the same cost however many there were.

Whoever adds events to a run holds the lock on its summary's row. The process that wrote the summary last
keeps it in memory with the events since, and writes it again only every few hundred events. Each write leaves
a new mark in the row. A process that does not remember under that mark (it was started since, or another
one wrote) reads the summary and the events behind it, which are those with a greater seq, and writes first of
all. So whoever is killed loses nothing, and nothing is counted twice.
"""

import datetime as dt
import itertools
import logging
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import orjson
from cachetools import LRUCache

from memory_service.domain.monitoring.event import SERVER_SEQ, Event, number_of
from memory_service.domain.monitoring.plausibility import Announced
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.prediction.trust import SEVERAL
from memory_service.errors import Forbidden, InvalidInput, MemoryServiceError
from memory_service.services.database.caches import Caches
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.knowledge.asker import ASKER, CORRECTS, INSIDE
from memory_service.store.engine import read_object
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs
from memory_service.store.session import Statements
from memory_service.store.tables.runs import Run

MOST_BEHIND = 256
"""Events that a summary may be behind: read and folded in 2 ms."""

MOST_PENDING = 64
"""Events that wait to be folded together: a fold of one costs as much as of three."""

MOST_REMEMBERED = 512
"""Runs; a summary takes up to 0.1 MB as objects."""

MOST_BEGUN = 20_000

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """When a run began, in seconds since 1970: by its own clock and by the service's; what it said; and
    who told of its beginning, None where that is not known or several told of it."""

    started: float
    created: float
    announced: Announced
    reporter: str | None = None


@dataclass(eq=False)
class _Live:
    """A run as this process knows it. Changed by whoever holds the lock on its row.

    mark, upto   of the summary as it is written; top: the greatest seq of a client's event; behind: how many
                 events came since
    """

    mark: str
    upto: int
    top: int
    summary: Summary
    behind: int = 0
    pending: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, events: Sequence[Event]) -> None:
        with self.lock:
            self.pending.extend(events)
        self.behind += len(events)
        self.top = max(self.top, max([event.seq for event in events if event.seq < SERVER_SEQ], default=-1))
        if len(self.pending) >= MOST_PENDING:
            self.now()

    def now(self) -> Summary:
        with self.lock:
            if self.pending:
                self.summary, self.pending = add_events(self.summary, self.pending), []
            return self.summary


@dataclass(eq=False)
class _Memory:
    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: LRUCache[str, _Live] = field(default_factory=partial(LRUCache, MOST_REMEMBERED))
    begun: dict[str, Begun] = field(default_factory=dict)

    def get(self, run_id: str, mark: str | None, *, take: bool = False) -> _Live | None:
        with self.lock:
            known = self.runs.pop(run_id, None) if take else self.runs.get(run_id)
            return known if known is not None and known.mark == mark else None

    def keep(self, run_id: str, live: _Live) -> None:
        with self.lock:
            self.runs[run_id] = live


_PROCESS, _WRITINGS = uuid.uuid4().hex, itertools.count()
"""With the id of the process a mark that nobody else makes."""

_NOTHING = orjson.dumps(Summary().as_dict()).decode()


def events_in(rows: Iterable[tuple[int, str, str]], start: float) -> Iterator[Event]:
    """Kept events, (seq, kind, body), in the run's own time, without damaged ones. start: of the run, seconds
    since 1970."""
    for seq, kind, body in rows:
        if fields := read_object(body):
            yield Event(seq, kind, dt.datetime.fromisoformat(fields["at"]).timestamp() - start, fields)


def or_nothing(run_id: str, make: Callable[[], T]) -> T | None:
    """What `make` gave; None, and the reason in the log, where it failed: what a run reported is on disk, and
    no figure in it may keep it from being acknowledged or shown."""
    try:
        return make()
    except Exception as error:
        if isinstance(error, MemoryServiceError) and not isinstance(error, InvalidInput):
            raise
        _log.exception("run %s cannot be judged", run_id)
        return None


def each_or_nothing(transaction: WriteTransaction, found: Iterable[Run], do: Callable[[Run], None]) -> None:
    """Each in a savepoint of its own: what fails for one writes nothing of it, and the others go on."""

    def one(run: Run) -> None:
        with transaction.session.begin_nested():
            do(run)
            transaction.session.flush()

    for run_id, run in [(run.id, run) for run in found]:
        or_nothing(run_id, partial(one, run))


def begun(database: Database, run_ids: Collection[str]) -> dict[str, Begun]:
    """Of those of the runs that are there; each is looked up once."""
    known = database.caches.of(_Memory).begun
    there = {run_id: known[run_id] for run_id in run_ids if run_id in known}
    unknown = [run_id for run_id in run_ids if run_id not in there]
    if unknown:
        with database.read() as transaction:
            found = runs.beginnings(transaction.session, unknown)
        there |= {
            run_id: Begun(*times, _announced(given, watch), watch.get("reporter"))
            for run_id, (started, created, given, told) in found.items()
            for times, watch in [((started.timestamp(), created.timestamp()), told or {})]
        }
        if len(known) >= MOST_BEGUN:
            known.clear()
        known.update(there)
    return there


def told_by_another(database: Database, run_id: str) -> bool:
    """Whether the caller's key is not known to be the one that began the run; it asks no database."""
    known, teller = database.caches.of(_Memory).begun.get(run_id), ASKER.get()
    return teller is not None and (known is None or known.reporter not in (None, teller))


def note_teller(database: Database, run_id: str) -> None:
    """Forbidden where another key began the run, unless the asker's may correct others' rows: then the run is
    nobody's report from now on. One begun without a key the first key over loopback takes over."""
    known, teller = begun(database, [run_id]).get(run_id), ASKER.get()
    if known is None or known.reporter is None or teller in (None, known.reporter):
        return
    takes_over = not CORRECTS.get()
    if takes_over and (known.reporter or not INSIDE.get()):
        raise Forbidden("Another began this run: tell of it with the same key, or with one of scope edit")
    with database.write_untracked() as transaction:
        run = runs.find(transaction.session, run_id, to_change=True)
        if run is None:
            return
        watch = run.watch or {}
        if takes_over and watch.get("reporter") not in (None, "", teller):
            raise Forbidden("Another key took this run over: tell of it with that key, or one of scope edit")
        values: dict[str, Any] = {"told_by": SEVERAL}
        if takes_over:
            values["watch"] = {**watch, "reporter": teller}
        if run.prediction and run.prediction.get("case"):
            case = run.prediction["case"] | {"reporter": SEVERAL, "confirmed": False}
            values["prediction"] = {**run.prediction, "case": case}
        if run.told_by != SEVERAL or (takes_over and not watch.get("reporter")):
            runs.change(transaction.session, run_id, values)
    if takes_over:
        database.caches.of(_Memory).begun.pop(run_id, None)


def _announced(given: Mapping[str, Any], watch: Mapping[str, Any]) -> Announced:
    """Of what a run said when it began; card: the one planned for, or the larger that it says it has."""
    facts, host = watch.get("facts") or {}, given.get("host") or {}
    told = (number_of(facts.get("memory_gib")), number_of(host.get("gpu_memory_gib")))
    card = max((gib for gib in told if gib), default=None) if facts.get("device_kind") == "cuda" else None
    folds = given.get("folds")
    return Announced(card, given.get("epochs"), folds and folds * (given.get("seeds") or 1))


def begin_summary(transaction: WriteTransaction, run_id: str) -> None:
    """A new run has no events."""
    watched.begin_summary(transaction.session.statements, [run_id], _NOTHING)


class Folding:
    """The summaries of some runs while events are added to them, in the transaction of the events. Meanwhile
    this process does not remember them: only what is on disk is remembered.

    starts     run -> its start, seconds since 1970
    statuses   run -> its status, which stays to the end of the transaction
    """

    def __init__(self, caches: Caches, at: Statements, starts: Mapping[str, float]) -> None:
        self._memory, self._at = caches.of(_Memory), at
        rows = watched.lock(at, starts)
        missing = starts.keys() - rows.keys()
        if missing:  # begun before there were summaries
            watched.begin_summary(at, sorted(missing))
            rows |= watched.lock(at, missing)
        self.statuses = {run_id: row.status for run_id, row in rows.items()}
        self._lives: dict[str, _Live] = {}
        self._due: set[str] = set()
        for run_id, row in rows.items():
            live = self._memory.get(run_id, row.mark, take=True)
            if live is None:
                live = _read(at, run_id, starts[run_id])
                self._due.add(run_id)
            self._lives[run_id] = live

    def summary(self, run_id: str) -> Summary:
        return self._lives[run_id].now()

    def add(self, run_id: str, events: Sequence[Event]) -> None:
        """Events that were not there before and are inserted in this transaction."""
        if not events:
            return
        live = self._lives[run_id]
        seqs = [event.seq for event in events]
        if min(seqs) <= live.upto or max(seqs) >= SERVER_SEQ:
            self._due.add(run_id)
        live.add(events)
        if live.behind > MOST_BEHIND:
            self._due.add(run_id)

    def write(self, *, all_of_it: bool = False) -> None:
        """Last in the transaction. all_of_it: also what need not be written yet."""
        rows = []
        for run_id in self._lives if all_of_it else self._due:
            live = self._lives[run_id]
            live.mark, live.upto, live.behind = f"{_PROCESS}/{os.getpid()}/{next(_WRITINGS)}", live.top, 0
            rows.append((run_id, live.upto, live.mark, orjson.dumps(live.now().as_dict()).decode()))
        if rows:
            watched.write_summaries(self._at, rows)
        self._due.clear()

    def done(self) -> None:
        """The transaction is on disk, or was given up before anything was added: remember again."""
        for run_id, live in self._lives.items():
            if run_id not in self._due:
                self._memory.keep(run_id, live)


def write_summary(transaction: WriteTransaction, run_id: str, start: float) -> None:
    """Bring the stored summary up to date with all events: before some are thinned, and when the run has
    ended."""
    Folding(transaction.caches, transaction.session.statements, {run_id: start}).write(all_of_it=True)


def read_summary(transaction: ReadTransaction, run_id: str, start: float) -> Summary:
    """The summary of all events of the run."""
    at = transaction.session.statements
    row = watched.summary_of(at, run_id)
    live = None if row is None else transaction.caches.of(_Memory).get(run_id, row[1])
    return (live or _read(at, run_id, start)).now()


def remembered(database: Database, run_id: str) -> Summary | None:
    """The summary as this process knows it."""
    memory = database.caches.of(_Memory)
    with memory.lock:
        live = memory.runs.get(run_id)
    return None if live is None else live.now()


def _read(at: Statements, run_id: str, start: float) -> _Live:
    """The summary as it is kept, and the events that it is behind."""
    upto, mark, text = watched.summary_of(at, run_id) or (None, None, None)
    stored = read_object(text)
    summary = Summary.from_dict(stored)
    if not stored:  # none yet, or damaged
        upto = None
        reported = runs.events_between(at, run_id, -1, 2**63 - 1)
    else:
        upto = runs.last_seq(at, run_id, SERVER_SEQ) if upto is None else upto
        reported = runs.events_between(at, run_id, upto, SERVER_SEQ)
    live = _Live(mark or "", -1 if upto is None else upto, -1 if upto is None else upto, summary)
    if reported:
        live.add([*events_in(reported, start)])
    return live
