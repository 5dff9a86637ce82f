"""Routes of what is known: lists, single rows, corrections and their history, the same for every table."""

# Without `from __future__ import annotations`: the models of the routes are made here, table by table.

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Discriminator, Tag
from starlette.responses import Response

from memory_service.api.answers import file_of, json_answer
from memory_service.api.describe import created, files, refusals
from memory_service.api.request_body import StrictRoute
from memory_service.api.security.auth_middleware import needs, signed, who_of
from memory_service.api.service import database_of, server_of, service_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.schemas.answers.devices import CardPage, Registered, RegisteredDevice
from memory_service.schemas.answers.rows import ALONE, CHANGED, PAGES, History
from memory_service.schemas.calibrations import RegisterDevice
from memory_service.schemas.lists import HistoryQuery, ListQuery, list_query
from memory_service.schemas.rows import (
    ReadVersion,
    RemovalQuery,
    Signature,
    UndoRequest,
    addition_of,
    correction_of,
    fields_of,
)
from memory_service.services.devices.registration import gpu_page, register_device, remove_device
from memory_service.services.editorial.curation import add_row, correct_row, remove_row, undo
from memory_service.services.knowledge.outcomes import BESIDE, with_outcomes
from memory_service.services.operations.export import stream_rows
from memory_service.services.tables.file_formats import MEDIA_TYPES
from memory_service.services.tables.paging import filter_types, key_name, sort_names
from memory_service.services.tables.table_rows import (
    CORRECTABLE,
    TABLES,
    count_rows,
    get_row,
    history_of,
    list_rows,
    table_named,
)


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


_Sheet = addition_of("gpus")
_SHEET = {*fields_of("gpus"), *Signature.model_fields} - {"name"}
_DEVICE = RegisterDevice.model_fields.keys() - {"name"}


def _form(body: Any) -> str:
    """Which of the two forms it is; InvalidInput for a mixture."""
    if isinstance(body, _Sheet):  # read already: it was long
        return _Sheet.__name__
    if not isinstance(body, Mapping):
        return RegisterDevice.__name__
    sheet, device = sorted(_SHEET & body.keys()), sorted(_DEVICE & body.keys())
    if sheet and device:
        message = f"belongs to registering a device, {sheet[0]!r} to a data sheet: send one or the other"
        raise InvalidInput(f"{device[0]!r} {message}", [FieldError(device[0], message, body[device[0]])])
    if not sheet and body.get("name") is None:
        message = "is required: of a device {name, device}, of a data sheet {slug, name, kind, ...}"
        known = RegisterDevice.model_fields
        unknown = [FieldError(name, "unknown field") for name in body if name not in known]
        raise InvalidInput(f"name {message}", [*unknown, FieldError("name", message)])
    return _Sheet.__name__ if sheet else RegisterDevice.__name__


_Registration: Any = Annotated[
    Annotated[RegisterDevice, Tag(RegisterDevice.__name__)] | Annotated[_Sheet, Tag(_Sheet.__name__)],
    Discriminator(_form),
]
_REGISTERED = created(
    "Path of the device or of the new row.", Registered, "The device was registered before.", RegisteredDevice
)


def add_registration(router: APIRouter) -> None:
    """POST: a device of this or another host, or the data sheet of a GPU model."""

    @router.post("", name="add_to_gpus", status_code=201, responses=_REGISTERED | refusals(409))
    def add(request: Request, body: _Registration) -> Response:
        """Register a device and measure it (`name`, `device`, …), or add a data sheet (`slug`, `kind`, …)."""
        if not isinstance(body, RegisterDevice):
            return add_from(request, "gpus", body)
        service = service_of(request)
        if body.device is not None and body.calibrate is not False:
            needs(request, "admin", "measure a device of the server's host")
        calibrating = service.calibrating if service.settings.calibrate else None
        server, who = server_of(request), who_of(request)
        shown, new = register_device(
            database_of(request), body.explicit(), calibrating=calibrating, server=server, who=who
        )
        return json_answer(shown, 201 if new else 200, {"Location": f"/gpus/{shown['name']}"})


def add_one(router: APIRouter) -> None:
    """GET of a GPU model or a device by its name."""

    @router.get("/{key:path}", name="get_gpus", response_model=CardPage)
    def one(request: Request, key: str) -> Response:
        """Data sheet, devices with fingerprints, calibrations over time and the drift between them."""
        return json_answer(gpu_page(database_of(request), key))


