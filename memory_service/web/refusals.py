"""Error pages: the problem document as HTML."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from memory_service.api.service import service_of
from memory_service.errors import MemoryServiceError
from memory_service.schemas.lists import FORMATS
from memory_service.web.assets import compressed
from memory_service.web.environment import reader_of, rendered
from memory_service.web.site import HEADERS, here_of, wants_json

Handler = Callable[[Request, Any], Response | Awaitable[Response]]

_SECONDS_BETWEEN = 2
_KEPT_HEADERS = ("allow", "retry-after", "www-authenticate")


def install(app: FastAPI) -> None:
    """Over the handlers of `api.error_handlers`: pages get HTML."""
    for kind in (MemoryServiceError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _as_page(app.exception_handlers[kind]))


def shown(scope: Scope, response: Response) -> Response:
    """A refusal as HTML where a page was requested, else as it is."""
    request = Request(scope)
    if not is_page(request):
        return response
    document = orjson.loads(bytes(response.body))
    headers = {name: value for name, value in response.headers.items() if name in _KEPT_HEADERS}
    return _page(request, document, headers)


def is_page(request: Request) -> bool:
    """Whether HTML was requested, not data."""
    path: str = request.scope["path"]
    data = wants_json(request) or path.endswith((".json", *(f".{form}" for form in FORMATS)))
    return (path == "/" or path.startswith("/browse")) and not data


def _as_page(inner: Handler) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        response = inner(request, error)
        assert isinstance(response, Response)  # noqa: S101 - those of api.problems are plain functions
        return shown(request.scope, response)

    return handler


def _page(request: Request, document: dict[str, Any], headers: dict[str, str]) -> Response:
    status = int(document["status"])
    service = service_of(request)
    state = service.preparation.state
    waiting = status == 503 and not state.knowledge and not state.failed
    here = here_of(request)
    errors = document.get("errors") or ()
    wrong = {name for error in errors for name in (error["field"], error["given"]) if name in here.query}
    title = "Getting ready" if waiting else document["title"]
    without = here.link(**dict.fromkeys(wrong)) if wrong and request.method == "GET" else None
    html = rendered(
        "refused.html", title=title, data=document, here=here, without=without, reader=reader_of(request),
        notice=service.settings.notice, waiting=waiting, state=state.as_dict(),
        refresh_seconds=_SECONDS_BETWEEN if waiting else None,
    )  # fmt: skip
    response = Response(html, status, {**HEADERS, **headers}, media_type="text/html")
    return compressed(request, response)
