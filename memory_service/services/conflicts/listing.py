"""The list of conflicts: narrowed, sorted, in pages."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from memory_service.errors import unknown_name
from memory_service.schemas.lists import DEFAULT_LIMIT
from memory_service.services.conflicts.conflicts import conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.tables.paging import page_behind

_FILTERS = ("gpu", "device", "model", "quantity")
_SORTS = ("apart", "id")


def conflicts_page(database: Database, requested: Mapping[str, Any]) -> dict[str, Any]:
    """`{"items", "next"}`; `next` names the last row shown. InvalidInput for a cursor that names none of
    the list."""
    filters = {name: value for name, value in requested.items() if name not in ("sort", "limit", "cursor")}
    found = narrowed_conflicts(database, filters, requested.get("sort"))
    limit = int(requested.get("limit", DEFAULT_LIMIT))
    page, behind = page_behind(found, itemgetter("id"), requested.get("cursor") or None, limit)
    return {"items": page, "next": behind}


def narrowed_conflicts(
    database: Database, filters: Mapping[str, Any], sort: str | None = None
) -> list[dict[str, Any]]:
    """All that match, the widest first unless sorted otherwise. InvalidInput with the nearest names for an
    unknown filter or sort."""
    wanted_sort = sort or "-apart"
    name = wanted_sort.removeprefix("-")
    if name not in _SORTS:
        raise unknown_name("sort", name, _SORTS)
    for field in filters:
        if field not in _FILTERS:
            raise unknown_name("filter", field, _FILTERS)
    wanted = {field: value for field, value in filters.items() if value is not None}
    rows = [row for row in conflicts(database) if all(row[field] == value for field, value in wanted.items())]
    rows.sort(key=lambda row: row["id"])
    return sorted(rows, key=lambda row: row[name], reverse=wanted_sort.startswith("-"))
