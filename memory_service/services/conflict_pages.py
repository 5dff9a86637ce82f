"""How are disagreements listed? Narrowed, sorted, in pages, or whole as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.services.conflicts import conflicts
from memory_service.services.export import FORMATS, defused
from memory_service.services.unit import Database

__all__ = ["conflicts_page", "stream_conflicts"]

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
_FILTERS = ("gpu", "device", "model", "quantity")
_SORTS = ("apart", "id")


def conflicts_page(database: Database, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`{"items", "next"}`; `next` names the last row shown. InvalidInput for a cursor that names none of
    the list."""
    found = _narrowed(database, asked)
    begin = _begin(found, asked["cursor"]) if asked.get("cursor") else 0
    limit = int(asked.get("limit", DEFAULT_LIMIT))
    page = found[begin : begin + limit]
    return {"items": page, "next": page[-1]["id"] if begin + limit < len(found) else None}


def stream_conflicts(database: Database, asked: Mapping[str, Any], form: str) -> Iterator[bytes]:
    """All rows that match as CSV or JSON lines. Everything wrong is raised here, before the first piece."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    found = _narrowed(database, asked)
    return (
        _csv(found)
        if form == "csv"
        else ((json.dumps(row, ensure_ascii=False) + "\n").encode() for row in found)
    )


def _narrowed(database: Database, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    sort = str(asked.get("sort", "-apart"))
    name = sort.removeprefix("-")
    if name not in _SORTS:
        raise unknown_name("sort", name, _SORTS)
    wanted = {field: asked[field] for field in _FILTERS if asked.get(field) is not None}
    rows = [row for row in conflicts(database) if all(row[field] == value for field, value in wanted.items())]
    rows.sort(key=lambda row: row["id"])
    return sorted(rows, key=lambda row: row[name], reverse=sort.startswith("-"))


def _begin(found: list[dict[str, Any]], cursor: str) -> int:
    for place, row in enumerate(found):
        if row["id"] == cursor:
            return place + 1
    message = "names no row of this list; start without one"
    raise InvalidInput(f"cursor {message}", [FieldError("cursor", message, cursor)])


def _csv(found: list[dict[str, Any]]) -> Iterator[bytes]:
    out = io.StringIO(newline="")
    names = list(found[0]) if found else ["id"]
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    for row in found:
        writer.writerow(
            {k: defused(json.dumps(v) if isinstance(v, dict | list) else v) for k, v in row.items()}
        )
    yield out.getvalue().encode()
