"""SQLite backend: WAL, one writer at a time, FTS5, vectors as bytes, online backups."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from sqlalchemy import Connection, Engine, LargeBinary, event, text
from sqlalchemy import Dialect as SqlDialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator

from memory_service.errors import InvalidInput, Unavailable
from memory_service.store.backend import (
    BUSY_SECONDS,
    EMBEDDING_DIMENSIONS,
    Contents,
    Dialect,
    Vector32,
    checked_vector,
    make_private,
)

APPLICATION_ID = 0x6D656D73
"""In the header of the file, "mems": whose database it is."""

_UNINDEX = "INSERT INTO passages_words(passages_words, rowid, text) VALUES ('delete', old.id, old.text);"
_INDEX = "INSERT INTO passages_words(rowid, text) VALUES (new.id, new.text);"
_TRIGGERS = {
    f"passages_words_{suffix}": f"CREATE TRIGGER passages_words_{suffix} {when} ON passages BEGIN {body} END"
    for suffix, when, body in (
        ("insert", "AFTER INSERT", _INDEX),
        ("delete", "AFTER DELETE", _UNINDEX),
        ("update", "AFTER UPDATE OF text", _UNINDEX + _INDEX),
    )
}
_MADE = "SELECT type, name, sql FROM sqlite_master"


class VectorBytes(TypeDecorator[Vector32]):
    """An embedding as 4 x 384 little-endian bytes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: SqlDialect) -> Any:  # noqa: ARG002
        return None if value is None else checked_vector(value).tobytes()

    def process_result_value(self, value: Any, dialect: SqlDialect) -> Vector32 | None:  # noqa: ARG002
        whole = value is not None and len(value) == 4 * EMBEDDING_DIMENSIONS
        return np.frombuffer(value, dtype="<f4") if whole else None  # of a damaged one there is none


