"""What a key may send to be stored on a day is bounded, over restarts and in all processes."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memory_service.domain.common.api_keys import parse
from memory_service.services.access import keyring as quotas
from tests.security.conftest import OUTSIDE, Answer, House
from tests.telling import at, case

CUSTOM = case(gpu="custom/card", model="custom/net")
AGENT = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def limited(
    house: House, other_house: House, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[House, House]]:
    """Two processes in which a key has ten events and 20 KB a day, and a key that used nothing yet."""
    for one in (house, other_house):
        monkeypatch.setattr(one.app.state.service.quotas, "_most", {"events": 10, "bytes": 20_000})
    house.key("worker", "read", "tell", "edit")
    yield house, other_house
    house.ask("DELETE", "/keys/worker", house.keys["admin"])


def tell(house: House, run_id: str, *seqs: int) -> Answer:
    events = [{"seq": n, "kind": "epoch", "at": at(60), "fold": 0, "epoch": n} for n in seqs]
    return house.ask("POST", f"/runs/{run_id}/events", house.keys["worker"], body={"events": events})


def log(house: House, run_id: str, text: bytes) -> Answer:
    key = {"authorization": f"Bearer {house.keys['worker']}"}
    assert house.client.portal is not None
    answer: Answer = house.client.portal.call(
        house._asked, "POST", f"/runs/{run_id}/log", key, text, OUTSIDE, "http"
    )
    return answer


def begun(house: House) -> str:
    run_id = str(uuid.uuid4())
    answer = house.ask("POST", "/runs", house.keys["worker"], body=CUSTOM | {"run_id": run_id})
    assert answer.status == 201, answer.text
    return run_id


def progress(house: House, run_id: str, seq: int) -> Any:
    return reported(house, run_id=run_id, event={"kind": "epoch", "seq": seq, "fold": 0, "epoch": seq})


def reported(house: House, tool: str = "report", **arguments: Any) -> Any:
    call = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return house.ask("POST", "/mcp", house.keys["worker"], body=body, headers=AGENT).json["result"]


def test_events_over_the_quota_are_refused_until_the_next_day(
    limited: tuple[House, House], monkeypatch: pytest.MonkeyPatch
):
    house, other = limited
    run_id = begun(house)
    assert tell(house, run_id, *range(6)).json["accepted"] == 6
    assert tell(house, run_id, *range(6)).json["accepted"] == 0, "sent again, they take no room"
    assert log(house, run_id, b"Epoch 1/3 loss=0.5\n").json["accepted"] == 1
    assert "isError" not in str(progress(house, run_id, 50)).replace("'isError': False", "")
    assert tell(other, run_id, *range(10, 16)).json["accepted"] == 6, "not known there yet"
    for one in limited * 2:
        one.app.state.service.quotas.write()
    for one in limited:
        refused = tell(one, run_id, 20)
        assert (refused.status, refused.json["type"].rpartition(":")[2]) == (429, "too-many-requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 86_400
        assert "MEMORY_DAILY_EVENTS" in refused.json["detail"]
        assert progress(one, run_id, 21)["isError"] is True
        assert one.ask("GET", f"/runs/{run_id}", one.keys["worker"]).status == 200, "reading goes on"
        assert one.ask("POST", "/runs", one.keys["tell"], body=CUSTOM).status in (200, 201), "and other keys"

    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    monkeypatch.setattr(quotas, "utc_now", lambda: tomorrow)
    assert tell(house, run_id, 22).json["accepted"] == 1


def test_bytes_over_the_quota_are_refused(limited: tuple[House, House]):
    house, other = limited
    row = {"id": "c-large", "statement": "x" * 21_000}
    assert house.ask("POST", "/claims", house.keys["worker"], body=row).status == 422
    refused = house.ask("POST", "/claims", house.keys["worker"], body=row)
    assert (refused.status, "MEMORY_DAILY_BYTES" in refused.json["detail"]) == (429, True)
    house.app.state.service.quotas.write()
    other.app.state.service.quotas.write()
    assert other.ask("POST", "/claims", house.keys["worker"], body=row).status == 429
    assert house.ask("POST", "/similar", house.keys["worker"], body={"text": "y" * 21_000}).status == 200
    assert house.ask("POST", "/claims", house.keys["edit"], body=row).status == 422


def test_the_history_of_edits_counts_and_taking_back_has_an_end_too(limited: tuple[House, House]):
    house, _ = limited
    other = house.key("another-editor", "edit")
    row = {"id": "c-much", "quantity": "batch", "statement": "much " * 150}
    assert house.ask("POST", "/claims", other, body=row).status == 201

    def refused_after(path: str, method: str, body: Callable[[int], Any]) -> int:
        for n in range(1_000):
            answer = house.ask(method, path, house.keys["worker"], body=body(n))
            if answer.status == 429:
                return n
            assert answer.status == 200, answer.text
        return 1_000

    def latest(_: int) -> dict[str, Any]:
        entries = house.ask("GET", "/claims/c-much/history?limit=1", house.keys["worker"]).json
        return {"entry": entries["items"][0]["id"]}

    changes = refused_after("/claims/c-much", "PATCH", lambda n: {"unit": f"u{n}"})
    assert 5 < changes < 20, "each takes two kilobytes, sent in twenty bytes"
    undone = refused_after("/claims/c-much/undo", "POST", latest)
    assert changes <= undone < 3 * changes, "all can be taken back; not again and again"
    refused = house.ask("DELETE", "/claims/c-much", house.keys["worker"])
    assert refused.status == 429
    said = "may store 20000 bytes a day (MEMORY_DAILY_BYTES), and three times that to take back; "
    assert said in refused.json["detail"]
    assert house.ask("POST", "/claims/c-much/undo", other, body=latest(0)).status == 200
    assert house.ask("DELETE", "/claims/c-much", other).status == 204


def test_a_run_that_an_agent_begins_takes_as_much_of_the_quota(limited: tuple[House, House]):
    house, _ = limited
    facts = {name: value for name, value in CUSTOM.items() if name != "run_id"}
    for _ in range(2):
        assert not reported(house, run=facts).get("isError")
    refused = reported(house, run=facts)
    assert "MEMORY_DAILY_BYTES" in refused["content"][0]["text"]
    wrong = reported(house, "remember", exclude={"run_id": str(uuid.uuid4()), "why": "it leaks"})
    assert "There is no run" in wrong["content"][0]["text"], "taking back has room of its own"


def test_a_spent_quota_blocks_no_key_no_deletion_and_no_undo(house: House, monkeypatch: pytest.MonkeyPatch):
    admin = house.keys["admin"]
    assert house.ask("POST", "/keys", admin, body={"name": "leaked", "scopes": ["read"]}).status == 201
    kept, known = house.app.state.service.quotas, parse(admin)
    assert known is not None
    used = kept._bytes[known.id] + kept._stored.get(known.id, (0, 0))[1]
    monkeypatch.setattr(kept, "_most", {"events": 0, "bytes": used})
    row = {"tdp_w": 401.0, "why": "as its sheet says"}
    assert house.ask("PATCH", "/gpus/a100", admin, body=row).status == 429
    assert house.ask("POST", "/keys/leaked/rotate", admin).status in (200, 201)
    assert house.ask("DELETE", "/keys/leaked", admin).status in (200, 204)
    for method, path in (
        ("DELETE", "/patterns/none"),
        ("POST", "/gpus/a100/undo"),
        ("POST", "/runs/x/exclude"),
    ):
        assert house.ask(method, path, admin, body={"entry": 1}).status in (404, 422)
    for path in ("/browse/undo/gpus/a100", "/browse/runs/x/restore"):
        assert house.ask("POST", path, admin, form={"entry": "1"}).status in (404, 422), path
    assert house.ask("POST", "/browse/edit/gpus/a100", admin, form={"tdp_w": "401"}).status == 429
