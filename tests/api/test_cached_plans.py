"""A plan asked for in the same words again is answered without routing, and is never an old one."""

from __future__ import annotations

import threading
from typing import Any, cast

import anyio
import pytest
from fastapi.testclient import TestClient

from memory_service.api.fast_paths import SharedReads
from memory_service.api.routes import planning
from memory_service.errors import Unavailable
from memory_service.services.access.keys import create_key

QUESTION = "/recommend?task=image&size=medium&gpu=a100&minutes=41"


def test_the_same_words_again_are_answered_from_the_cache(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = 'memory_service_requests_total{method="GET",route="/recommend",status="200"}'

    def answered() -> float:
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(counted)), 0.0)

    first = client.get(QUESTION)
    before = answered()
    monkeypatch.setattr(planning, "recommend_json", None)  # who asks the route now fails
    again = client.get(QUESTION)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers.keys() == first.headers.keys()
    assert client.head(QUESTION).headers["content-length"] == str(len(first.content))
    assert answered() == before + 1, "HEAD is counted as such"


def test_after_a_correction_the_same_words_have_a_new_answer(client: TestClient) -> None:
    first = client.get(QUESTION).json()
    changed = client.patch("/gpus/l4", json={"usable_gib": 21.0, "who": "test", "why": "a shared card"})
    assert changed.status_code == 200, changed.text
    again = client.get(QUESTION).json()
    assert again["knowledge_revision"] > first["knowledge_revision"]


def test_other_forms_of_a_cached_plan_and_what_is_refused_are_the_routes(sqlite_client: TestClient) -> None:
    sqlite_client.get(QUESTION)
    assert sqlite_client.get(QUESTION, headers={"Accept": "text/markdown"}).text.startswith("**plan-")
    assert sqlite_client.get(QUESTION, headers={"Accept": "image/png"}).status_code == 406


def test_a_cached_plan_is_for_those_who_may_ask(sqlite_client: TestClient) -> None:
    sqlite_client.get(QUESTION)
    database = sqlite_client.app.state.service.database  # type: ignore[attr-defined]
    answers = [
        sqlite_client.get(QUESTION, headers={"Authorization": f"Bearer {create_key(database, *key)['key']}"})
        for key in (("who reads", ["read"]), ("who tells", ["tell"]))
    ]
    assert [answer.status_code for answer in answers] == [200, 403]
    assert sqlite_client.get(QUESTION, headers={"X-API-Key": "msk_none"}).status_code == 401


LIMITS = ("open", "family", "blind")


@pytest.mark.parametrize("order", [LIMITS, LIMITS[::-1]])
def test_no_cache_answers_a_key_with_what_its_limit_forbids_or_withholds_what_it_allows(
    sqlite_client: TestClient, order: tuple[str, ...]
) -> None:
    database = sqlite_client.app.state.service.database  # type: ignore[attr-defined]
    asked = f"{QUESTION}.{len(order[0])}&competition=aptos2019-blindness-detection"
    given: dict[str, Any] = {}
    for limit in order:
        scopes = ["read"] if limit == "open" else ["read", limit]
        key = {"Authorization": f"Bearer {create_key(database, f'{limit} of {order[0]}', scopes)['key']}"}
        given[limit] = sqlite_client.get(asked, headers=key)
        told = sqlite_client.get(f"{asked}&mode={limit}", headers=key).json()
        assert given[limit].json()["recipe"] == told["recipe"], "as if it had asked for its mode"
        assert sqlite_client.get(asked, headers=key).content == given[limit].content, "cached for it"
        for other, answer in given.items():
            again = sqlite_client.get(f"/plans/{answer.json()['plan_id']}", headers=key)
            same = [
                LIMITS.index(of) for of, plan in given.items() if plan.json()["plan_id"] in again.url.path
            ]
            allowed = max(same) >= LIMITS.index(limit)
            assert again.status_code == (200 if allowed else 404), (limit, other)
    assert given["blind"].json()["recipe"] is None
    assert given["open"].json()["recipe"] is not None
    assert len({answer.content for answer in given.values()}) == 3


class _Database:
    """Its revision rises with each read, which takes until the gate is open."""

    def __init__(self) -> None:
        self.revision, self.began, self.gate = 0, threading.Event(), threading.Event()
        self.away = False

    def knowledge_revision(self) -> int:
        self.revision += 1
        found = self.revision
        self.began.set()
        assert self.gate.wait(60)
        if self.away:
            raise Unavailable("the database did not answer")
        return found


def test_who_comes_during_a_read_shares_the_next_one() -> None:
    database = _Database()
    reads = SharedReads(cast("Any", database))
    found: dict[str, int] = {}

    async def ask(name: str) -> None:
        found[name] = await reads.revision()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "first")
            await anyio.to_thread.run_sync(database.began.wait)
            for name in ("second", "third", "fourth"):
                group.start_soon(ask, name)
            await anyio.sleep(0)
            database.gate.set()
        assert await reads.revision() == 3

    anyio.run(main)
    assert found == {"first": 1, "second": 2, "third": 2, "fourth": 2}


def test_a_read_that_fails_fails_for_all_who_wait_and_for_nobody_later() -> None:
    database = _Database()
    database.gate.set()
    reads = SharedReads(cast("Any", database))

    async def main() -> None:
        database.away = True
        with pytest.raises(Unavailable):
            await reads.revision()
        database.away = False
        assert await reads.revision() == 2

    anyio.run(main)