class Sqlite(Dialect):
    name = "sqlite"
    embedded = True
    errors = sqlite3.Error
    insert = staticmethod(sqlite.insert)
    mark = "?"
    # A deferred transaction that reads, then writes, fails at once when another wrote between: no waiting
    # helps it. IMMEDIATE takes the writer's place first, where busy_timeout does wait.
    begin_write = "BEGIN IMMEDIATE"
    read_options: ClassVar[Mapping[str, Any]] = {"memory_service_mode": "read"}
    write_options: ClassVar[Mapping[str, Any]] = {"memory_service_mode": "write"}
    glance_options: ClassVar[Mapping[str, Any]] = {"memory_service_mode": "glance"}
    append_options: ClassVar[Mapping[str, Any]] = {"memory_service_mode": "append"}

    def engine_options(self) -> dict[str, Any]:
        return {"connect_args": {"timeout": BUSY_SECONDS}}

    def install(self, engine: Engine) -> None:
        event.listen(engine, "do_connect", self._made_private)
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "begin", self._begin)

    @staticmethod
    def _made_private(_dialect: object, _record: object, arguments: Sequence[Any], _named: object) -> None:
        with contextlib.suppress(OSError):  # it is there, or SQLite says why it cannot be
            make_private(Path(arguments[0]))

    @staticmethod
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        # The driver must not begin transactions by itself: reads would not be snapshots, DDL not
        # transactional.
        connection.isolation_level = None
        # Readers never wait for the writer, nor it for them; a killed process leaves a log that is replayed.
        connection.execute("PRAGMA journal_mode = WAL")
        # What was acknowledged survives a power cut too: one fsync a commit, 0.13 ms where it was measured.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Sorting for a page must not write to a disk that may be full or read-only.
        connection.execute("PRAGMA temp_store = MEMORY")
        # 4 MiB of pages for each of up to fifteen connections; the rest is in the page cache of the system.
        connection.execute("PRAGMA cache_size = -4096")
        # After a large write the log shrinks back instead of keeping its greatest size.
        connection.execute("PRAGMA journal_size_limit = 67108864")

    @staticmethod
    def _begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("memory_service_mode")
        if mode == "glance":
            return
        connection.exec_driver_sql(f"PRAGMA query_only = {int(mode == 'read')}")
        if mode != "append":
            connection.exec_driver_sql(Sqlite.begin_write if mode == "write" else "BEGIN")

    def insertions(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> Iterable[tuple[str, Sequence[Any]]]:
        # Each statement is a call into the library, and a chance for another thread to be called in: fifty
        # rows at once take a sixth less. Of up to 19 columns: older libraries take 999 values.
        marks = f"({', '.join('?' * len(columns))})"
        for start in range(0, len(rows), 50):
            some = rows[start : start + 50]
            into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * len(some))}"  # noqa: S608 - our own names
            yield into, list(chain.from_iterable(some))

    def create_extensions(self, connection: Connection) -> None:
        """SQLite's full text is compiled in."""

    def create_search(self, connection: Connection) -> None:
        connection.exec_driver_sql(
            "CREATE VIRTUAL TABLE passages_words USING fts5("
            "text, content='passages', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')"
        )
        for statement in _TRIGGERS.values():
            connection.exec_driver_sql(statement)

    def index_vectors(self, connection: Connection) -> None:
        """Vectors are compared in memory."""

    def drop_search(self, connection: Connection) -> None:
        for name in _TRIGGERS:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
        connection.exec_driver_sql("DROP TABLE IF EXISTS passages_words")

    def missing_search(self, connection: Connection) -> list[str]:
        rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type IN ('table', 'trigger')")
        there = {row[0] for row in rows}
        return [name for name in ("passages_words", *_TRIGGERS) if name not in there]

    def search_words(self, session: Session, words: Sequence[str], limit: int) -> list[tuple[int, float]]:
        found = session.execute(
            text(
                "SELECT rowid, -bm25(passages_words) FROM passages_words WHERE passages_words MATCH :query "
                "ORDER BY bm25(passages_words), rowid LIMIT :limit"
            ),
            {"query": " OR ".join(f'"{word}"' for word in words), "limit": limit},
        )
        return [(int(row[0]), float(row[1])) for row in found]

    def nearest(self, session: Session, vectors: Vector32, limit: int) -> list[list[tuple[int, float]]]:
        rows = session.execute(
            text("SELECT id, embedding FROM passages WHERE embedding IS NOT NULL ORDER BY id")
        ).all()
        if not rows:
            return [[] for _ in vectors]
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4").reshape(len(rows), -1)
        norms = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(matrix, axis=1)
        similarity = vectors @ matrix.T / np.maximum(norms, 1e-12)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :limit]
        found = zip(similarity, order, strict=True)
        return [[(int(rows[i][0]), float(of[i])) for i in places] for of, places in found]

    def many_passages(self, session: Session) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        return contextlib.nullcontext()

    def lock_seeding(self, session: Session) -> None:
        """A write transaction is alone already."""

    def advance_sequences(self, connection: Connection) -> None:
        """Nothing: a new id is the largest plus one."""

    @contextlib.contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        with engine.execution_options(**self.write_options).connect() as connection:
            # Altering a table here means copying it; with foreign keys on, dropping the old one would
            # cascade.
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                yield connection
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
                if broken:
                    raise Unavailable(f"the migration would leave {len(broken)} rows without their parent")
                connection.commit()
            finally:
                connection.rollback()
                connection.invalidate()

    def integrity(self, connection: Connection) -> list[str]:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        return [line for line in found if line != "ok"] + [
            f"row {o[1]} of {o[0]} has no parent" for o in orphans
        ]

    def foreign_objects(self, connection: Connection) -> list[str]:
        return _foreign(tuple(row) for row in connection.exec_driver_sql(_MADE))

    def contents(self, source: Path) -> Contents:
        try:
            with _read_only(source) as copy:
                if copy.execute("PRAGMA quick_check").fetchone() != ("ok",):
                    raise InvalidInput(f"{source} is damaged")
                made = copy.execute(_MADE).fetchall()
                (mark,) = copy.execute("PRAGMA application_id").fetchone()
                tables = frozenset(name for kind, name, _ in made if kind == "table")
                revision = None
                if "alembic_version" in tables:
                    revision = copy.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.Error as error:
            raise InvalidInput(f"{source} is not a backup of an embedded database: {error}") from error
        foreign = _foreign(made) + ([] if mark in (0, APPLICATION_ID) else [f"the mark {mark:#x}"])
        own = frozenset(name for name in tables if not name.startswith("sqlite_"))
        return Contents(str(revision[0]) if revision else None, own, tuple(foreign))

    def backup(self, engine: Engine, target: Path) -> None:
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        make_private(part)
        source = engine.raw_connection()
        try:
            with contextlib.closing(sqlite3.connect(part)) as copy:
                cast("sqlite3.Connection", source.driver_connection).backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                if copy.execute("PRAGMA quick_check").fetchone() != ("ok",):
                    raise Unavailable(f"the copy {part} is not sound; the database itself may be damaged")
        except sqlite3.Error as error:
            part.unlink(missing_ok=True)
            raise Unavailable(f"the backup to {target} failed: {error}") from error
        finally:
            source.close()
        part.replace(target)

    def restore(self, engine: Engine, source: Path, migrate: Callable[[Connection], None]) -> None:  # noqa: ARG002
        target = engine.raw_connection()
        try:
            with _read_only(source) as copy:
                copy.backup(cast("sqlite3.Connection", target.driver_connection))
        except sqlite3.Error as error:
            raise InvalidInput(f"{source} is not a backup of an embedded database: {error}") from error
        finally:
            target.close()


def _read_only(source: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True))


def _foreign(made: Iterable[tuple[Any, ...]]) -> list[str]:
    return [
        f"{kind} {name}"
        for kind, name, sql in made
        if (kind in ("trigger", "view") and " ".join(str(sql).split()) != _TRIGGERS.get(name))
        or (kind == "index" and str(sql).partition(")")[0].count("(") > 1)  # of an expression: it runs
    ]
