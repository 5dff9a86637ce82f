"""The holder of a key or session: asked for by every request, answered from memory for a few seconds.

A key or session that was found good counts for `CACHED_SECONDS` without asking the database, a key on while a
thread finds that none was made or revoked: revoked by another process, it works for so long at most; revoked
by this one, it ends at once. A key that is not good is never cached. Whether it is unknown, wrong,
expired or revoked, the same is done (a hash, a query, a comparison that takes as long whatever differs) and
the same is said.

When a key was used last is noted here and written by a thread, for each key at most once a minute: no request
waits for it. So are refused keys, at most one entry a minute for each address.
"""

import contextlib
import datetime as dt
import hashlib
import hmac
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic, time

from cachetools import TTLCache
from sqlalchemy.exc import ProgrammingError

from memory_service.domain.common.api_keys import Key, digest
from memory_service.errors import MemoryServiceError, TooManyRequests, WrongRevision
from memory_service.services.access.keys import is_valid
from memory_service.services.database.transactions import Database, WriteTransaction
from memory_service.services.tables.audit import note
from memory_service.store.queries import history
from memory_service.store.queries import keys as store
from memory_service.store.tables.keys import ApiKey

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


CACHED_SECONDS = 5.0
READ_AGAIN_SECONDS = 300.0
"""Each key, whatever else is found: somebody may have written to the table by hand."""

WRITTEN_EVERY_SECONDS = 60.0

_MOST_CACHED = 4_096
_MOST_REFUSED = 100
"""Addresses a minute whose refused keys are listed one by one in the audit."""

_LOOK_SECONDS = 4.0
_NEVER = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_SESSION = "session "
"""Before the digest of a session's id, so that no key passes for one."""

_NOBODY = "0" * 64
"""What a key is compared with that nobody has."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who asks: the key's public id, its name and scopes.

    ends   seconds since 1970 at which the key or the session expires
    csrf   the token of a session's forms; None for who shows the key itself
    """

    key_id: str
    name: str
    scopes: frozenset[str]
    ends: float
    csrf: str | None = None


