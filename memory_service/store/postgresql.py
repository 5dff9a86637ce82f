"""PostgreSQL backend: snapshots, tsvector, pgvector with HNSW; backups as a zip of one COPY stream per table.

pg_dump must be at least as new as the server and is often not installed; COPY needs only the driver. The
caller's transaction is the snapshot (REPEATABLE READ). `manifest.json` of a backup holds the revision, the
columns of each table, its row count and the CRC that zip checks on reading.
"""

import contextlib
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import numpy as np
import orjson
import psycopg
from pgvector.sqlalchemy import Vector
from sqlalchemy import ColumnElement, Connection, Engine, bindparam, event, func, select, text
from sqlalchemy import Dialect as SqlDialect
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
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

_VECTOR_INDEX = (
    "CREATE INDEX ix_passages_embedding_search ON passages USING hnsw (embedding vector_cosine_ops) "
    "WITH (m = 32, ef_construction = 128)"
)
"""Twice pgvector's usual figures: among 100 000 a list half as long finds more (docs/methods/scale.md)."""


SEARCH_LIST = 260
"""Passages that a search keeps while it walks (`hnsw.ef_search`); some times the length of an answer, or the
graph is left before the last neighbours."""


SILENCE_SECONDS = 25.0
"""After which a server that says nothing counts as gone; its own limit on a statement is a little longer."""


CONNECT_SECONDS = 5


class TimeLimitedConnection(psycopg.Connection[Any]):
    """psycopg's own, which waits for ever where the server is there and hangs."""

    silence_seconds = SILENCE_SECONDS

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        return super().wait(self._listening(gen), *args, **named)

    def _listening(self, gen: Any) -> Any:
        heard = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif monotonic() - heard > self.silence_seconds:
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {self.silence_seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


@contextlib.contextmanager
def _without_time_limits(connection: Connection) -> Iterator[None]:
    """For what may take minutes without a word: to the end of the transaction."""
    driver: Any = connection.connection.driver_connection
    driver.silence_seconds = inf
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    try:
        yield
    finally:
        driver.silence_seconds = SILENCE_SECONDS


class PgVector(TypeDecorator[Vector32]):
    """An embedding as pgvector's `vector(384)`."""

    impl = Vector(EMBEDDING_DIMENSIONS)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: SqlDialect) -> Any:  # noqa: ARG002
        return None if value is None else checked_vector(value)

    def process_result_value(self, value: Any, dialect: SqlDialect) -> Vector32 | None:  # noqa: ARG002
        return None if value is None else np.asarray(value, dtype=np.float32)


