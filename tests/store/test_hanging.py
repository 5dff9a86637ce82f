"""A database that hangs, not dies: everybody is answered, and nobody waits for it who does not need it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psutil
import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from memory_service.services.database import transactions
from memory_service.services.runs import telemetry
from memory_service.store import postgresql, sqlite
from tests.api.conftest import serve
from tests.conftest import Servers
from tests.telling import at, case

EVENT = {"seq": 1, "kind": "epoch", "at": at(60), "fold": 0, "epoch": 0, "seconds": 60.0}


@pytest.fixture
def on_postgresql(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(postgresql.TimeLimitedConnection, "silence_seconds", 2.0)
    monkeypatch.setattr(postgresql, "CONNECT_SECONDS", 2)
    yield from serve(servers, "postgresql")


@pytest.fixture
def on_sqlite(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 4)
    monkeypatch.setattr(transactions, "WRITER_SLOT_SECONDS", 0.2)
    yield from serve(servers, "sqlite")


@contextmanager
def frozen(uri: str) -> Iterator[None]:
    """Every process of a PostgreSQL stands still."""
    with psycopg.connect(uri) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        server = psutil.Process(pid).parent()
    assert server is not None
    processes = [server, *server.children(recursive=True)]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # it saw that its client had gone, and ended
                os.kill(process.pid, signal.SIGCONT)


@contextmanager
def locked(client: TestClient) -> Iterator[None]:
    """Somebody else writes to the file, and goes on doing so."""
    url = make_url(client.app.state.service.settings.database_url)  # type: ignore[attr-defined]
    with closing(sqlite3.connect(str(url.database), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def begin(client: TestClient) -> Any:
    return client.post("/runs", json=case())


def test_a_postgresql_that_stands_still_costs_nobody_more_than_the_time_it_is_given(
    on_postgresql: TestClient, servers: Servers
):
    client = on_postgresql
    run_id = begin(client).json()["run_id"]
    paths = ("/models?limit=1", "/runs?limit=1", "/gpus/a100", "/recommend?task=image&gpu=a100")
    asked = [("GET", path) for path in paths]
    asked += [("POST", f"/runs/{run_id}/events"), ("POST", "/runs")]
    bodies = {asked[-2]: {"events": [EVENT]}, asked[-1]: case()}

    def ask(request: tuple[str, str]) -> Any:
        return client.request(*request, json=bodies.get(request))

    with ThreadPoolExecutor(len(asked)) as pool:
        with frozen(servers.start_postgresql()):
            answers = [pool.submit(ask, one) for one in asked]
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["ready"]) == (503, False)
            assert client.get("/healthz").status_code == 200
            for answer in answers:
                given = answer.result(100)
                assert given.status_code == 503, given.text
                assert "retry-after" in given.headers
        assert client.get("/readyz").status_code == 200
        assert [client.get(path).status_code for _, path in asked[:3]] == [200] * 3
        again = client.post(f"/runs/{run_id}/events", json={"events": [EVENT]}).json()
        assert again["accepted"] + again["duplicates"] == 1
        assert len(client.get(f"/runs/{run_id}/events").text.splitlines()) == 1


def test_work_that_takes_minutes_without_a_word_is_waited_for(on_postgresql: TestClient):
    database = on_postgresql.app.state.service.database  # type: ignore[attr-defined]
    with database.read() as transaction:
        connection = transaction.session.connection()
        with postgresql._without_time_limits(connection):
            assert connection.exec_driver_sql("SELECT pg_sleep(4)").all()
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_a_writer_that_keeps_sqlites_lock_stops_no_reader(on_sqlite: TestClient):
    client = on_sqlite
    run_id = begin(client).json()["run_id"]
    assert client.get("/recommend?task=image&size=small&gpu=a100").status_code == 200
    with ThreadPoolExecutor(16) as pool:
        with locked(client):
            writing = [pool.submit(begin, client) for _ in range(12)]
            telling = pool.submit(client.post, f"/runs/{run_id}/events", json={"events": [EVENT]})
            for path in (
                "/recommend?task=image&size=small&gpu=a100",
                "/models?limit=1",
                "/readyz",
                "/healthz",
            ):
                assert client.get(path).status_code == 200
            assert not telling.done(), "it was read while writers waited"
            refused = [one.result(60) for one in (*writing, telling)]
        assert {one.status_code for one in refused} == {503}
        assert all("retry-after" in one.headers for one in refused)
        assert sum("writers wait already" in one.text for one in refused) >= 12 - 2 * transactions.WRITERS
    assert begin(client).status_code == 201


def test_events_beyond_what_may_wait_are_told_to_come_again(
    on_sqlite: TestClient, monkeypatch: pytest.MonkeyPatch
):
    client = on_sqlite
    run_id = begin(client).json()["run_id"]
    monkeypatch.setattr(telemetry, "MOST_WAITING", 30)

    def tell(number: int) -> Any:
        events = [{**EVENT, "seq": 10 * number + n, "epoch": n} for n in range(10)]
        return client.post(f"/runs/{run_id}/events", json={"events": events})

    with ThreadPoolExecutor(8) as pool:
        with locked(client):
            refused = [one.result(60) for one in [pool.submit(tell, number) for number in range(8)]]
        assert {one.status_code for one in refused} == {503}
        assert sum("too many events wait" in one.text for one in refused) >= 5
        taken = [tell(number).json() for number in range(8)]
    assert sum(one["accepted"] + one["duplicates"] for one in taken) == 80
    assert len(client.get(f"/runs/{run_id}/events").text.splitlines()) == 80
