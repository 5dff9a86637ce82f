"""Outermost middleware: request id, metrics, security headers, time limit, no traces."""

import asyncio
import random
import re
import time
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.error_handlers import failures, refusal, unexpected
from memory_service.api.metrics import Metrics
from memory_service.api.time_and_load_limits import Limits, SlowBody, TooSlow
from memory_service.errors import MemoryServiceError, Unavailable

Headers = list[tuple[bytes, bytes]]

_NEVER = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")

_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in _NEVER).encode()),
]
_UNLESS_SAID: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
_BY_TLS = (b"strict-transport-security", b"max-age=31536000")
"""Said over TLS only, a trusted proxy's in front included: over plain HTTP it means nothing."""


def with_safe_headers(headers: Headers, scheme: str) -> Headers:
    """The answer's own headers and these. A policy that a page says itself stays; what is not said to be
    kept is kept by no cache, since an answer may be one caller's alone."""
    said = {name for name, _ in headers}
    safe = [*headers, *_ALWAYS, *(header for header in _UNLESS_SAID if header[0] not in said)]
    return [*safe, _BY_TLS] if scheme == "https" else safe


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_GONE = 499
"""Counted for a caller who hung up before the answer; nobody receives it."""


class Boundary:
    """ASGI middleware, the outermost. One object and one timer a request: the hot path is thin."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        shown: Callable[[Scope, Response], Response] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`shown` may turn a refusal of this layer into a page, where a person waits for one."""
        self.app = app
        self.metrics = metrics
        self.shown = shown
        self.limits = limits or Limits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(self, scope, receive, send)
        began = time.perf_counter()
        try:
            await exchange.run()
        finally:
            exchange.end()
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = str(getattr(exchange.scope.get("route"), "path", None) or "unmatched")
            self.metrics.observe(method, route, exchange.status or 500, time.perf_counter() - began)


class _Exchange:
    """One request and its answer."""

    __slots__ = (
        "boundary", "cut", "last", "receive", "received", "request_id", "scope", "send", "status", "timer",
    )  # fmt: skip

    def __init__(self, boundary: Boundary, scope: Scope, receive: Receive, send: Send) -> None:
        self.boundary = boundary
        self.receive = receive
        self.send = send
        self.request_id = _request_id(scope["headers"])
        self.scope = dict(scope)
        self.scope["state"] = {**scope.get("state", {}), "request_id": self.request_id}
        if scope["method"] == "HEAD":
            self.scope["method"] = "GET"  # the server sends no body for HEAD by itself
        self.status = 0
        self.received = self.last = False
        self.cut: asyncio.Task[None] | None = None
        self.timer = asyncio.get_running_loop().call_later(boundary.limits.body_seconds, self._late)

    async def run(self) -> None:
        """Ask the application. What it refuses or breaks with, and what comes too late, is answered here."""
        try:
            refused = other_origin(self.scope)
            if refused is not None:
                await self._refuse(refused)
            else:
                await self.boundary.app(self.scope, self._receive, self._answer)
        except ClientDisconnect:
            self.status = self.status or _GONE
        except Exception as error:  # noqa: BLE001 - the last line of defence: answered as a problem, logged with its trace
            await self._failed(error)
        if self.cut is not None:
            await self.cut

    async def _failed(self, error: Exception) -> None:
        if self.status and isinstance(error.__cause__, Unavailable):
            failures.log(f"cut off: {error.__cause__.detail}", self.request_id)  # in the middle of a file
            return
        response = self._as_shown(unexpected(error, self.request_id))
        if self.status == 0:
            await response(self.scope, self.receive, self._answer)

    def end(self) -> None:
        """Nobody waits any more."""
        self.timer.cancel()

    async def _receive(self) -> Message:
        message = await self.receive()
        if not message.get("more_body"):
            self.received = True
        return message

    async def _answer(self, message: Message) -> None:
        if self.cut is None:
            await self._send(message)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.timer.cancel()
            own = [*message["headers"], (b"x-request-id", self.request_id.encode())]
            message["headers"] = with_safe_headers(own, self.scope.get("scheme", "http"))
        await self.send(message)

    def _late(self) -> None:
        """The time for the body is over, or that for the answer: what comes from now on goes nowhere."""
        if self.status:
            return
        limits, waits = self.boundary.limits, self.received or not _has_body(self.scope["headers"])
        if waits and not self.last:
            self.last = True
            rest = max(limits.answer_seconds - limits.body_seconds, 0.0)
            self.timer = asyncio.get_running_loop().call_later(rest, self._late)
            return
        error: MemoryServiceError = SlowBody(f"The body must arrive within {limits.body_seconds:g} s")
        if waits:
            error = TooSlow(f"No answer within {limits.answer_seconds:g} s; what was sent may be sent again")
        self.cut = asyncio.get_running_loop().create_task(self._refuse(error))

    async def _refuse(self, error: MemoryServiceError) -> None:
        response = self._as_shown(refusal(error, self.request_id))
        if isinstance(error, SlowBody):
            response.headers["Connection"] = "close"
        await response(self.scope, self.receive, self._send)

    def _as_shown(self, response: Response) -> Response:
        return response if self.boundary.shown is None else self.boundary.shown(self.scope, response)


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(
        (name == b"content-length" and value != b"0") or name == b"transfer-encoding"
        for name, value in headers
    )


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The caller's `X-Request-ID` when it is a plain word, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode("ascii")
    return f"{random.getrandbits(128):032x}"


_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OtherOrigin(MemoryServiceError):
    """A page of another site made somebody's browser send this."""

    code = "other-origin"
    title = "Requests are taken from programs and from the pages of this server only"
    status: ClassVar[int] = 403


def other_origin(scope: dict[str, Any]) -> OtherOrigin | None:
    """The refusal of a changing request that another site's page sends; None for programs, which say neither
    `Origin` nor `Sec-Fetch-Site`, and for this server's own pages.

    Browsers send a body without a media type across sites unasked, so media types protect nothing.
    """
    if scope["method"] in _READING:
        return _embedded(scope)
    headers = {name: value for name, value in scope["headers"] if name in _HEADERS}
    if not headers.keys() & {b"sec-fetch-site", b"origin"}:
        return None
    site, origin, host = (headers.get(name, b"").decode("latin-1") for name in _HEADERS)
    own = site in ("same-origin", "none") if site else _place_of(origin) == host
    if own:
        return None
    return OtherOrigin(f"This came from {(origin or 'another site')[:200]}, not from {host[:200]}")


def _embedded(scope: dict[str, Any]) -> OtherOrigin | None:
    """A page of another site that loads this as a picture or the like: it may not read the answer, but making
    it costs. A link that a person follows is no such thing."""
    said = {name: value for name, value in scope["headers"] if name in _FETCH}
    if said.get(_FETCH[0]) != b"cross-site" or said.get(_FETCH[1], b"navigate") == b"navigate":
        return None
    return OtherOrigin("A page of another site embeds this; follow a link to it instead")


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no browser sends that
        return None


_FETCH = (b"sec-fetch-site", b"sec-fetch-mode")
_HEADERS = (b"sec-fetch-site", b"origin", b"host")
