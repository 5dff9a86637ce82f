"""Plain statements, given to the driver as they are, for what comes thousands of times a second.

A session and a compiled query cost ten times what the insertion of an event does. A failure is SQLAlchemy's
exception, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy.exc import DBAPIError

from memory_service.store.backend import Dialect


class Statements:
    """A driver's connection, inside a transaction that its owner begins and ends."""

    __slots__ = ("_driver", "dialect")

    def __init__(self, driver: Any, dialect: Dialect) -> None:
        self._driver, self.dialect = driver, dialect

    def run(self, statement: str) -> None:
        try:
            self._driver.execute(statement)
        except self.dialect.errors as error:
            raise self._refusal(error) from error

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            found: list[tuple[Any, ...]] = self._driver.execute(query, values).fetchall()
        except self.dialect.errors as error:
            raise self._refusal(error) from error
        return found

    def change(self, statement: str, values: Sequence[Any]) -> int:
        try:
            return int(self._driver.execute(statement, values).rowcount)
        except self.dialect.errors as error:
            raise self._refusal(error) from error

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """How many rows the statement changed, over all of `rows`."""
        try:
            cursor = self._driver.cursor()
            cursor.executemany(statement, rows)
        except self.dialect.errors as error:
            raise self._refusal(error) from error
        return int(cursor.rowcount)

    def locked(
        self, table: str, columns: Sequence[str], keys: Iterable[str], lock: str
    ) -> list[tuple[Any, ...]]:
        """Values of the rows with these keys, ordered; `lock`: the dialect's `lock_row` or `keep_row`."""
        sorted_keys = tuple(sorted(set(keys)))
        if not sorted_keys:
            return []
        marks = ", ".join([self.dialect.mark] * len(sorted_keys))
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE {columns[0]} IN ({marks})"  # noqa: S608
        return self.rows(f"{query} ORDER BY {columns[0]}{lock}", sorted_keys)

    def insert_new(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        """Insert rows, passing over those whose key is taken; how many were new."""
        at_once = self.dialect.rows_at_once
        whole = len(rows) - len(rows) % at_once if at_once > 1 else 0
        marks = f"({', '.join([self.dialect.mark] * len(columns))})"
        into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608 - our own names
        pieces = [list(chain.from_iterable(rows[n : n + at_once])) for n in range(0, whole, at_once)]
        many = f"{into}{', '.join([marks] * at_once)} ON CONFLICT DO NOTHING"
        new = sum(self.change(many, piece) for piece in pieces)
        rest = rows[whole:]
        return new + (self.many(f"{into}{marks} ON CONFLICT DO NOTHING", rest) if rest else 0)

    def _refusal(self, error: Exception) -> BaseException:
        return DBAPIError.instance(None, None, error, self.dialect.errors)
