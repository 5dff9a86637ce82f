"""Where a transaction begins and ends: in these four methods of `Database`, and nowhere else.

    with database.read() as transaction:             one snapshot; the database itself refuses writes
    with database.write() as transaction:            all or nothing; raises the knowledge revision if anything
                                                     was written
    with database.write_untracked() as transaction:  the same for what no plan rests on (telemetry, progress):
                                                     the revision stays, and every cached answer stays good
    with database.bulk_write() as transaction:       the same for thousands of times a second: plain
                                                     statements only

Whatever was written is on disk when its block is left. Nobody calls commit(): leaving the block does, an
exception rolls back. Encode text before the block opens.
"""

import contextlib
import datetime as dt
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, select
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.orm.exc import StaleDataError

from memory_service.errors import Conflict, OutOfSpace, Unavailable
from memory_service.services.database.caches import Caches
from memory_service.store import dialects
from memory_service.store.engine import make_engine
from memory_service.store.session import RECORDED, ReadSession, Statements, WriteSession, bump_revision
from memory_service.store.tables.knowledge import Knowledge

_REVISION = select(Knowledge.revision)
_REVISION_SQL = "SELECT revision FROM knowledge"
WRITERS = 4
WRITER_SLOT_SECONDS = 2.0
"""Half of the threads that answer requests may wait for the database's lock; another writer waits so long for
a slot among them."""
WRITER_TURN_SECONDS = 15.0
"""As long as SQLite waits for the lock of another process."""

STORED: ContextVar[Callable[[int], None]] = ContextVar("stored", default=lambda _: None)
"""Is told how many characters of the history each transaction wrote."""

_MOST_KEPT = 4
"""Connections kept open for glances at the revision."""


@dataclass(frozen=True, slots=True)
class ReadTransaction:
    """One snapshot of the database; `session` is what the query modules of `store` take, `caches` are the
    database's."""

    session: ReadSession
    caches: Caches


@dataclass(frozen=True, slots=True)
class WriteTransaction(ReadTransaction):
    """One transaction. It can do all that a `ReadTransaction` can, and `now` is the one time its rows carry
    (UTC)."""

    session: WriteSession
    now: dt.datetime


@dataclass(frozen=True, slots=True)
class BulkTransaction:
    """One transaction for plain statements; `now` as in a `WriteTransaction`."""

    statements: Statements
    caches: Caches
    now: dt.datetime


