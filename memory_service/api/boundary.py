"""What happens to every request, whatever it asks? A request id, a count, safe headers, never a trace."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.metrics import Metrics
from memory_service.api.origin import other_origin
from memory_service.api.problems import problem_response, unexpected
from memory_service.problem import problem_of

__all__ = ["Boundary"]

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Boundary:
    """ASGI middleware, the outermost. One object per request and one wrapped `send`: the hot path is thin."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, shown: Callable[[Scope, Response], Response] | None = None
    ) -> None:
        """`shown` may turn a refusal of this layer into a page, where a person waits for one."""
        self.app = app
        self.metrics = metrics
        self.shown = shown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _request_id(scope["headers"])
        inner = dict(scope)
        inner["state"] = {**scope.get("state", {}), "request_id": request_id}
        if scope["method"] == "HEAD":
            inner["method"] = "GET"  # the server sends no body for HEAD by itself
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers: list[tuple[bytes, bytes]] = message["headers"]
                own = any(name == b"content-security-policy" for name, _ in headers)
                message["headers"] = [
                    *headers,
                    (b"x-request-id", request_id.encode()),
                    *_SAFE[: 1 if own else 2],
                ]
            await send(message)

        try:
            refused = other_origin(inner)
            if refused is not None:
                response = self._as_shown(inner, problem_response(problem_of(refused, request_id)))
                await response(inner, receive, answer)
            else:
                await self.app(inner, receive, answer)
        except Exception as error:  # noqa: BLE001 - the last line of defence: answered as a problem, logged with its trace
            response = self._as_shown(inner, unexpected(error, request_id))
            if status == 0:
                await response(inner, receive, answer)
        finally:
            self.metrics.observe(
                scope["method"] if scope["method"] in _METHODS else "other",
                _template(inner),
                status or 500,
                time.perf_counter() - began,
            )

    def _as_shown(self, scope: Scope, response: Response) -> Response:
        return response if self.shown is None else self.shown(scope, response)


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The caller's `X-Request-ID` when it is a plain word, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode("ascii")
    return f"{random.getrandbits(128):032x}"


def _template(scope: dict[str, Any]) -> str:
    return str(getattr(scope.get("route"), "path", None) or "unmatched")
