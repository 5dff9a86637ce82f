"""Routes for whoever has a key of scope `admin`: the keys, and the audit."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memory_service.api.answers import json_answer
from memory_service.api.describe import created, files, refusals
from memory_service.api.request_body import StrictRoute
from memory_service.api.routes.knowledge import list_answer, table_query
from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, service_of
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.rows import AuditEntry
from memory_service.schemas.operations import KeyRow, Keys, NewKey, NewKeyRequest
from memory_service.services.access.keys import create_key, list_keys, revoke_key, rotate_key

router = APIRouter(tags=["keys"], route_class=StrictRoute)

_HistoryQuery = table_query("history")
_MADE = created("Where it is listed.", NewKey) | refusals(409)


@router.get("/keys", response_model=Keys)
def get_keys(request: Request) -> Response:
    """All keys, the latest first, the revoked ones too; never the keys themselves."""
    return json_answer({"items": list_keys(database_of(request))})


@router.post("/keys", status_code=201, responses=_MADE)
def post_key(request: Request, asked: NewKeyRequest) -> Response:
    """Make a key. It is in this answer and never again: only a hash of it is stored."""
    scopes, who = asked.scopes.split(","), who_of(request)
    made = create_key(database_of(request), asked.name, scopes, expires_days=asked.expires_days, who=who)
    return json_answer(made, 201, {"Location": "/keys"})


@router.post("/keys/{name}/rotate", response_model=NewKey, responses=refusals(409))
def post_rotation(request: Request, name: str) -> Response:
    """Another key of the same name, scopes and length of life; the one before ends."""
    made = rotate_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(made)


@router.delete("/keys/{name}", response_model=KeyRow)
def delete_key(request: Request, name: str) -> Response:
    """Take back the key of this name or id: it ends, and so do its sessions."""
    gone = revoke_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(gone)


@router.get("/audit", response_model=Page[AuditEntry], responses=files())
def audit(request: Request, asked: Annotated[_HistoryQuery, Query()]) -> Response:  # type: ignore[valid-type]
    """Who changed what, when and why: every change of rows, runs, devices, calibrations and keys, in order;
    `sort=-id` begins with the latest."""
    return list_answer(request, "history", asked)
