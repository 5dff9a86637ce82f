"""Plain statements, given to the driver as they are, for what comes thousands of times a second.

A session and a compiled query cost ten times what the insertion of an event does. A failure is SQLAlchemy's
exception, as everywhere else.
"""

from collections.abc import Sequence
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

    def insert_new(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows of numbers and texts, passing over those whose key is taken; how many were new."""
        made = self.dialect.insertions(table, columns, rows)
        return sum(self.change(f"{into} ON CONFLICT DO NOTHING", values) for into, values in made)

    def _refusal(self, error: Exception) -> BaseException:
        return DBAPIError.instance(None, None, error, self.dialect.errors)
