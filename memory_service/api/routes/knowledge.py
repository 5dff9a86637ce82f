"""Routes of what is known: lists, single rows, corrections and their history, the same for every table."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memory_service.api import describe
from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_body, checked_query
from memory_service.api.reading import json_object, no_query, query_of
from memory_service.api.routes import devices
from memory_service.api.routes.rows import (
    DELETE_FIELDS,
    HISTORY_FIELDS,
    UNDO_FIELDS,
    add_from,
    list_answer,
    list_fields,
    split_correction,
)
from memory_service.api.security.auth_middleware import signed
from memory_service.api.service import database_of, service_of
from memory_service.services.devices.gpu_history import with_devices
from memory_service.services.editorial.curation import correct_row, remove_row, undo
from memory_service.services.knowledge.outcomes import with_outcomes, with_tallies
from memory_service.services.tables.catalogue import CORRECTABLE, TABLES, get_row, history_of
from memory_service.services.tables.policy_rows import with_steering

__all__ = ["routers"]

Body = Annotated[dict[str, Any], Depends(json_object)]

_BESIDE = {"gpus": with_devices, "patterns": with_tallies, "strategies": with_steering}
"""What the rows of a list carry beside their columns."""


def routers() -> list[APIRouter]:
    """One router a table."""
    return [_router(table) for table in TABLES]


def _router(table: str) -> APIRouter:
    router = APIRouter(prefix=f"/{table}", tags=[table])
    if table in CORRECTABLE:
        _add_corrections(router, table)
    _add_reading(router, table, list_fields(table))
    return router


def _add_reading(router: APIRouter, table: str, fields: dict[str, Field]) -> None:
    @router.get("", name=f"list_{table}", **describe.lists(fields, describe.page_of(table)))
    def listed(request: Request) -> Response:
        """Rows in order, page by page; or all of them as a file with `format`."""
        return list_answer(request, table, fields, _BESIDE.get(table))

    if table in CORRECTABLE:

        @router.get("/{key:path}/history", name=f"history_of_{table}", **describe.history(HISTORY_FIELDS))
        def history(request: Request, key: str) -> Response:
            """What was done to a row: who, when, why, what it was before. Newest first, also after its
            deletion."""
            asked = checked_query(HISTORY_FIELDS, query_of(request))
            with database_of(request).read() as unit:
                return json_answer({"items": history_of(unit, table, key, int(asked.get("limit", 100)))})

    if table == "gpus":
        devices.add_one(router)
        return

    @router.get("/{key:path}", name=f"get_{table}", **describe.one(describe.row_of(table)))
    def one(request: Request, key: str) -> Response:
        """One row, whole."""
        no_query(request)
        with database_of(request).read() as unit:
            return json_answer(with_outcomes(unit, table, get_row(unit, table, key)))


def _add_adding(router: APIRouter, table: str) -> None:
    @router.post("", name=f"add_to_{table}", status_code=201, **describe.adds(table))
    def add(request: Request, body: Body) -> Response:
        """Add a row; `who` and `why` go into its history."""
        no_query(request)
        return add_from(request, table, body)


def _add_corrections(router: APIRouter, table: str) -> None:
    if table == "gpus":
        devices.add_registration(router)
    else:
        _add_adding(router, table)

    @router.post("/{key:path}/undo", name=f"undo_in_{table}", **describe.undoes(table, UNDO_FIELDS))
    def undone(request: Request, key: str, body: Body) -> Response:
        """Take back one change of the row's history; 204 where the row was added by it and is gone again."""
        no_query(request)
        told = signed(request, checked_body(UNDO_FIELDS, body))
        entry, encoder = int(told.pop("entry")), service_of(request).preparation.encoder
        row = undo(database_of(request), table, key, entry, encoder=encoder, **told)
        return Response(status_code=204) if row is None else json_answer(row)

    @router.patch("/{key:path}", name=f"correct_{table}", **describe.corrects(table))
    def correct(request: Request, key: str, body: Body) -> Response:
        """Correct fields of a row; with `version` only if nobody changed it meanwhile."""
        no_query(request)
        changes, told = split_correction(body)
        encoder, told = service_of(request).preparation.encoder, signed(request, told)
        return json_answer(correct_row(database_of(request), table, key, changes, encoder=encoder, **told))

    @router.delete(
        "/{key:path}", name=f"delete_from_{table}", status_code=204, **describe.removes(DELETE_FIELDS)
    )
    def remove(request: Request, key: str) -> Response:
        """Delete a row; its history stays, and seeds do not bring it back."""
        told: dict[str, Any] = signed(request, checked_query(DELETE_FIELDS, query_of(request)))
        if "version" in told:
            told["version"] = int(told["version"])
        if table != "gpus" or not devices.removed(request, key, told):
            remove_row(database_of(request), table, key, **told)
        return Response(status_code=204)
