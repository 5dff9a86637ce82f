"""Lists of rows, as a page or as a file, and rows that are added."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from memory_service.api.answers import file_of, json_answer
from memory_service.api.security.auth_middleware import signed
from memory_service.api.service import database_of, service_of
from memory_service.schemas.lists import ListQuery, list_query
from memory_service.schemas.rows import ReadVersion
from memory_service.services.editorial.curation import add_row
from memory_service.services.knowledge.outcomes import BESIDE
from memory_service.services.operations.export import stream_rows
from memory_service.services.tables.file_formats import MEDIA_TYPES
from memory_service.services.tables.paging import filter_types, key_name, sort_names
from memory_service.services.tables.table_rows import count_rows, list_rows, table_named


def table_query(table: str, **particular: Any) -> type[ListQuery]:
    """Filters by column, `sort`, `limit`, `cursor`, `total` and `format` of a list."""
    stored = table_named(table)
    return list_query(stored, filter_types(stored), sort_names(stored), **particular)


def list_answer(request: Request, table: str, asked: ListQuery) -> Response:
    """A page of the table, or all that matches as a file."""
    filters, more = asked.filters(), asked.explicit()
    if asked.format != "json":
        return file_answer(request, table, filters, more.get("sort"), asked.format)
    with database_of(request).read() as unit:
        page = list_rows(unit, table, filters, more.get("sort"), asked.limit, asked.cursor)
        items = BESIDE[table](unit, page.items) if table in BESIDE else page.items
        counted = {"total": count_rows(unit, table, filters)} if more.get("total") else {}
    return json_answer({"items": items, "next": page.next, **counted})


def file_answer(
    request: Request, table: str, filters: Mapping[str, Any], sort: str | None, form: str
) -> Response:
    """All rows that match: whole from the cache, else streamed."""
    pieces = stream_rows(database_of(request), table, filters, sort, form)
    if isinstance(pieces, tuple):
        return Response(pieces[0], media_type=MEDIA_TYPES[form])
    return file_of(request, pieces, MEDIA_TYPES[form])


def split_signature(body: BaseModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values of the row, who/why/version) as they were given."""
    given = body.model_dump(exclude_unset=True)
    signature = {name: given.pop(name) for name in ReadVersion.model_fields if name in given}
    return given, {name: value for name, value in signature.items() if value is not None}


def add_from(request: Request, table: str, body: BaseModel) -> Response:
    """Add the row that a body describes; 201 with its path."""
    values, signature = split_signature(body)
    encoder = service_of(request).preparation.encoder
    row = add_row(database_of(request), table, values, encoder=encoder, **signed(request, signature))
    return json_answer(row, 201, {"Location": where(table, row)})


def where(table: str, row: Mapping[str, Any]) -> str:
    """The path of a row."""
    return f"/{table}/{quote(str(row[key_name(table_named(table))]), safe='/@+:')}"
