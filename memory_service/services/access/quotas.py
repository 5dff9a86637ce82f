"""Quotas: how many events and bytes a key may send to be stored on a day (UTC).

Counted in memory and written down by the keyring's thread once a minute, together with reading what other
processes wrote: a restart starts from the count, and a crash forgets a minute of it at most.
"""

import datetime as dt
import threading
from collections import Counter

from memory_service.errors import TooManyRequests
from memory_service.services.database.transactions import Database
from memory_service.store.queries import keys as store

RUN_BYTES = 16 * 1024
"""What a run takes in the database beside what was sent: its prediction, its question, what watches it."""


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class Quotas:
    """The usage of one database's keys, as one process knows it. Threads may share it."""

    def __init__(self, database: Database, events_a_day: int, bytes_a_day: int) -> None:
        """0 = no limit"""
        self._database = database
        self._most = {"events": events_a_day, "bytes": bytes_a_day}
        self._lock = threading.Lock()
        self._day = ""
        self._stored: dict[str, tuple[int, int]] = {}
        self._events: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def check(self, key_id: str | None, *, takes_back: bool = False) -> None:
        """TooManyRequests where the key's quota is used up; without a key there is none. Taking back may
        store twice as many bytes more: all of a day, with its reasons."""
        if key_id is None:
            return
        now = utc_now()
        with self._lock:
            self._begin_day(now)
            events, size = self._stored.get(key_id, (0, 0))
            used = {"events": events + self._events[key_id], "bytes": size + self._bytes[key_id]}
        times, also = (3, ", and three times that to take back") if takes_back else (1, "")
        for unit in ("bytes",) if takes_back else ("events", "bytes"):
            most = self._most[unit]
            if most and used[unit] >= times * most:
                midnight = dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), dt.UTC)
                raise TooManyRequests(
                    f"This key may store {most} {unit} a day (MEMORY_DAILY_{unit.upper()}){also}; "
                    "the next day begins at 00:00 UTC",
                    (midnight - now).total_seconds(),
                )

    def add(self, key_id: str | None, *, events: int = 0, size: int = 0) -> None:
        """Count what a key sent."""
        if key_id is not None:
            with self._lock:
                self._begin_day(utc_now())
                self._events[key_id] += events
                self._bytes[key_id] += size

    def write(self) -> None:
        """Write down what was counted since the last time, and read what is known of all processes."""
        with self._lock:
            self._begin_day(utc_now())
            day, events, sizes = self._day, Counter(self._events), Counter(self._bytes)
        if events.total() or sizes.total():
            with self._database.write_untracked() as writing:
                for key_id in sorted(events.keys() | sizes.keys()):
                    store.add_usage(writing.session, day, key_id, events[key_id], sizes[key_id])
                store.remove_usage(writing.session, before=day)
        with self._database.read() as transaction:
            stored = store.usage_of(transaction.session, day)
        with self._lock:
            if day == self._day:
                self._events -= events
                self._bytes -= sizes
                self._stored = stored

    def _begin_day(self, now: dt.datetime) -> None:
        if (day := now.date().isoformat()) != self._day:
            self._day, self._stored = day, {}
            self._events.clear()
            self._bytes.clear()
