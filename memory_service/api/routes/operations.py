"""Routes for whoever runs the service: /healthz, /readyz, /metrics and /openapi.json; and, with a key of
scope `admin`, the keys and the audit."""

from dataclasses import replace
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from memory_service import __version__
from memory_service.api import metrics
from memory_service.api.answers import json_answer
from memory_service.api.describe import Responses, created, files, refusals, texts
from memory_service.api.error_handlers import SEE_LOG, failures
from memory_service.api.request_body import StrictRoute
from memory_service.api.routes.knowledge import list_answer, table_query
from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, service_of
from memory_service.errors import MemoryServiceError
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.rows import AuditEntry
from memory_service.schemas.operations import Alive, KeyRow, Keys, NewKey, NewKeyRequest, Ready
from memory_service.services.access.keys import create_key, list_keys, revoke_key, rotate_key
from memory_service.services.knowledge.snapshot import rows_left_out

router = APIRouter(tags=["operate"], route_class=StrictRoute)

_NOT_READY: Responses = {503: {"description": "Not yet, or not any more.", "model": Ready}}
_METRICS = texts(metrics.CONTENT_TYPE.partition(";")[0], about="Prometheus text format.")

READY_SECONDS = 2.0


@router.get("/healthz", response_model=Alive)
async def healthz() -> Response:
    """The process is alive; nothing else is looked at, no thread is waited for."""
    return json_answer({"status": "alive", "version": __version__})


@router.get("/readyz", response_model=Ready, responses=_NOT_READY)
async def readyz(request: Request) -> Response:
    """200 when the database is at head and answers, the index is loaded, the encoder is ready or known to be
    missing, and nothing failed. It has a thread of its own, and an answer within 2 s."""
    preparation = service_of(request).preparation
    state = replace(preparation.state, database=False, failed="the database did not answer within 2 s")
    with anyio.move_on_after(READY_SECONDS):
        limiter = service_of(request).readiness_limiter
        state = await anyio.to_thread.run_sync(preparation.checked, abandon_on_cancel=True, limiter=limiter)
    shown = state.as_dict()
    if not request.state.scopes:
        shown = {**shown, "left_out": []}
        if state.failed:  # it may name the database's host and user
            failures.log(f"not ready: {state.failed}", request.state.request_id)
            shown = {**shown, "failed": SEE_LOG}
    return json_answer(shown, 200 if state.ready else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses=_METRICS)
def prometheus(request: Request) -> Response:
    """Requests and seconds by route, the knowledge revision, the encoder's state, the process."""
    service = service_of(request)
    state = service.preparation.state
    try:
        revision = service.database.knowledge_revision() if state.database else None
    except MemoryServiceError:
        revision = None  # a database that is away is seen in /readyz; the other counts are still wanted
    left_out = len(rows_left_out(service.database))
    body = service.metrics.exposition(revision, state.encoder, left_out)
    return Response(body, media_type=metrics.CONTENT_TYPE)


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """The description of all routes."""
    return json_answer(request.app.openapi())


keys_router = APIRouter(tags=["keys"], route_class=StrictRoute)

_HistoryQuery = table_query("history")
_MADE = created("Where it is listed.", NewKey) | refusals(409)


@keys_router.get("/keys", response_model=Keys)
def get_keys(request: Request) -> Response:
    """All keys, the latest first, the revoked ones too; never the keys themselves."""
    return json_answer({"items": list_keys(database_of(request))})


@keys_router.post("/keys", status_code=201, responses=_MADE)
def post_key(request: Request, asked: NewKeyRequest) -> Response:
    """Make a key. It is in this answer and never again: only a hash of it is stored."""
    scopes, who = asked.scopes.split(","), who_of(request)
    made = create_key(database_of(request), asked.name, scopes, expires_days=asked.expires_days, who=who)
    return json_answer(made, 201, {"Location": "/keys"})


@keys_router.post("/keys/{name}/rotate", response_model=NewKey, responses=refusals(409))
def post_rotation(request: Request, name: str) -> Response:
    """Another key of the same name, scopes and length of life; the one before ends."""
    made = rotate_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(made)


@keys_router.delete("/keys/{name}", response_model=KeyRow)
def delete_key(request: Request, name: str) -> Response:
    """Take back the key of this name or id: it ends, and so do its sessions."""
    gone = revoke_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(gone)


@keys_router.get("/audit", response_model=Page[AuditEntry], responses=files())
def audit(request: Request, asked: Annotated[_HistoryQuery, Query()]) -> Response:  # type: ignore[valid-type]
    """Who changed what, when and why: every change of rows, runs, devices, calibrations and keys, in order;
    `sort=-id` begins with the latest."""
    return list_answer(request, "history", asked)
