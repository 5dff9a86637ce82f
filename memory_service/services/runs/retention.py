"""Runs that fell silent are closed; raw samples are thinned after MEMORY_KEEP_RAW_DAYS: one of the device and
one of steps an epoch stay.

Epochs, folds, notes and the summary of a run stay for ever. A run is thinned when it ended that long ago, or
began and has reported nothing for as long. Transactions are small, so that reporting runs never wait for it.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Any

import orjson

from memory_service.domain.runs.advice_outcome import place_of
from memory_service.domain.runs.thinning import Thinned, thinned
from memory_service.errors import MemoryServiceError
from memory_service.services.database.transactions import Database
from memory_service.services.runs.observations import conclude, conclude_silent, count_waste
from memory_service.services.runs.outcome_evidence import remember_missing
from memory_service.services.runs.summaries import or_nothing, write_summary
from memory_service.services.tables.audit import note
from memory_service.store.engine import read_object
from memory_service.store.queries import outcomes, runs

_log = logging.getLogger(__name__)

HOUR_SECONDS = 3_600.0
RUNS_AT_ONCE = 50
EVENTS_AT_ONCE = 2_000
"""Deleted in one transaction: some milliseconds, in which no run can report anything."""


def thin(
    database: Database, keep_days: float, *, now: dt.datetime | None = None, stop: Event | None = None
) -> dict[str, int]:
    """`{"runs", "events"}`: how many runs were thinned and how many raw samples are gone. 0 days: none."""
    done = {"runs": 0, "events": 0}
    if keep_days <= 0:
        return done
    before = (now or dt.datetime.now(dt.UTC)) - dt.timedelta(days=keep_days)
    going: set[str] = set()
    while stop is None or not stop.is_set():
        with database.read() as transaction:
            found = outcomes.to_thin(transaction.session, before, RUNS_AT_ONCE + len(going))
        fresh = [(run_id, ended) for run_id, ended in found if run_id not in going]
        if not fresh:
            break
        for run_id, ended in fresh:
            gone = or_nothing(run_id, partial(_thin_run, database, run_id, before, ended=ended))
            if gone is None:
                going.add(run_id)
                continue
            done["runs"] += 1
            done["events"] += gone
    return done


def _thin_run(database: Database, run_id: str, before: dt.datetime, *, ended: bool) -> int | None:
    """How many events are gone; None for a run that has not ended and reported something since."""
    with database.read() as transaction:
        run = runs.find(transaction.session, run_id)
        reported = [
            (seq, kind, fields)
            for seq, kind, body in runs.events_of(transaction.session, run_id)
            if (fields := read_object(body))
        ]
    moments = (dt.datetime.fromisoformat(body["at"]) for _, _, body in reported)
    if run is None or (not ended and any(moment >= before for moment in moments)):
        return None
    with database.write_untracked() as writing:
        write_summary(writing, run_id, run.started_at.timestamp())
    gone = 0
    for part in _portions(thinned(reported)):
        with database.write_untracked() as writing:
            for one in part:
                stored = {
                    seq: orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()
                    for seq, body in one.merged.items()
                }
                gone += outcomes.thin(writing.session, run_id, stored, one.gone)
    with database.write_untracked() as writing:
        place = place_of(run.competition, run.task, run.n_train)
        outcomes.keep(writing.session, run, place, writing.now, thinned_at=writing.now)
    return gone


def _portions(stretches: Iterable[Thinned]) -> Iterable[list[Thinned]]:
    """Whole stretches: what is kept of one changes in the transaction in which the rest goes."""
    portion: list[Thinned] = []
    for one in stretches:
        portion.append(one)
        if sum(len(each.gone) for each in portion) >= EVENTS_AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion


class Retention:
    """Thins in a thread of its own: once the database can be asked, then every hour. It also closes runs that
    were killed, remembers runs that a killed server did not, and counts what those of an older program
    wasted."""

    def __init__(self, database: Database, keep_days: float) -> None:
        self._database = database
        self._keep_days = keep_days
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self, ready: Callable[[], bool]) -> None:
        """Begin when the database can be asked; returns at once."""
        self._thread = Thread(target=self._run, args=(ready,), name="retention", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Wait for the transaction that runs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self, ready: Callable[[], bool]) -> None:
        while not ready() and not self._stopping.wait(1.0):
            pass
        while not self._stopping.is_set():
            try:
                remember_missing(self._database)
                closed = close_silent(self._database, stop=self._stopping)
                if closed:
                    _log.info("%d runs without a sign of life are closed", closed)
                count_waste(self._database, self._stopping)
                done = thin(self._database, self._keep_days, stop=self._stopping)
                if done["runs"]:
                    _log.info("thinned %d runs: %d raw samples are gone", done["runs"], done["events"])
            except MemoryServiceError as error:
                _log.warning("raw samples were not thinned: %s", error.detail)
            except Exception:  # noqa: BLE001 - it is in the log; the thread has no caller
                _log.exception("raw samples were not thinned")
            self._stopping.wait(HOUR_SECONDS)


SILENT_SECONDS = 3_600.0
"""Nothing that trains reports less often; a client sends a sample of its device every minute."""


def close_silent(
    database: Database, *, now: dt.datetime | None = None, stop: threading.Event | None = None
) -> int:
    """End runs that have been silent for an hour and, where they have a budget, behind its end; how many.

    They end as crashed, at their last event. That is assumed: what the run itself reports later goes before.
    """
    now = now or dt.datetime.now(dt.UTC)
    closed, after = 0, ""
    while stop is None or not stop.is_set():
        with database.read() as transaction:
            began = now - dt.timedelta(seconds=SILENT_SECONDS)
            going = runs.running_since(transaction.session, began, after, RUNS_AT_ONCE)
            latest = runs.last_event_bodies(transaction.session, [run.id for run in going])
        if not going:
            break
        ends = {run.id: end for run in going if (end := _end(run, read_object(latest.get(run.id)), now))}
        ended = _close(database, ends) if ends else set()
        for run_id in ended & latest.keys():
            or_nothing(run_id, partial(conclude, database, run_id))
        if silent := ended - latest.keys():
            conclude_silent(database, silent)
        closed, after = closed + len(ended), going[-1].id
    return closed


def _end(run: runs.Going, body: Mapping[str, Any], now: dt.datetime) -> dt.datetime | None:
    """When a silent run ended; None while it may go on. body: its last event, if any"""
    last = run.started_at
    if body:
        last = max(last, dt.datetime.fromisoformat(body["at"]))
    budget = dt.timedelta(minutes=run.minutes or 0.0)
    offset = run.created_at - run.started_at  # its own clock against the service's
    silent = now - (last + offset) >= dt.timedelta(seconds=SILENT_SECONDS)
    return last if silent and now >= run.created_at + budget else None


def _close(database: Database, ends: Mapping[str, dt.datetime]) -> set[str]:
    """Those that had not ended meanwhile."""
    closed = set()
    with database.write_untracked() as transaction:
        for run_id, at in sorted(ends.items()):
            run = runs.find(transaction.session, run_id, to_change=True)
            if run is None or run.finish:
                continue
            finish = {"status": "crashed", "at": at.isoformat(), "assumed": True}
            values = {"status": "crashed", "finish": finish, "finished_at": at, "updated_at": transaction.now}
            runs.change(transaction.session, run_id, values)
            note(transaction, "runs", run_id, "update", "ended: no sign of it any more", who=None)
            closed.add(run_id)
    return closed
