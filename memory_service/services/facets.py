"""Which values does a column hold? For the choices of a filter, without reading the table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from memory_service.errors import unknown_name
from memory_service.services.catalogue import table_named
from memory_service.services.paging import sort_names
from memory_service.services.unit import ReadUnit
from memory_service.store.rows import LISTED, column

__all__ = ["values_in"]


def values_in(unit: ReadUnit, table: str, name: str, most: int = 200) -> list[Any]:
    """The different values of an indexed column, ascending, null left out: one step down the index a value,
    however many rows have it. InvalidInput for a column that is not sorted by."""
    stored = table_named(table)
    if name not in sort_names(stored):
        raise unknown_name("column", name, sort_names(stored))
    found = column(LISTED[stored], name)
    seen = select(func.min(found).label("value")).cte("seen", recursive=True)
    following = select(func.min(found)).where(found > seen.c.value).scalar_subquery()
    seen = seen.union_all(select(following).where(seen.c.value.is_not(None)))
    values = select(seen.c.value).where(seen.c.value.is_not(None)).limit(most)
    return list(unit.session.scalars(values))
