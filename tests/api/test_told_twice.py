"""With an Idempotency-Key, what makes something new makes it once, however often it is told."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_service.api.routes import knowledge
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
    sqlite_client.app.state.service.told._answers.clear()  # type: ignore[attr-defined]  # as after a restart
    after = sqlite_client.post("/runs", json=CASE, headers=keyed("run-1"))
    assert (after.status_code, after.json()["run_id"]) == (200, first.json()["run_id"])


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


def test_what_was_refused_may_be_told_anew(sqlite_client: TestClient):
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
