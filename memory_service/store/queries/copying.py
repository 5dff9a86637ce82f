"""Copies all rows from one database into another, of either kind."""

from sqlalchemy import Connection, delete, exists, insert, select

from memory_service.store import dialects
from memory_service.store.session import ReadSession, WriteSession
from memory_service.store.tables.keys import Base
from memory_service.store.tables.knowledge import Knowledge

ROWS_AT_ONCE = 2_000

_COUNTER = Knowledge.__tablename__


def has_rows(connection: Connection) -> bool:
    """Whether any table but the counter has rows."""
    tables = (table for table in Base.metadata.sorted_tables if table.name != _COUNTER)
    return any(connection.scalar(select(exists(select(table)))) for table in tables)


def copy(source: ReadSession, target: WriteSession) -> dict[str, int]:
    """Rows copied of each table; both stand at head, and the target is empty."""
    copied: dict[str, int] = {}
    dialect = dialects.of(target)
    target.execute(delete(Knowledge))
    with dialect.many_passages(target):
        for table in Base.metadata.sorted_tables:
            copied[table.name] = 0
            rows = source.connection().execution_options(yield_per=ROWS_AT_ONCE).execute(select(table))
            for part in rows.mappings().partitions():
                target.connection().execute(insert(table), [dict(row) for row in part])
                copied[table.name] += len(part)
    dialect.advance_sequences(target.connection())
    return copied
