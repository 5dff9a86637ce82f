"""Exception handlers: every error becomes an `application/problem+json` document."""

import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from time import monotonic
from traceback import walk_tb
from typing import Any

import orjson
from cachetools import TTLCache
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memory_service.error_document import problem, problem_of
from memory_service.errors import MemoryServiceError, Unavailable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = "2"
QUIET_SECONDS = 10.0
SEE_LOG = "The log of the service says why"

_log = logging.getLogger(__name__)

_OF_STATUS = {
    404: ("not-found", "Not found", "There is no route {method} {path}"),
    405: ("method-not-allowed", "This cannot be done here", "{path} does not take {method}"),
}


class NotAcceptable(MemoryServiceError):
    code, title, status = "not-acceptable", "The answer is not offered in this form", 406


class UnsupportedMediaType(MemoryServiceError):
    code, title, status = "unsupported-media-type", "The body is not in a form that can be read", 415


class _Failures:
    """What the database refuses (away, busy, full), and what nobody thought of, goes to the log: the same
    reason once in ten seconds, however many requests it meets."""

    def __init__(self, timer: Callable[[], float] = monotonic) -> None:
        self._logged = TTLCache[str, str](100, QUIET_SECONDS, timer)
        self._lock = Lock()  # refusals are made in threads

    def log(self, detail: str, request_id: str, error: BaseException | None = None) -> str:
        """The request under which it stands. `error`: logged with its trace; its place is its reason."""
        reason = detail
        for frame, line in walk_tb(error.__traceback__ if error else None):
            reason = f"{type(error)} {frame.f_code.co_filename}:{line}"
        with self._lock:
            under = self._logged.get(reason)
            if under is None:
                under = self._logged[reason] = request_id
                _log.error("request %s: %s", request_id, detail, exc_info=error)
        return under


failures = _Failures()


def problem_response(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A refusal as HTTP sends it."""
    return Response(orjson.dumps(document), document["status"], headers, media_type=MEDIA_TYPE)


def refusal(error: MemoryServiceError, request_id: str) -> Response:
    """Any refusal of this service, with the headers that its kind has (`error.headers`)."""
    headers = {"Retry-After": RETRY_AFTER_SECONDS} if isinstance(error, Unavailable) else {}
    if headers and error.__cause__ is not None:
        failures.log(error.detail, request_id)
    headers.update(getattr(error, "headers", {}))
    return problem_response(problem_of(error, request_id), headers)


def refusal_to(scope: Mapping[str, Any], error: MemoryServiceError) -> Response:
    """The same to whoever asks: why the database is away (its host, its user) is not shown to everybody."""
    state = scope["state"]
    if isinstance(error, Unavailable) and not state.get("scopes"):
        failures.log(error.detail, state["request_id"])
        error = Unavailable(SEE_LOG)
    return refusal(error, state["request_id"])


def install(app: FastAPI) -> None:
    """Every exception that can leave a route becomes a problem document."""
    app.add_exception_handler(MemoryServiceError, lambda request, error: refusal_to(request.scope, error))
    app.add_exception_handler(HTTPException, _of_routing)  # type: ignore[arg-type]


def unexpected(error: BaseException, request_id: str) -> Response:
    """500 for what nobody thought of: the trace goes to the log under the request id, never into the
    answer."""
    under = failures.log("failed", request_id, error)
    detail = f"Something unexpected happened; see the log under request {under}."
    return problem_response(problem("unexpected", "The service failed", 500, detail, request_id=request_id))


def allowed_methods(routes: Iterable[APIRoute], path: str) -> list[str]:
    """All methods that a path takes, whichever route holds each; HEAD wherever GET is."""
    found = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _of_routing(request: Request, error: HTTPException) -> Response:
    usual = ("refused", "The request was refused", error.detail)
    code, title, detail = _OF_STATUS.get(error.status_code, usual)
    sentence = detail.format(method=request.method, path=request.url.path[:200])
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(allowed_methods(request.app.state.routes, request.url.path))
    document = problem(code, title, error.status_code, sentence, request_id=request.state.request_id)
    return problem_response(document, headers)
