"""Read and write sessions as different types, neither of which commits by itself; and plain statements, given
to the driver as they are, for what comes thousands of times a second: a session and a compiled query cost ten
times what the insertion of an event does. A failure of one is SQLAlchemy's exception, as everywhere else.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, TextClause, UpdateBase, event, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import InstrumentedAttribute, ORMExecuteState, Session, UOWTransaction

from memory_service.store import dialects
from memory_service.store.backend import Dialect
from memory_service.store.tables.knowledge import Knowledge


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


_WROTE = "memory_service_wrote"
RECORDED = "memory_service_recorded"
"""Of a session's `info`: its entries of the history, to be measured when others may write again."""


class ReadSession(Session):
    """Reads one snapshot. Adding or changing an object raises TypeError."""

    @property
    def statements(self) -> Statements:
        """Driver-level statements in this transaction; unflushed objects are not seen by them."""
        connection = self.connection()
        return Statements(connection.connection.driver_connection, dialects.of(connection))

    def flush(self, objects: Sequence[Any] | None = None) -> None:  # noqa: ARG002 - as SQLAlchemy calls it
        if self.new or self.dirty or self.deleted:
            raise TypeError("a read session was given something to write")


class WriteSession(ReadSession):
    """Reads and writes in one transaction; `services.database.transactions` commits or rolls back."""

    def flush(self, objects: Sequence[Any] | None = None) -> None:
        Session.flush(self, objects)

    @property
    def wrote(self) -> bool:
        return bool(self.info.get(_WROTE))


@event.listens_for(WriteSession, "after_flush")
def _flushed(session: Session, _context: UOWTransaction) -> None:
    if session.new or session.dirty or session.deleted:
        session.info[_WROTE] = True


@event.listens_for(WriteSession, "do_orm_execute")
def _executed(state: ORMExecuteState) -> None:
    if state.is_insert or state.is_update or state.is_delete:
        state.session.info[_WROTE] = True


def each_value(
    session: ReadSession, column: InstrumentedAttribute[str], *where: ColumnElement[bool] | TextClause
) -> Sequence[str]:
    """The values of a column that an index begins with, each found by one look, however many rows have it."""
    first = select(func.min(column).label("value")).where(*where).cte(recursive=True)
    behind = select(func.min(column)).where(*where, column > first.c.value).scalar_subquery()
    found = first.union_all(select(behind).where(first.c.value.is_not(None))).c.value
    return session.scalars(select(found).where(found.is_not(None))).all()


def locked_if(query: Select[Any], to_change: bool) -> Select[Any]:
    """The query; `to_change`: of fresh rows, locked against other writers."""
    return query.with_for_update().execution_options(populate_existing=True) if to_change else query


def bulk(session: WriteSession, statement: UpdateBase) -> int:
    """Run an UPDATE or DELETE past the session's loaded objects; how many rows it changed."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return int(getattr(result, "rowcount", 0))


def hold_revision(session: WriteSession) -> None:
    """Others that raise it wait for this transaction."""
    session.execute(select(Knowledge.revision).where(Knowledge.id == 1).with_for_update())


def bump_revision(session: WriteSession, now: dt.datetime) -> None:
    """Raise the knowledge revision: late in a transaction, so that writers queue only briefly."""
    values = {"revision": Knowledge.revision + 1, "updated_at": now}
    bulk(session, update(Knowledge).where(Knowledge.id == 1).values(values))
