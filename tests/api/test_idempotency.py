"""With an Idempotency-Key, what makes something new makes it once, however often it is sent."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from memory_service.api.routes import knowledge
from memory_service.app import create_app
from memory_service.services.access import idempotent_answers
from tests.store.fakes import ROWS, pattern
from tests.telling import CASE


def keyed(name: str) -> dict[str, str]:
    return {"Idempotency-Key": f'"{name}"'}


def test_a_run_without_an_id_begins_once(sqlite_client: TestClient):
    first, again = (sqlite_client.post("/runs", json=CASE, headers=keyed("run-1")) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    other = sqlite_client.post("/runs", json=CASE, headers=keyed("run-2")).json()
    assert other["run_id"] != first.json()["run_id"]


@pytest.fixture
def server(client: TestClient) -> Iterator[Callable[[], TestClient]]:
    """Starts further servers over the database of the first one."""
    with ExitStack() as stack:

        def start() -> TestClient:
            app = create_app(client.app.state.service.settings)  # type: ignore[attr-defined]
            started = stack.enter_context(TestClient(app))
            assert app.state.service.preparation.wait(300).knowledge
            return started

        yield start


def test_a_server_knows_what_was_answered_before_it_started(
    client: TestClient, server: Callable[[], TestClient]
):
    asked = (("/runs", CASE), ("/patterns", pattern("p-restart")), ("/claims", ROWS["claims"]("c-restart")))
    first = [client.post(path, json=body, headers=keyed(f"before{path}")) for path, body in asked]
    assert [one.status_code for one in first] == [201] * 3
    later = server()
    again = [later.post(path, json=body, headers=keyed(f"before{path}")) for path, body in asked]
    assert [one.status_code for one in again] == [201] * 3
    assert [one.json() for one in again] == [one.json() for one in first]
    assert [one.headers["location"] for one in again] == [one.headers["location"] for one in first]
    assert later.post("/runs", json={**CASE, "folds": 4}, headers=keyed("before/runs")).status_code == 422


def test_an_api_key_is_in_no_database_even_for_a_day(client: TestClient, server: Callable[[], TestClient]):
    body = {"name": "kept", "scopes": "tell"}
    made = client.post("/keys", json=body, headers=keyed("secret")).json()["key"]
    with client.app.state.service.database.read() as transaction:  # type: ignore[attr-defined]
        assert made not in str(transaction.session.execute(text("SELECT * FROM idempotent_answers")).all())
    elsewhere = server().post("/keys", json=body, headers=keyed("secret"))
    assert (elsewhere.status_code, "rotate" in elsewhere.json()["detail"]) == (409, True)
    assert client.post("/keys", json=body, headers=keyed("secret")).json()["key"] == made


def test_of_one_request_to_two_servers_at_once_one_is_done(
    client: TestClient, server: Callable[[], TestClient], monkeypatch: pytest.MonkeyPatch
):
    both, work = (client, server()), threading.Semaphore(0)
    add_from: Any = vars(knowledge)["add_from"]

    def counted(*given: Any) -> Any:
        work.release()
        return add_from(*given)

    monkeypatch.setattr(knowledge, "add_from", counted)
    for turn in range(5):
        row = ROWS["strategies"](f"R08-both-{turn}")
        together = threading.Barrier(2)

        def send(one: TestClient, turn: int = turn, row: Any = row, gate: Any = together) -> int:
            gate.wait(60)
            return one.post("/strategies", json=row, headers=keyed(f"both-{turn}")).status_code

        with ThreadPoolExecutor(2) as pool:
            assert set(pool.map(send, both)) <= {201, 409}
        assert work.acquire(blocking=False)
        assert not work.acquire(blocking=False), "the work was done once"
        answers = [one.post("/strategies", json=row, headers=keyed(f"both-{turn}")) for one in both]
        assert [one.status_code for one in answers] == [201, 201]


def test_a_request_whose_server_died_may_be_sent_again(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    database = client.app.state.service.database  # type: ignore[attr-defined]
    assert idempotent_answers.claim(database, "", "lost", "digest-of-the-lost-one") is None
    row = ROWS["claims"]("c-lost")
    assert client.post("/claims", json=row, headers=keyed("lost")).status_code == 422
    monkeypatch.setattr(idempotent_answers, "UNFINISHED", dt.timedelta(0))
    assert client.post("/claims", json=row, headers=keyed("lost")).status_code == 201
    monkeypatch.setattr(idempotent_answers, "KEPT", dt.timedelta(0))
    assert client.post("/claims", json=ROWS["claims"]("c-day"), headers=keyed("lost")).status_code == 201


@pytest.mark.parametrize("table", ["competitions", "patterns", "models", "gpus", "strategies", "claims"])
def test_a_row_is_added_once(sqlite_client: TestClient, table: str):
    row = ROWS[table]()
    made = [sqlite_client.post(f"/{table}", json=row, headers=keyed(f"row-{table}")) for _ in range(3)]
    assert [one.status_code for one in made] == [201] * 3
    assert made[0].json() == made[2].json()
    assert sqlite_client.post(f"/{table}", json=row).status_code == 409


def test_keys_are_made_and_rotated_once(sqlite_client: TestClient):
    asked = {"name": "fleet", "scopes": "tell"}
    first, again = (sqlite_client.post("/keys", json=asked, headers=keyed("key-1")) for _ in range(2))
    assert first.status_code == 201
    assert first.json()["key"] == again.json()["key"]
    one, two = (sqlite_client.post("/keys/fleet/rotate", headers=keyed("key-2")) for _ in range(2))
    assert one.json()["key"] == two.json()["key"] != first.json()["key"]
    assert sqlite_client.post("/keys/fleet/rotate", headers=keyed("key-3")).json()["key"] != one.json()["key"]


def test_an_undo_is_done_once(sqlite_client: TestClient):
    sqlite_client.post("/patterns", json=pattern("p-undone"))
    for statement in ("It is A.", "It is B."):
        sqlite_client.patch("/patterns/p-undone", json={"statement": statement})
    entry = sqlite_client.get("/patterns/p-undone/history").json()["items"][0]["id"]
    undone = [
        sqlite_client.post("/patterns/p-undone/undo", json={"entry": entry}, headers=keyed("undo-1"))
        for _ in range(2)
    ]
    assert [one.status_code for one in undone] == [200, 200]
    assert undone[0].json() == undone[1].json()
    assert undone[0].json()["statement"] == "It is A."


def test_a_key_is_for_one_request(sqlite_client: TestClient):
    assert sqlite_client.post("/claims", json=ROWS["claims"]("c-1"), headers=keyed("k")).status_code == 201
    other = sqlite_client.post("/claims", json=ROWS["claims"]("c-2"), headers=keyed("k"))
    assert other.status_code == 422
    assert "was sent with another request" in other.json()["detail"]
    assert sqlite_client.get("/claims/c-2").status_code == 404
    no_key = sqlite_client.post("/claims", json=ROWS["claims"]("c-3"), headers={"Idempotency-Key": 'a"b'})
    assert no_key.status_code == 422


def test_what_was_refused_may_be_sent_again(sqlite_client: TestClient):
    wrong = ROWS["claims"]("c-4", value_min="many")
    assert sqlite_client.post("/claims", json=wrong, headers=keyed("c4")).status_code == 422
    assert sqlite_client.post("/claims", json=ROWS["claims"]("c-4"), headers=keyed("c4")).status_code == 201


def test_the_same_request_beside_itself_is_told_to_wait(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    inside, go_on = threading.Event(), threading.Event()
    add_from: Any = vars(knowledge)["add_from"]

    def slow(*given: Any) -> Any:
        inside.set()
        go_on.wait(60)
        return add_from(*given)

    monkeypatch.setattr(knowledge, "add_from", slow)
    row = ROWS["strategies"]("R08-slow")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sqlite_client.post, "/strategies", json=row, headers=keyed("slow"))
        assert inside.wait(60)
        beside = sqlite_client.post("/strategies", json=row, headers=keyed("slow"))
        go_on.set()
        assert beside.status_code == 409
        assert first.result().status_code == 201
    assert sqlite_client.post("/strategies", json=row, headers=keyed("slow")).json() == first.result().json()
