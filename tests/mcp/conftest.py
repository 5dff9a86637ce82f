"""Agents with the official client, over both transports: a process of their own over its pipes, and a real
server over HTTP."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from memory_service.app import create_app
from memory_service.settings import load_settings
from tests.conftest import Servers

TRANSPORTS = ("stdio", "http")
WORDS_ONLY = "/no/such/model"
"""An encoder that is not there: a process that needs no vectors starts four times as fast."""


@dataclass(frozen=True)
class Agent:
    """One client; `answer` and `refusal` call a tool and say which of the two it must be."""

    portal: BlockingPortal
    client: Client

    def call(self, tool: str, arguments: dict[str, Any], timeout: float | None = None) -> CallToolResult:
        result: CallToolResult = self.portal.call(self.client.call_tool, tool, arguments, timeout)
        return result

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.call(tool, arguments)
        assert not result.is_error, text_of(result)
        data: dict[str, Any] = result.structured_content
        return data

    def refusal(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@contextmanager
def agent_by(transport: Callable[[], Any], mode: str = "auto", asked: Any = None) -> Iterator[Agent]:
    """A connected agent. transport: made in the loop that it lives in; asked: answers what the server asks,
    with the context and the question."""

    def connect() -> AbstractAsyncContextManager[Client]:
        return Client(transport(), mode=mode, elicitation_callback=asked)

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(portal.call(connect)) as client:
        yield Agent(portal, client)


def by_stdio(database_url: str, log: Path, **settings: str) -> Callable[[], Any]:
    """`memory-service mcp` in a process of its own, whose stderr goes into `log`."""
    environment = os.environ | {"MEMORY_DATABASE_URL": database_url, **settings}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "memory_service", "mcp"], env=environment, cwd=log.parent
    )

    @asynccontextmanager
    async def started() -> AsyncIterator[Any]:
        with log.open("a", encoding="utf-8") as errors:
            async with stdio_client(command, errlog=errors) as streams:
                yield streams

    return started


def by_http(url: str, key: str | None = None) -> Callable[[], Any]:
    """The server at `url`."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    @asynccontextmanager
    async def connected() -> AsyncIterator[Any]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as client,
            streamable_http_client(f"{url}/mcp", http_client=client) as streams,
        ):
            yield streams

    return connected


@contextmanager
def serving(database_url: str, **settings: Any) -> Iterator[str]:
    """A ready server in a thread; its URL."""
    given = {"seed_on_start": False, "calibrate": False, **settings}
    app = create_app(load_settings(database_url=database_url, **given))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        assert app.state.service.preparation.wait(300).ready
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def own_agent(servers: Servers, transport: str, folder: Path, mode: str = "auto") -> Iterator[Agent]:
    """An agent with a service and a seeded database of its own."""
    url = servers.new("sqlite", "seeded")
    if transport == "stdio":
        started = by_stdio(
            url, folder / "log", MEMORY_EMBEDDING_MODEL=WORDS_ONLY, MEMORY_SEED_ON_START="false"
        )
        with agent_by(started, mode) as agent:
            yield agent
    else:
        with serving(url) as address, agent_by(by_http(address), mode) as agent:
            yield agent
    servers.drop(url)


@pytest.fixture(scope="session")
def agents(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Agent]]:
    """Of a transport the one that all tests share: starting a process takes seconds."""
    with ExitStack() as running:

        @cache
        def agent_of(transport: str) -> Agent:
            return running.enter_context(own_agent(servers, transport, tmp_path_factory.mktemp("agent")))

        yield agent_of


@pytest.fixture(params=TRANSPORTS)
def agent(request: pytest.FixtureRequest, agents: Callable[[str], Agent]) -> Agent:
    return agents(str(request.param))
