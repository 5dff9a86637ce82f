"""What does whoever runs a server see when its database is away, and when it is told to stop?"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text
from starlette.responses import Response, StreamingResponse

from memory_service.api import error_handlers as problems
from memory_service.api.connection import server_of
from memory_service.api.metrics import Metrics
from memory_service.api.request_middleware import Boundary
from memory_service.app import TURNS, create_app
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
    monkeypatch.setattr(problems, "failures", problems._Failures(lambda: now))
    names = ["first", "second", "third", "fourth"]
    for name in names:
        if name == "fourth":
            now += problems.QUIET_SECONDS
        assert away.get("/question", headers={"x-request-id": name}).status_code == 503
    told = [record.getMessage() for record in caplog.records if record.name == problems.__name__]
    assert [one.split(": ")[0] for one in told] == ["request first", "request fourth"]
    assert all("it restarts" in one for one in told)


def test_failures_of_many_threads_are_logged_without_another(monkeypatch: pytest.MonkeyPatch):
    """Refusals are made in threads; the table of what was logged is one."""
    failures, broken = problems._Failures(), list[KeyError]()

    def refuse(caller: int) -> None:
        try:
            for n in range(3_000):
                failures.log(f"reason {(7 * n + caller) % 150}", "a")
        except KeyError as error:
            broken.append(error)

    monkeypatch.setattr(problems._log, "error", lambda *_, **__: None)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=refuse, args=(caller,)) for caller in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert broken == []


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


def test_a_server_whose_threads_all_wait_is_alive_and_says_whether_it_is_ready(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    """The threads hang on one thing, then the look at the database hangs, too."""
    freed, waiting = threading.Event(), threading.Semaphore(0)

    def hangs(*_: object) -> readiness.State:
        waiting.release()
        freed.wait(60)
        return readiness.State()

    monkeypatch.setattr(Metrics, "exposition", lambda *given: str(hangs(*given)).encode())
    url = servers.new("sqlite", "seeded")
    app = create_app(load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False))
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        asking = [threading.Thread(target=client.get, args=("/metrics",)) for _ in range(TURNS)]
        for one in asking:
            one.start()
        for _ in asking:
            assert waiting.acquire(timeout=60)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["failed"]) == (200, None)
        monkeypatch.setattr(readiness.Preparation, "checked", hangs)
        for _ in range(2):
            hung = client.get("/readyz")
            assert hung.status_code == 503
            assert "did not answer within 2 s" in hung.json()["failed"]
        assert client.get("/healthz").json()["status"] == "alive"
        assert not freed.is_set(), "it was answered while all of them waited"
        freed.set()
        for one in asking:
            one.join(60)
    servers.drop(url)


def test_a_row_that_cannot_be_used_is_left_out_and_told_everywhere(
    servers: Servers, caplog: pytest.LogCaptureFixture
):
    """As an older program would have left it: written past the service."""
    url = servers.new("sqlite", "seeded")
    with Database(url) as database:
        with database.write() as transaction:
            spoil = "UPDATE models SET params_m = NULL, version = 2 WHERE name = 'lightgbm'"
            transaction.session.execute(text(spoil))
        problems = databases.check(database).problems
    assert [one for one in problems if "models lightgbm" in one], problems
    app = create_app(load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False))
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        assert client.get("/recommend?task=image&size=small&gpu=t4").json()["feasible"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["left_out_rows"]) == (200, 1)
        assert ready.json()["left_out"][0].startswith("models lightgbm: ")
        assert "memory_service_rows_left_out 1.0" in client.get("/metrics").text
        assert "models lightgbm" in caplog.text
        corrected = client.patch("/models/lightgbm", json={"params_m": 0.0})
        assert corrected.status_code == 200, corrected.text
        assert client.get("/recommend?task=tabular&size=small&gpu=t4").status_code == 200
        assert client.get("/readyz").json()["left_out_rows"] == 0
    servers.drop(url)


def test_a_preparation_that_failed_is_not_ready_and_goes_on_once_the_cause_is_gone(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    url = servers.new("sqlite", "seeded")
    cause, failing = [True], threading.Event()

    def rehearse(_: readiness.Preparation) -> None:
        if cause:
            failing.set()
            raise KeyError("a100")

    monkeypatch.setattr(readiness.Preparation, "_rehearse", rehearse)
    monkeypatch.setattr(readiness, "RETRY_SECONDS", 0.01)
    app = create_app(load_settings(database_url=url, embedding_model="/nowhere", seed_on_start=False))
    with TestClient(app) as client:
        preparation = app.state.service.preparation
        assert failing.wait(300)
        while preparation.state.failed is None:
            threading.Event().wait(0.01)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        cause.clear()
        assert preparation.wait(300).ready
        assert client.get("/readyz").status_code == 200
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
