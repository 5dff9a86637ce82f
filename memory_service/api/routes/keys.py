"""Routes for whoever has a key of scope `admin`: the keys, and the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memory_service.api import describe, shapes
from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_body
from memory_service.api.reading import json_object, no_query
from memory_service.api.routes.rows import list_answer, list_fields
from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, service_of
from memory_service.services.access.keys import LONGEST_DAYS, create_key, list_keys, revoke_key, rotate_key

__all__ = ["router"]

router = APIRouter(tags=["keys"])

Body = Annotated[dict[str, Any], Depends(json_object)]

_KEY: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("name", "text", "Whose it is: it signs every change made with it.", longest=80, required=True),
        Field("scopes", "names", "read, tell, edit, admin: a list, or by comma.", longest=80, required=True),
        Field(
            "expires_days", "number", "Days it is valid; without: until revoked.", 0, LONGEST_DAYS, above=True
        ),
    )
}

_LISTED: Mapping[str, Field] = list_fields("history")


@router.get("/keys", **describe.plain(shapes.Keys, [422, 503]))
def get_keys(request: Request) -> Response:
    """All keys, the latest first, the revoked ones too; never the keys themselves."""
    no_query(request)
    return json_answer({"items": list_keys(database_of(request))})


@router.post("/keys", status_code=201, **describe.makes(_KEY, shapes.NewKey))
def post_key(request: Request, body: Body) -> Response:
    """Make a key. It is in this answer and never again: only a hash of it is kept."""
    no_query(request)
    asked = checked_body(_KEY, body)
    given, days = asked["scopes"], asked.get("expires_days")
    scopes = given.split(",") if isinstance(given, str) else given
    who = who_of(request)
    made = create_key(database_of(request), asked["name"], scopes, expires_days=days, who=who)
    return json_answer(made, 201, {"Location": "/keys"})


@router.post("/keys/{name}/rotate", **describe.plain(shapes.NewKey, [404, 409, 422, 503]))
def post_rotation(request: Request, name: str) -> Response:
    """Another key of the same name, scopes and length of life; the one before ends."""
    no_query(request)
    made = rotate_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(made)


@router.delete("/keys/{name}", **describe.plain(shapes.KeyRow, [404, 422, 503]))
def delete_key(request: Request, name: str) -> Response:
    """Take back the key of this name or id: it ends, and so do its sessions."""
    no_query(request)
    gone = revoke_key(database_of(request), name, who=who_of(request))
    service_of(request).keyring.forget()
    return json_answer(gone)


@router.get("/audit", **describe.lists(_LISTED, describe.page_of("audit")))
def audit(request: Request) -> Response:
    """Who changed what, when and why: every change of rows, runs, devices, calibrations and keys, in order;
    `sort=-id` begins with the latest."""
    return list_answer(request, "history", _LISTED)