class _WriterTurns:
    """Writers of an embedded database, one at a time: transactions of events and all others take turns, and
    among the others the first goes first. SQLite's own lock is no queue: who asks at the right moment gets
    it, and events waited two seconds behind corrections."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[bool, deque[object]] = {False: deque(), True: deque()}
        self._writing = False
        self._latest_events = False

    @contextlib.contextmanager
    def turn(self, events: bool) -> Iterator[None]:
        """Unavailable where none comes within `WRITER_TURN_SECONDS`."""
        ticket, own = object(), self._waiting[events]
        with self._changed:
            own.append(ticket)
            came = self._changed.wait_for(lambda: self._is_next(ticket, events), WRITER_TURN_SECONDS)
            own.remove(ticket)
            self._changed.notify_all()
            if not came:
                raise Unavailable("other writers hold the database; ask again in a moment")
            self._writing, self._latest_events = True, events
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _is_next(self, ticket: object, events: bool) -> bool:
        others = self._waiting[not events]
        goes_first = not others or events is not self._latest_events
        return not self._writing and goes_first and self._waiting[events][0] is ticket


class Database:
    """A database by its URL. Threads may share it; after a fork, make a new one. What services remember of
    it stands in its `caches`.

    Unavailable is raised when the database cannot be reached, or is still busy after the time writers wait;
    OutOfSpace when its disk is full; Conflict when a row moved between reading and writing, or breaks a
    constraint.
    """

    def __init__(self, url: str) -> None:
        self.engine = make_engine(url)
        self.dialect = dialects.of(self.engine)
        self.caches = Caches()
        self._reading = self.engine.execution_options(**self.dialect.read_options)
        self._writing = self.engine.execution_options(**self.dialect.write_options)
        self._kept: list[Connection] = []
        self._writer_slots = threading.BoundedSemaphore(WRITERS)
        self._writer_turns = _WriterTurns() if self.dialect.embedded else None
        self._glancing = self.engine.execution_options(**self.dialect.glance_options)
        self._appending = self.engine.execution_options(**self.dialect.append_options)
        self._appended: Connection | None = None
        self._append_turn = threading.Lock()
        self.closed = threading.Event()
        self.on_write: Callable[[], None] = lambda: None
        """Is told that plans may rest on something new, in the context of whoever wrote it."""

    @property
    def url(self) -> str:
        """For people: the password is hidden."""
        url = self.engine.url
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)

    @property
    def file(self) -> Path | None:
        """The file of an embedded database; None for a server."""
        return Path(self.engine.url.database or "") if self.dialect.embedded else None

    @contextlib.contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        with _refusals(self), ReadSession(self._reading, autoflush=False, expire_on_commit=False) as session:
            yield ReadTransaction(session, self.caches)

    @contextlib.contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self.write_untracked() as transaction:
            yield transaction
            transaction.session.flush()
            if transaction.session.wrote:
                bump_revision(transaction.session, transaction.now)
        self.on_write()

    @contextlib.contextmanager
    def write_untracked(self) -> Iterator[WriteTransaction]:
        writer = WriteSession(self._writing, expire_on_commit=False)
        with self._writer_slot(), self._turn(), _refusals(self), writer as session:
            session.connection()
            yield WriteTransaction(session, self.caches, dt.datetime.now(dt.UTC))
            session.flush()
            session.commit()
        STORED.get()(sum(len(str(each)) for each in writer.info.get(RECORDED, ())))

    @contextlib.contextmanager
    def _writer_slot(self) -> Iterator[None]:
        """One of few: where all wait for a lock that somebody else holds, the other threads go on."""
        if not self._writer_slots.acquire(timeout=WRITER_SLOT_SECONDS):
            raise Unavailable(
                f"{_named(self)} is busy: {WRITERS} writers wait already; ask again in a moment"
            )
        try:
            yield
        finally:
            self._writer_slots.release()

    def _turn(self, events: bool = False) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._writer_turns is None else self._writer_turns.turn(events)

    @contextlib.contextmanager
    def bulk_write(self) -> Iterator[BulkTransaction]:
        """On a connection that stays open; one at a time in this process."""
        with self._append_turn, self._turn(events=True), _refusals(self):
            statements = self._begun_append()
            try:
                yield BulkTransaction(statements, self.caches, dt.datetime.now(dt.UTC))
                statements.run("COMMIT")
            except BaseException:
                try:
                    statements.run("ROLLBACK")
                except DBAPIError:
                    self._end_append()
                raise

    def _begun_append(self) -> Statements:
        if self._appended is not None:
            try:
                return self._begin_append(self._appended)
            except DBAPIError:
                if self.dialect.embedded:
                    raise
                self._end_append()  # it died while it was kept; a new one decides
        self._appended = self._appending.connect()
        self._appended.exec_driver_sql("SELECT 1").all()
        return self._begin_append(self._appended)

    def _begin_append(self, connection: Connection) -> Statements:
        statements = Statements(connection.connection.driver_connection, self.dialect)
        statements.run(self.dialect.begin_write)
        return statements

    def _end_append(self) -> None:
        if self._appended is not None:
            self._appended.invalidate()
            self._appended.close()
            self._appended = None

    def knowledge_revision(self) -> int:
        """Rises with every write: what was computed from the knowledge under another revision is stale."""
        with contextlib.suppress(IndexError):
            stored = self._kept.pop()
            try:
                found = stored.connection.driver_connection.execute(_REVISION_SQL).fetchall()  # type: ignore[union-attr]
            except self.engine.dialect.loaded_dbapi.Error:
                stored.invalidate()  # it died while it was kept; a new one decides
                stored.close()
            else:
                self._kept.append(stored)
                return int(found[0][0]) if found else 0
        with _refusals(self):
            return self._first_glance()

    def _first_glance(self) -> int:
        """Connections stay open between glances, and the driver is asked directly: a pool and a compiled
        statement cost five times what the read does, and every request pays."""
        connection = self._glancing.connect()
        try:
            revision = int(connection.scalar(_REVISION) or 0)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(connection)
        else:
            connection.close()
        return revision

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back every connection. The object can still be used: it opens new ones. `closed` tells those
        who work on it aside."""
        self.closed.set()
        while self._kept:
            self._kept.pop().close()
        with self._append_turn:
            self._end_append()
        self.engine.dispose()


@contextlib.contextmanager
def _refusals(database: Database) -> Iterator[None]:
    try:
        yield
    except StaleDataError as error:
        raise Conflict("the row was changed by somebody else meanwhile; read it again") from error
    except IntegrityError as error:
        raise Conflict(f"this contradicts what is stored: {_first_line(error)}") from error
    except (OperationalError, InterfaceError) as error:
        if dialects.out_of_space(error):
            raise OutOfSpace(f"the disk of the database is full: {_first_line(error)}") from error
        raise Unavailable(f"{_named(database)} did not answer: {_first_line(error)}") from error
    except DatabaseError as error:
        # Exactly this class: a file that is no database, or a damaged one. Its subclasses are our mistakes.
        if type(error) is not DatabaseError:
            raise
        raise Unavailable(f"{_named(database)} cannot be read: {_first_line(error)}") from error


def _named(database: Database) -> str:
    """SQLite does not say which file it could not open; PostgreSQL says which host did not answer."""
    return "the database" if database.file is None else f"the database {database.file}"


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
