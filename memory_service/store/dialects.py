"""Chooses the backend of a database URL; the only file that knows which database it is.

Also the column types that read the same in Python on both. What a migration uses of this may be added to,
never changed.
"""

import datetime as dt
import re
from typing import Any

from sqlalchemy import JSON, URL, Connection, DateTime, Engine, String, Text, make_url
from sqlalchemy import Dialect as SqlDialect
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from memory_service.errors import FieldError, InvalidInput
from memory_service.store.backend import EMBEDDING_DIMENSIONS, Dialect, Vector32
from memory_service.store.postgresql import PgVector, Postgresql
from memory_service.store.sqlite import Sqlite, VectorBytes

__all__ = [
    "EMBEDDING_DIMENSIONS", "SEARCH_OBJECTS", "Damaged", "Dialect", "Embedding", "Json", "JsonObject", "Name",
    "Prose", "ReadableJson", "UtcDateTime", "Vector32", "for_url", "of", "out_of_space", "parse_url",
]  # fmt: skip

SEARCH_OBJECTS = re.compile(r"passages_words.*|ix_passages_(words|embedding)_search|words")
"""Tables, indexes and columns of the search, made by `create_search` and unknown to the metadata."""

Name = String().with_variant(String(collation="C"), "postgresql")
"""A key or a word people sort by: in byte order, so that a page ends at the same row on both databases."""

Prose = Text()
"""Sentences: read and searched, never sorted."""

Json = JSON(none_as_null=True)
"""Nested facts, keys in order (JSONB loses it). What people filter by has its own column."""


class Damaged(dict[str, Any]):
    """What is read from a column of objects that holds none: a file was damaged, or something else wrote to
    it. Empty, so that nothing of it is used."""


class JsonObject(TypeDecorator[dict[str, Any]]):
    """A JSON object; anything else that stands there is `Damaged`."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: SqlDialect) -> dict[str, Any] | None:  # noqa: ARG002
        return value if value is None or isinstance(value, dict) else Damaged()


class ReadableJson(FunctionElement[Any]):
    """The JSON of a column, to be looked into by the database; null where a damaged file has no JSON."""

    type = JSON()
    name = "readable_json"
    inherit_cache = True


@compiles(ReadableJson)
def _as_it_is(element: ReadableJson, compiler: Any, **how: Any) -> str:
    return str(compiler.process(element.clauses, **how))


@compiles(ReadableJson, "sqlite")
def _if_valid(element: ReadableJson, compiler: Any, **how: Any) -> str:
    column = compiler.process(element.clauses, **how)
    return f"CASE WHEN json_valid({column}) THEN {column} END"


Embedding = VectorBytes().with_variant(PgVector(), "postgresql")
"""A float32 vector of `EMBEDDING_DIMENSIONS`."""


class UtcDateTime(TypeDecorator[dt.datetime]):
    """An aware UTC time, also on SQLite, which keeps no zone; a naive time is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: SqlDialect) -> dt.datetime | None:  # noqa: ARG002
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without zone cannot be stored: {value!r}")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: SqlDialect) -> dt.datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


_OUT_OF_SPACE = {"SQLITE_FULL", "53100"}


def out_of_space(error: DBAPIError) -> bool:
    """Whether the database refused because its disk is full."""
    cause = error.orig
    code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
    return code in _OUT_OF_SPACE


_DIALECTS: dict[str, Dialect] = {"sqlite": Sqlite(), "postgresql": Postgresql()}


def of(bind: Engine | Connection | Session) -> Dialect:
    """The dialect behind an engine, a connection or a session."""
    return _DIALECTS[(bind.get_bind() if isinstance(bind, Session) else bind).dialect.name]


def for_url(url: URL) -> Dialect:
    """The dialect of a URL that `parse_url` accepted."""
    return _DIALECTS[url.get_backend_name()]


def parse_url(raw: str) -> URL:
    """`sqlite:///path` or `postgresql://…` (`postgres://` too) as a URL with its driver; InvalidInput."""
    try:
        url = make_url(raw)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        url = None
    backend = url.get_backend_name() if url is not None else ""
    backend = "postgresql" if backend == "postgres" else backend
    if url is None or backend not in _DIALECTS:
        raise _bad_url("a database URL begins with sqlite:/// or postgresql://")
    if backend == "postgresql":
        return _move_password(url).set(drivername="postgresql+psycopg")
    if url.database in (None, "", ":memory:") or "mode=memory" in str(url):
        raise _bad_url("an embedded database is a file: sqlite:///path/to/memory.sqlite3")
    if str(url.database).startswith("file:"):
        raise _bad_url("sqlite:/// takes a path, not a URI: sqlite:///path/to/memory.sqlite3")
    return url.set(drivername="sqlite+pysqlite")


def _move_password(url: URL) -> URL:
    """A password in the query (as libpq takes it) goes where a shown URL hides it."""
    raw = url.query.get("password")
    if raw is None:
        return url
    password = raw if isinstance(raw, str) else raw[-1]
    return url.set(password=password).difference_update_query(["password"])


def _bad_url(message: str) -> InvalidInput:
    return InvalidInput(message, [FieldError("database_url", message)])
