"""Which fields do the routes of a table take, and what is told beside a row's values when it is changed?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_body, checked_query
from memory_service.api.reading import query_of
from memory_service.api.security.auth_middleware import signed
from memory_service.api.service import database_of, service_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.editorial.curation import add_row
from memory_service.services.operations.export import FORMATS, MEDIA_TYPES, stream_rows
from memory_service.services.tables.catalogue import count_rows, list_rows, table_named
from memory_service.services.tables.paging import DEFAULT_LIMIT, MAX_LIMIT, filter_types, key_name, sort_names

__all__ = [
    "DELETE_FIELDS",
    "HISTORY_FIELDS",
    "TOLD",
    "add_from",
    "file_answer",
    "list_answer",
    "list_fields",
    "split_correction",
    "where",
]

_KINDS = {bool: "boolean", int: "integer", float: "number"}
_REACH = {"integer": 2**31 - 1, "number": 10**15}

TOLD: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field(
            "who",
            "text",
            "Who changes it; a key's name goes first, without either it is `anonymous`.",
            longest=200,
        ),
        Field("why", "text", "Why, for the row's history.", longest=4_000),
        Field(
            "version", "integer", "The version that was read: 409 when it is another by now.", 1, 2**31 - 1
        ),
    )
}
"""What a change says about itself; no table has columns of these names that people may write."""

DELETE_FIELDS = TOLD
UNDO_FIELDS = {
    "entry": Field(
        "entry", "integer", "`id` of the change in the row's history.", 1, 2**31 - 1, required=True
    )
} | {name: TOLD[name] for name in ("who", "why")}
HISTORY_FIELDS: Mapping[str, Field] = {
    "limit": Field("limit", "integer", "How many entries.", 1, MAX_LIMIT, default=100)
}


def list_fields(table: str) -> dict[str, Field]:
    """Filters by column, `sort`, `limit`, `cursor`, `total` and `format` of a list."""
    stored = table_named(table)
    sorts = sort_names(stored)
    fields = [_filter(name, kind) for name, kind in filter_types(stored).items()]
    fields += [
        Field(
            "sort",
            "text",
            "Column to sort by, `-` for descending.",
            choices=(*sorts, *(f"-{name}" for name in sorts)),
        ),
        Field("limit", "integer", "Rows of one page.", 1, MAX_LIMIT, default=DEFAULT_LIMIT),
        Field("cursor", "text", "`next` of the page before, with the same filters and sort.", longest=4_000),
        Field("total", "integer", "1: tell also how many rows match, which means counting them.", 0, 1),
        Field(
            "format",
            "text",
            "All rows as a file instead of a page.",
            choices=("json", *FORMATS),
            default="json",
        ),
    ]
    return {field.name: field for field in fields}


Beside = Callable[[ReadTransaction, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


def list_answer(
    request: Request, table: str, fields: Mapping[str, Field], beside: Beside | None = None
) -> Response:
    """A page of the table, as the query asks, or all that matches as a file; `beside`: what its rows carry
    beside their columns."""
    asked = checked_query(fields, query_of(request))
    form, sort = asked.pop("format", "json"), asked.pop("sort", None)
    limit, cursor, total = (asked.pop(name, None) for name in ("limit", "cursor", "total"))
    if form != "json":
        return file_answer(request, table, asked, sort, form)
    with database_of(request).read() as unit:
        page = list_rows(unit, table, asked, sort, limit, cursor)
        items = page.items if beside is None else beside(unit, page.items)
        counted = {"total": count_rows(unit, table, asked)} if int(total or 0) else {}
    return json_answer({"items": items, "next": page.next, **counted})


def file_answer(
    request: Request, table: str, filters: Mapping[str, Any], sort: str | None, form: str
) -> Response:
    """All rows that match, streamed."""
    pieces = stream_rows(database_of(request), table, filters, sort, form)
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[form])


def split_correction(body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values of the row, who/why/version). InvalidInput for blank texts and a wrong who, why or version."""
    blank = [name for name, value in body.items() if isinstance(value, str) and not value.strip()]
    if blank:
        message = "is blank; leave it out, or give null for not known"
        raise InvalidInput(f"{blank[0]} {message}", [FieldError(name, message, body[name]) for name in blank])
    told = checked_body(TOLD, {name: body[name] for name in TOLD if name in body})
    if "version" in told:
        told["version"] = int(told["version"])
    return {name: value for name, value in body.items() if name not in TOLD}, told


def add_from(request: Request, table: str, body: Mapping[str, Any]) -> Response:
    """Add the row that a body describes; 201 with its path."""
    values, told = split_correction(body)
    told = signed(request, told)
    told.pop("version", None)
    encoder = service_of(request).preparation.encoder
    row = add_row(database_of(request), table, values, encoder=encoder, **told)
    return json_answer(row, 201, {"Location": where(table, row)})


def where(table: str, row: Mapping[str, Any]) -> str:
    """The path of a row."""
    return f"/{table}/{quote(str(row[key_name(table_named(table))]), safe='/@+:')}"


def _filter(name: str, kind: type[Any]) -> Field:
    base = name.rpartition("_")
    ranged = f"`{base[0]}` at {'least' if base[2] == 'min' else 'most'} this."
    about = ranged if base[2] in ("min", "max") and kind in (int, float) else f"Only rows with this `{name}`."
    form: Any = _KINDS.get(kind, "text")
    reach = _REACH.get(form)
    return Field(
        name, form, about, None if reach is None else -reach, reach, longest=300 if form == "text" else None
    )
