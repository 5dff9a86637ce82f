"""What does whoever runs a server see when its database is away, and when it is told to stop?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.responses import Response, StreamingResponse

from memory_service.api import error_handlers as problems
from memory_service.api.connection import server_of
from memory_service.api.metrics import Metrics
from memory_service.api.request_middleware import Boundary
from memory_service.app import THREADS, create_app
from memory_service.errors import Unavailable
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.services.operations import readiness
from memory_service.services.planning.recommend import recommend
from memory_service.settings import load_settings
from tests.conftest import Servers

REHEARSE = readiness.Preparation._rehearse


@pytest.fixture
def away() -> TestClient:
    """Behind the real boundary: a question and a file, whose database goes away."""
    app = FastAPI(openapi_url=None)
    problems.install(app)

    def gone() -> None:
        raise Unavailable("the database did not answer: it restarts") from OSError()

    @app.get("/question")
    def question() -> None:
        gone()

    @app.get("/file")
    def file() -> Response:
        def rows() -> Iterator[bytes]:
            yield b"one row\n"
            gone()

        return StreamingResponse(rows())

    app.add_middleware(Boundary, metrics=Metrics())
    return TestClient(app, raise_server_exceptions=False)


def test_the_log_tells_that_the_database_is_away_once_in_ten_seconds(
    away: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    now = 1e9
    monkeypatch.setattr(problems, "monotonic", lambda: now)
    names = ["first", "second", "third", "fourth"]
    for name in names:
        if name == "fourth":
            now += problems.QUIET_SECONDS
        assert away.get("/question", headers={"x-request-id": name}).status_code == 503
    told = [record.getMessage() for record in caplog.records if record.name == problems.__name__]
    assert [one.split(": ")[0] for one in told] == ["request first", "request fourth"]
    assert all("it restarts" in one for one in told)


def test_a_file_that_is_cut_off_is_one_line_in_the_log(away: TestClient, caplog: pytest.LogCaptureFixture):
    away.get("/file")
    (told,) = [record for record in caplog.records if record.name == problems.__name__]
    assert "cut off: the database did not answer" in told.getMessage()
    assert told.exc_info is None


def test_an_answer_that_goes_on_is_told_to_end_when_the_server_is_told_to_stop():
    stopping = threading.Event()

    async def goes_on() -> AsyncIterator[bytes]:
        yield b"begun\n"
        while not stopping.is_set():
            await asyncio.sleep(0.02)
        yield b"ended\n"

    app = FastAPI(openapi_url=None)
    app.add_api_route("/events", lambda: StreamingResponse(goes_on()))
    server = server_of(app, stopping=stopping.set, port=0, log_level="critical", lifespan="off")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx2.stream("GET", f"http://127.0.0.1:{port}/events", timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "begun"
        server.should_exit = True
        assert list(lines) == ["ended"], "whole, not cut off"
    thread.join(60)
    assert not thread.is_alive()


def test_a_server_whose_threads_all_wait_for_the_database_is_alive(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    answered, waiting = threading.Event(), threading.Semaphore(0)
    state, freed = readiness.State(), list[bool]()

    def hangs(_: readiness.Preparation) -> readiness.State:
        waiting.release()
        freed.append(answered.wait(60))
        return state

    monkeypatch.setattr(readiness.Preparation, "checked", hangs)
    url = servers.new("sqlite", "head")
    app = create_app(load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False))
    with TestClient(app) as client:
        asking = [threading.Thread(target=client.get, args=("/readyz",)) for _ in range(THREADS)]
        for one in asking:
            one.start()
        for _ in asking:
            assert waiting.acquire(timeout=60)
        alive = client.get("/healthz").json()
        answered.set()
        for one in asking:
            one.join(60)
    assert alive["status"] == "alive"
    assert freed == [True] * THREADS, "it was answered while all of them waited"
    servers.drop(url)


def test_a_database_that_is_away_at_the_start_is_asked_again(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    url = servers.new("sqlite", "seeded")
    require_head: Callable[[Database], object] = databases.require_head
    seen: list[readiness.State] = []

    def restarting(database: Database) -> object:
        seen.append(preparation.state)
        if len(seen) < 4:
            raise Unavailable("the database did not answer: it restarts")
        return require_head(database)

    monkeypatch.setattr(databases, "require_head", restarting)
    monkeypatch.setattr(readiness, "RETRY_SECONDS", 0.01)
    settings = load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False)
    with Database(url) as database:
        preparation = readiness.Preparation(database, settings)
        preparation.start()
        state = preparation.wait(300)
    assert (state.ready, state.failed) == (True, None)
    assert [one.failed is None for one in seen] == [True, False, False, False]
    assert caplog.text.count("it restarts") == 1
    servers.drop(url)


def test_the_first_question_is_asked_before_anybody_asks(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    monkeypatch.setattr(readiness.Preparation, "_rehearse", REHEARSE)
    monkeypatch.setattr(readiness, "recommend", lambda *question: asked.append(recommend(*question)))
    for template in ("seeded", "head"):  # without a card there is nothing to ask for
        url = servers.new("sqlite", template)
        settings = load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False)
        with Database(url) as database:
            preparation = readiness.Preparation(database, settings)
            preparation.start()
            assert preparation.wait(300).failed is None
        servers.drop(url)
    assert [plan["feasible"] for plan in asked] == [True]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path):
    database = Database(f"sqlite:///{tmp_path}/memory.sqlite3")
    (tmp_path / "memory.sqlite3").mkdir()
    with pytest.raises(Unavailable, match=r"memory\.sqlite3 did not answer"):
        database.knowledge_revision()
