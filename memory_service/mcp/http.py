"""Serves MCP at /mcp by streamable HTTP.

Stateless: every POST carries all that its answer needs, since runs live in the database. So an agent goes on
after a restart, any of several processes can answer, and nothing is stored for agents that left. There is
nothing to stream: each call is answered with one JSON document, like any other route's. Keys and the name
that the server was asked by (DNS rebinding) are checked before, for every route alike:
`api.security.auth_middleware`.

The protocol's library is loaded when the first agent comes: it takes a quarter of the start of a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import anyio.abc
import anyio.to_thread
import orjson
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from memory_service.api.request_body import LOOP_BYTES, check_members, long_body, raw_body
from memory_service.api.service import Service
from memory_service.errors import TooLarge, Unavailable

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
MOST_VALUES = 5_000
"""Of one message: what it says is read again in the event loop; the longest texts are few values."""


class Endpoint:
    """The ASGI application of `/mcp`, answering inside `running`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tasks: anyio.abc.TaskGroup | None = None
        self._begun = anyio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def _serving(self) -> StreamableHTTPSessionManager:
        if self._tasks is None:
            raise Unavailable("The service is starting or ending; ask again in a moment")
        async with self._begun:
            return self._manager or await self._tasks.start(self._serve)

    async def _serve(self, *, task_status: anyio.abc.TaskStatus[StreamableHTTPSessionManager]) -> None:
        manager = await anyio.to_thread.run_sync(_manager_of, self._service)
        try:
            async with manager.run():
                self._manager = manager
                task_status.started(manager)
                await anyio.sleep_forever()
        finally:
            self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = await self._serving()
        body = await raw_body(Request(scope, receive))
        async with long_body(Request(scope)) if len(body) > LOOP_BYTES else nullcontext():
            await anyio.to_thread.run_sync(_check, body)
            await manager.handle_request(scope, _replay(body, receive), send)


def _manager_of(service: Service) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from memory_service.mcp.server import build_server

    return StreamableHTTPSessionManager(
        build_server(service),
        json_response=True,
        stateless=True,
        max_request_body_size=service.settings.max_body_bytes,  # refused before, as anywhere else
    )


def _check(body: bytes) -> None:
    """TooLarge for more values than can be read in the event loop; InvalidInput for objects of too many
    members. What is wrong otherwise is the protocol's to refuse; it takes NaN, other than `parse_json`."""
    if body.count(b",") <= MOST_VALUES and len(body) <= LOOP_BYTES:
        return
    try:
        values = check_members(orjson.loads(body))
    except orjson.JSONDecodeError:
        values = body.count(b",") + body.count(b"[")
    if values > MOST_VALUES:
        raise TooLarge(f"A message holds at most {MOST_VALUES} values, not {values}; use the HTTP route")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that repeats the body, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def route_to(endpoint: Endpoint) -> Route:
    """POST only: a GET would wait for messages that a server without sessions never sends."""
    return _Counted(PATH, endpoint, methods=["POST"])


class _Counted(Route):
    """Reports its path to what counts requests by route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self} if match != Match.NONE else child_scope