class Postgresql(Dialect):
    name = "postgresql"
    embedded = False
    errors = psycopg.Error
    insert = staticmethod(postgresql.insert)
    mark = "%s"
    begin_write = "BEGIN"
    lock_runs = " FOR KEY SHARE OF runs FOR UPDATE OF run_summaries"
    # One snapshot for a whole answer: the knowledge revision and the rows it counts belong together.
    read_options: ClassVar[Mapping[str, Any]] = {
        "isolation_level": "REPEATABLE READ",
        "postgresql_readonly": True,
    }
    write_options: ClassVar[Mapping[str, Any]] = {
        "isolation_level": "READ COMMITTED",
        "postgresql_readonly": False,
    }
    glance_options: ClassVar[Mapping[str, Any]] = {"isolation_level": "AUTOCOMMIT"}
    append_options = glance_options
    MIGRATION_LOCK = 0x6D656D5F73766301
    """Advisory lock of whoever migrates; any fixed 64-bit number that nobody else uses."""
    SEED_LOCK = MIGRATION_LOCK + 1

    def engine_options(self) -> dict[str, Any]:
        # lock_timeout is what busy_timeout is on SQLite; without it a forgotten psql session blocks for ever.
        options = (
            f"-c timezone=utc -c lock_timeout={BUSY_SECONDS}s -c statement_timeout=30s "
            f"-c idle_in_transaction_session_timeout=10min -c hnsw.ef_search={SEARCH_LIST}"
        )
        # A host that is gone says nothing: without these its connections hold their threads for a quarter of
        # an hour. They kill no long query of a host that is there.
        gone = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        return {
            "pool_pre_ping": True,
            "pool_size": 8,
            "max_overflow": 24,
            "pool_timeout": 5.0,
            "connect_args": {
                "options": options,
                "application_name": "memory-service",
                "connect_timeout": CONNECT_SECONDS,
                **gone,
                "tcp_user_timeout": 30_000,  # ms
            },
        }

    def install(self, engine: Engine) -> None:
        event.listen(
            engine,
            "do_connect",
            lambda _dialect, _record, args, named: TimeLimitedConnection.connect(*args, **named),
        )

    def insertions(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> Iterable[tuple[str, Sequence[Any]]]:
        # One text for all: a statement for each row takes this process five times as long, the server twice.
        names = ", ".join(columns)
        given = orjson.dumps([dict(zip(columns, row, strict=True)) for row in rows]).decode()
        found = f"SELECT {names} FROM json_populate_recordset(NULL::{table}, %s::json)"  # noqa: S608 - our own names
        return [(f"INSERT INTO {table} ({names}) {found}", (given,))]

    def create_extensions(self, connection: Connection) -> None:
        try:
            connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
        except DBAPIError as error:
            raise Unavailable(
                "PostgreSQL has no usable pgvector: install it on the server and, as its administrator, run "
                f"CREATE EXTENSION vector in this database ({str(error.orig).splitlines()[0]})"
            ) from error

    def create_search(self, connection: Connection) -> None:
        connection.exec_driver_sql(
            "ALTER TABLE passages ADD COLUMN words tsvector "
            "GENERATED ALWAYS AS (to_tsvector('english', text)) STORED"
        )
        connection.exec_driver_sql("CREATE INDEX ix_passages_words_search ON passages USING gin (words)")
        connection.exec_driver_sql(_VECTOR_INDEX)

    def index_vectors(self, connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '256MB'")
        connection.exec_driver_sql("DROP INDEX IF EXISTS ix_passages_embedding_search")
        connection.exec_driver_sql(_VECTOR_INDEX)

    def drop_search(self, connection: Connection) -> None:
        connection.exec_driver_sql("DROP INDEX IF EXISTS ix_passages_embedding_search")
        connection.exec_driver_sql("DROP INDEX IF EXISTS ix_passages_words_search")
        connection.exec_driver_sql("ALTER TABLE passages DROP COLUMN IF EXISTS words")

    def missing_search(self, connection: Connection) -> list[str]:
        rows = connection.exec_driver_sql(
            "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'passages'"
        )
        there = {row[0] for row in rows}
        return [n for n in ("ix_passages_words_search", "ix_passages_embedding_search") if n not in there]

    def search_words(self, session: Session, words: Sequence[str], limit: int) -> list[tuple[int, float]]:
        found = session.execute(
            text(
                "SELECT id, ts_rank(words, query, 1) AS score FROM passages, websearch_to_tsquery('english', "
                ":query) AS query WHERE words @@ query ORDER BY score DESC, id LIMIT :limit"
            ),
            {"query": " or ".join(f'"{word}"' for word in words), "limit": limit},
        )
        return [(int(row[0]), float(row[1])) for row in found]

    def nearest(self, session: Session, vectors: Vector32, limit: int) -> list[list[tuple[int, float]]]:
        query = text(
            "SELECT id, embedding <=> :vector AS distance FROM passages WHERE embedding IS NOT NULL "
            "ORDER BY embedding <=> :vector LIMIT :limit"
        ).bindparams(bindparam("vector", type_=PgVector()))
        found = (session.execute(query, {"vector": vector, "limit": limit}) for vector in vectors)
        return [[(int(row[0]), 1.0 - float(row[1])) for row in rows] for rows in found]

    @contextlib.contextmanager
    def many_passages(self, session: Session) -> Iterator[None]:
        # Inserting 50 000 vectors one by one into the graph took 9 minutes, building it over them 1.
        connection = session.connection()
        connection.exec_driver_sql("DROP INDEX ix_passages_embedding_search")
        yield
        session.flush()
        with _without_time_limits(connection):
            self.index_vectors(connection)

    def lock_seeding(self, session: Session) -> None:
        # Not a lock on the knowledge's row: writers take that last; held while touching rows, it deadlocks.
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": self.SEED_LOCK})

    def advance_sequences(self, connection: Connection) -> None:
        advance_sequences(connection)

    @contextlib.contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection, _without_time_limits(connection):
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": self.MIGRATION_LOCK})
            yield connection

    def integrity(self, connection: Connection) -> list[str]:
        rows = connection.exec_driver_sql(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)"
        )
        return [f"index {row[0]} is not valid: REINDEX it" for row in rows]

    def foreign_objects(self, connection: Connection) -> list[str]:
        rows = connection.exec_driver_sql(
            "SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE NOT t.tgisinternal AND n.nspname = current_schema() "
            "UNION ALL SELECT 'view', viewname FROM pg_views WHERE schemaname = current_schema() "
            "UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE schemaname = current_schema()"
        )
        return [f"{kind} {name}" for kind, name in rows]

    def contents(self, source: Path) -> Contents:
        about = manifest(source)
        return Contents(str(about["revision"]), frozenset(table["name"] for table in about["tables"]))

    def backup(self, engine: Engine, target: Path) -> None:
        reading = engine.execution_options(**self.read_options)
        with reading.begin() as connection, _without_time_limits(connection):
            write(connection, target)

    def restore(self, engine: Engine, source: Path, migrate: Callable[[Connection], None]) -> None:
        with self.migrating(engine) as connection:
            migrate(connection)
            read(connection, source)


FORMAT = "memory-service-postgresql-1"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cursor(connection: Connection) -> Any:
    return connection.connection.cursor()


def _tables(connection: Connection) -> dict[str, list[str]]:
    """Table name -> its stored (not generated) columns, parents before children."""
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(
        text(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c "
            "JOIN information_schema.tables t USING (table_schema, table_name) "
            "WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' "
            "AND c.is_generated = 'NEVER' ORDER BY c.table_name, c.ordinal_position"
        )
    ):
        columns.setdefault(table, []).append(column)
    needs: dict[str, set[str]] = {table: set() for table in columns}
    for child, parent in connection.execute(
        text(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint "
            "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conrelid <> confrelid"
        )
    ):
        needs[child.strip('"')].add(parent.strip('"'))
    ordered: dict[str, list[str]] = {}
    while len(ordered) < len(columns):
        ordered |= {t: columns[t] for t in sorted(columns) if t not in ordered and needs[t] <= ordered.keys()}
    return ordered


def write(connection: Connection, target: Path) -> None:
    """Write every table to a new file `target`; it appears only when complete."""
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    make_private(part)
    tables = _tables(connection)
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    about: dict[str, Any] = {"format": FORMAT, "revision": revision, "tables": []}
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for table, columns in tables.items():
                names = ", ".join(map(_quoted, columns))
                entry = f"{table}.copy"
                with archive.open(entry, "w", force_zip64=True) as out, _cursor(connection) as cursor:
                    with cursor.copy(f"COPY {_quoted(table)} ({names}) TO STDOUT") as stream:
                        for block in stream:
                            out.write(block)
                    rows = cursor.rowcount
                about["tables"].append({"name": table, "columns": columns, "rows": rows})
            archive.writestr("manifest.json", json.dumps(about, indent=1))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def manifest(source: Path) -> dict[str, Any]:
    """The manifest of a dump; InvalidInput when the file is not one, or is damaged."""
    try:
        with zipfile.ZipFile(source) as archive:
            damaged = archive.testzip()
            about = json.loads(archive.read("manifest.json"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{source} is not a backup of a PostgreSQL database: {error}") from error
    if damaged or not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InvalidInput(f"{source} is not a whole backup of the format {FORMAT}")
    return about


def read(connection: Connection, source: Path) -> None:
    """Replace the rows of every table by those of the file; the database stands at the file's revision."""
    about = manifest(source)
    tables = _tables(connection)
    for table in about["tables"]:
        if set(table["columns"]) - set(tables.get(table["name"], ())):
            raise InvalidInput(f"{source}: table {table['name']} does not fit this database")
    connection.execute(text("TRUNCATE " + ", ".join(map(_quoted, tables))))
    with zipfile.ZipFile(source) as archive:
        for table in about["tables"]:
            names = ", ".join(map(_quoted, table["columns"]))
            into = f"COPY {_quoted(table['name'])} ({names}) FROM STDIN"
            entry = f"{table['name']}.copy"
            with archive.open(entry) as rows, _cursor(connection) as cursor, cursor.copy(into) as stream:
                while block := rows.read(1 << 16):
                    stream.write(block)
    advance_sequences(connection)


def advance_sequences(connection: Connection) -> None:
    """The next row that gets its number here follows those that came with theirs."""
    for table, column in connection.execute(
        text(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND is_identity = 'YES'"
        )
    ):
        following: ColumnElement[int] = func.coalesce(func.max(sql_column(column)), 0) + 1
        sequence = func.pg_get_serial_sequence(_quoted(table), column)
        used = False
        connection.execute(select(func.setval(sequence, following, used)).select_from(sql_table(table)))
