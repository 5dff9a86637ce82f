"""Routes of what is known: lists, single rows, corrections and their history, the same for every table."""

# Without `from __future__ import annotations`: the models of the routes are made here, table by table.

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memory_service.api.answers import json_answer
from memory_service.api.describe import created, files, refusals
from memory_service.api.request_body import StrictRoute
from memory_service.api.routes import devices
from memory_service.api.routes.rows import add_from, list_answer, split_signature, table_query
from memory_service.api.security.auth_middleware import signed
from memory_service.api.service import database_of, service_of
from memory_service.schemas.answers.rows import ALONE, CHANGED, PAGES, History
from memory_service.schemas.lists import HistoryQuery
from memory_service.schemas.rows import RemovalQuery, UndoRequest, addition_of, correction_of
from memory_service.services.editorial.curation import correct_row, remove_row, undo
from memory_service.services.knowledge.outcomes import with_outcomes
from memory_service.services.tables.table_rows import CORRECTABLE, TABLES, get_row, history_of


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
        devices.add_one(router)
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
        devices.add_registration(router)
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
        if table != "gpus" or not devices.removed(request, key, signature):
            remove_row(database_of(request), table, key, **signature)
        return Response(status_code=204)