def removed(request: Request, key: str, signature: Mapping[str, Any]) -> bool:
    """Forget the device of this name, with its calibrations; False when there is none, or when `version`
    means the data sheet of the same name."""
    return "version" not in signature and remove_device(database_of(request), key, who=who_of(request))


def routers() -> list[APIRouter]:
    """One router a table."""
    return [_router(table) for table in TABLES]


def _router(table: str) -> APIRouter:
    router = APIRouter(prefix=f"/{table}", tags=[table], route_class=StrictRoute)
    if table in CORRECTABLE:
        _add_corrections(router, table)
    _add_reading(router, table)
    return router


def _add_reading(router: APIRouter, table: str) -> None:
    Asked = table_query(table)  # noqa: N806 - a type

    @router.get("", name=f"list_{table}", response_model=PAGES[table], responses=files())
    def listed(request: Request, asked: Annotated[Asked, Query()]) -> Response:  # type: ignore[valid-type]
        """Rows in order, page by page; or all of them as a file with `format`."""
        return list_answer(request, table, asked)

    if table in CORRECTABLE:

        @router.get("/{key:path}/history", name=f"history_of_{table}", response_model=History)
        def history(request: Request, key: str, asked: Annotated[HistoryQuery, Query()]) -> Response:
            """What was done to a row: who, when, why, what it was before. Newest first, also after its
            deletion."""
            with database_of(request).read() as unit:
                return json_answer({"items": history_of(unit, table, key, asked.limit)})

    if table == "gpus":
        add_one(router)
        return

    @router.get("/{key:path}", name=f"get_{table}", response_model=ALONE[table])
    def one(request: Request, key: str) -> Response:
        """One row, whole."""
        with database_of(request).read() as unit:
            return json_answer(with_outcomes(unit, table, get_row(unit, table, key)))


def _add_adding(router: APIRouter, table: str) -> None:
    Added = addition_of(table)  # noqa: N806 - a type
    answers = created("Path of the new row.", CHANGED[table]) | refusals(409)

    @router.post("", name=f"add_to_{table}", status_code=201, responses=answers)
    def add(request: Request, body: Added) -> Response:  # type: ignore[valid-type]
        """Add a row; `who` and `why` go into its history."""
        return add_from(request, table, body)


def _add_corrections(router: APIRouter, table: str) -> None:
    if table == "gpus":
        add_registration(router)
    else:
        _add_adding(router, table)
    Correction = correction_of(table)  # noqa: N806 - a type
    gone: Any = {204: {"description": "The row was added by that change, and is gone again."}}

    @router.post(
        "/{key:path}/undo",
        name=f"undo_in_{table}",
        response_model=CHANGED[table],
        responses=gone | refusals(409),
    )
    def undone(request: Request, key: str, body: UndoRequest) -> Response:
        """Take back one change of the row's history; 204 where the row was added by it and is gone again."""
        entry, encoder = body.entry, service_of(request).preparation.encoder
        signature = signed(request, body.model_dump(include={"who", "why"}, exclude_none=True))
        row = undo(database_of(request), table, key, entry, encoder=encoder, **signature)
        return Response(status_code=204) if row is None else json_answer(row)

    @router.patch(
        "/{key:path}", name=f"correct_{table}", response_model=CHANGED[table], responses=refusals(409)
    )
    def correct(request: Request, key: str, body: Correction) -> Response:  # type: ignore[valid-type]
        """Correct fields of a row; with `version` only if nobody changed it meanwhile."""
        changes, signature = split_signature(body)
        encoder, signature = service_of(request).preparation.encoder, signed(request, signature)
        row = correct_row(database_of(request), table, key, changes, encoder=encoder, **signature)
        return json_answer(row)

    @router.delete("/{key:path}", name=f"delete_from_{table}", status_code=204, responses=refusals(409))
    def remove(request: Request, key: str, asked: Annotated[RemovalQuery, Query()]) -> Response:
        """Delete a row; its history stays, and seeds do not bring it back."""
        signature = signed(request, asked.explicit())
        if table != "gpus" or not removed(request, key, signature):
            remove_row(database_of(request), table, key, **signature)
        return Response(status_code=204)