class Keyring:
    """The keys of one database, as one process knows them. Threads may share it."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self._database = database
        self._quotas = quotas
        self._lock = threading.Lock()
        self._cached: TTLCache[str, tuple[float, Holder]] = TTLCache(
            _MOST_CACHED,
            READ_AGAIN_SECONDS,
            timer=lambda: monotonic(),  # noqa: PLW0108 - looked up each time: tests move the clock
        )
        self._counts = (0, 0)
        self._counted_at = -CACHED_SECONDS
        """When cached keys were last known to stand."""
        self._forgotten = 0
        self._used: dict[str, dt.datetime] = {}
        self._refused: dict[str, tuple[int, str]] = {}
        self._written: dict[str, dt.datetime] = {}
        self._quotas_written = _NEVER
        self._logged_at = _NEVER
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def cached_key(self, key: Key) -> Holder | None:
        """The holder of a key that was found good just now."""
        return self._just_now(digest(key.text), self._counted_at)

    def cached_session(self, session_id: str) -> Holder | None:
        """Whose session it is, when that was found just now."""
        return self._just_now(_SESSION + digest(session_id), 0.0)

    def _just_now(self, proof: str, stood: float) -> Holder | None:
        with self._lock:
            read, holder = self._cached.get(proof, (0.0, None))
        if holder is None or holder.ends <= time() or monotonic() >= max(read, stood) + CACHED_SECONDS:
            return None
        self._used[holder.key_id] = dt.datetime.now(dt.UTC)
        return holder

    def of_key(self, key: Key) -> Holder | None:
        """The holder of a key, by the database; None where it is not valid, for whatever reason."""
        shown = digest(key.text)
        now, read, forgotten = dt.datetime.now(dt.UTC), monotonic(), self._forgotten
        with _tables(), self._database.read() as transaction:
            row = store.find_or_another(transaction.session, key.id)
        own = row is not None and row.id == key.id
        same = hmac.compare_digest(row.digest if row is not None and own else _NOBODY, shown)
        if row is None or not own or not same or not is_valid(row, now):
            return None
        return self._cache(shown, _holder(row, row.expires_at), read, forgotten)

    def of_session(self, session_id: str) -> Holder | None:
        """Whose session it is; None where there is none, or it ended."""
        proof = digest(session_id)
        now, read, forgotten = dt.datetime.now(dt.UTC), monotonic(), self._forgotten
        with _tables(), self._database.read() as transaction:
            found = store.session_of(transaction.session, proof)
        if found is None or now >= found[0].expires_at or not is_valid(found[1], now):
            return None
        holder = _holder(found[1], found[0].expires_at, csrf_token(session_id))
        return self._cache(_SESSION + proof, holder, read, forgotten)

    def key_now(self, key: Key) -> Holder | None:
        """Whose key it is, from memory or by the database."""
        return self.cached_key(key) or self.of_key(key)

    def session_now(self, session_id: str) -> Holder | None:
        """The same of a session."""
        return self.cached_session(session_id) or self.of_session(session_id)

    def forget(self) -> None:
        """Ask the database again for every key: one of them was revoked, or a session ended."""
        with self._lock:
            self._cached.clear()
            self._forgotten += 1

    def refused(self, address: str, key_id: str) -> None:
        """Somebody at this address showed a key that is not valid."""
        with self._lock:
            count = self._refused.get(address, (0, ""))[0]
            if count or len(self._refused) < _MOST_REFUSED:
                self._refused[address] = (count + 1, key_id)

    def start(self) -> None:
        """Begin to write down what was noted."""
        self._thread = threading.Thread(target=self._run, name="keyring", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write down the rest."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(10.0)

    def write(self, *, all_of_it: bool = False) -> None:
        """Write down which keys were used and which refused, where the last time is a minute ago."""
        now = dt.datetime.now(dt.UTC)
        gap = dt.timedelta(seconds=0 if all_of_it else WRITTEN_EVERY_SECONDS)
        written, last = self._written, list(self._used.items())
        used = {key: moment for key, moment in last if moment > written.get(key, _NEVER) + gap}
        refused: dict[str, tuple[int, str]] = {}
        if self._refused and now >= self._logged_at + gap:
            with self._lock:
                refused, self._refused = self._refused, {}
            self._logged_at = now
        if not used and not refused:
            return
        with self._database.write_untracked() as transaction:
            store.used(transaction.session, used)
            for address, (count, key_id) in refused.items():
                why = f"{count} requests with a key that is not valid, the last time this one"
                note(transaction, "refusals", key_id, "create", why, who=address)
        self._written |= used

    def look(self) -> None:
        """Forget what is cached if a key was made or revoked; else keys stand on."""
        began = monotonic()
        with _tables(), self._database.read() as transaction:
            counts = store.counts(transaction.session)
        with self._lock:
            if counts != self._counts:
                self._cached.clear()
                self._forgotten += 1  # what others read meanwhile may be of before
                self._counts = counts
            self._counted_at = began

    def _cache(self, proof: str, holder: Holder, read: float, forgotten: int) -> Holder:
        """`read`, `forgotten`: the time and count before the database was asked; what was forgotten meanwhile
        stays so."""
        with self._lock:
            if forgotten == self._forgotten:
                self._cached[proof] = (read, holder)
        self._used[holder.key_id] = dt.datetime.now(dt.UTC)
        return holder

    def _write_quotas(self, *, at_once: bool) -> None:
        now = dt.datetime.now(dt.UTC)
        if at_once or now >= self._quotas_written + dt.timedelta(seconds=WRITTEN_EVERY_SECONDS):
            with _tables():
                self._quotas.write()
            self._quotas_written = now

    def _run(self) -> None:
        self._write_if_possible(all_of_it=False)
        while not self._closing.wait(_LOOK_SECONDS):
            self._write_if_possible(all_of_it=False)
        self._write_if_possible(all_of_it=True)

    def _write_if_possible(self, *, all_of_it: bool) -> None:
        try:
            self.look()
            self.write(all_of_it=all_of_it)
            self._write_quotas(at_once=all_of_it)
        except MemoryServiceError as error:  # written with the next use
            _log.warning("when keys were used last could not be written: %s", error.detail)


@contextlib.contextmanager
def _tables() -> Iterator[None]:
    try:
        yield
    except ProgrammingError as error:  # under another server than `serve`, which would not have started
        raise WrongRevision("The database has no keys yet: run memory-service db upgrade") from error


def csrf_token(session_id: str) -> str:
    """The token that a session's forms carry; from the database, which has only a hash of the id, it cannot
    be made."""
    return hmac.new(session_id.encode(), b"forms", hashlib.sha256).hexdigest()


def _holder(row: ApiKey, ends: dt.datetime | None, csrf: str | None = None) -> Holder:
    ending = float("inf") if ends is None else ends.timestamp()
    return Holder(row.id, row.name, frozenset(row.scopes), ending, csrf)


HOURS = 12.0

MOST_OF_KEY = 20
"""Sessions of one key; a further one ends the oldest."""

_NOTED = dt.timedelta(minutes=1)
"""Of a key that signs in again and again the history has one entry in this time."""


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """`id` is what the browser is to send; `seconds` until it ends."""

    id: str
    seconds: int


def sign_in(database: Database, holder: Holder, before: str | None = None) -> Session:
    """A new session of this key, whatever the browser sent; the one `before` ends."""
    session_id = secrets.token_urlsafe(32)
    with database.write_untracked() as transaction:
        ends = transaction.now + dt.timedelta(hours=HOURS)
        if holder.ends < ends.timestamp():
            ends = dt.datetime.fromtimestamp(holder.ends, dt.UTC)
        if before is not None:
            store.remove_session(transaction.session, digest(before))
        store.remove_sessions(transaction.session, before=transaction.now)
        store.keep_sessions(transaction.session, holder.key_id, MOST_OF_KEY - 1)
        values = {"digest": digest(session_id), "key_id": holder.key_id}
        store.add_session(transaction.session, {**values, "created_at": transaction.now, "expires_at": ends})
        _note(transaction, holder.key_id, "create", "signed in on the pages", holder.name)
        return Session(session_id, max(1, int((ends - transaction.now).total_seconds())))


def sign_out(database: Database, session_id: str, who: str) -> None:
    """The session's end."""
    with database.write_untracked() as transaction:
        found = store.session_of(transaction.session, digest(session_id))
        if found is not None:
            store.remove_session(transaction.session, found[0].digest)
            _note(transaction, found[1].id, "delete", "signed out", who)


def _note(transaction: WriteTransaction, key_id: str, action: history.Action, why: str, who: str) -> None:
    latest = history.of_row(transaction.session, "sessions", key_id, 2)
    if not any(each.action == action and transaction.now - each.at < _NOTED for each in latest):
        note(transaction, "sessions", key_id, action, why, who=who)
