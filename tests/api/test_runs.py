"""Are runs begun, told, ended, listed and scored over HTTP as docs/http.md says, on both databases?"""

from __future__ import annotations

import csv
import io
import json
import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from tests.telling import at, case, epochs


def begin(client: TestClient, **changed: Any) -> str:
    answer = client.post("/runs", json=case(**changed))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


def tell(client: TestClient, run_id: str, events: Any) -> Any:
    return client.post(f"/runs/{run_id}/events", json={"events": events})


def counted(answer: Any) -> dict[str, Any]:
    """What was taken, without the verdict."""
    return {name: value for name, value in answer.json().items() if name != "verdict"}


def test_a_run_from_its_beginning_to_its_score(client: TestClient):
    body = case(gpu="a100-80gb")
    begun = client.post("/runs", json=body)
    assert begun.status_code == 201
    assert begun.headers["location"] == f"/runs/{body['run_id']}"
    again = client.post("/runs", json=body)
    assert (again.status_code, again.json()) == (200, begun.json())
    assert client.post("/runs", json=body | {"minutes": 31}).status_code == 409
    step = 1.1 * begun.json()["prediction"]["step_seconds"]["value"]
    events = epochs(step, peak_allocated_gib=5.5)
    assert counted(tell(client, body["run_id"], events)) == {
        "accepted": 4,
        "duplicates": 0,
        "differing": [],
        "ignored": [],
    }
    running = client.get(begun.headers["location"]).json()
    assert (running["status"], running["outcome"]["epochs_done"]) == ("running", 4)
    end = {"status": "completed", "best_metric": 0.91, "submission": True, "at": at(700)}
    ended = client.post(f"/runs/{body['run_id']}/finish", json=end)
    assert ended.status_code == 200
    assert client.get(begun.headers["location"]).json() == ended.json()
    speed = next(c for c in ended.json()["comparison"] if c["quantity"] == "samples_per_second")
    assert speed["error_percent"] == pytest.approx(10.0, abs=0.2)
    assert speed["inside"]
    assert client.get("/accuracy?gpu=a100-80gb&days=1").json()["runs"]["ended"] == 0, "it was long ago"
    scored = client.get("/accuracy?gpu=a100-80gb&days=36500").json()
    assert scored["runs"]["scored"] == 1
    (mine,) = [s for s in scored["overall"] if s["quantity"] == "samples_per_second"]
    assert (mine["n"], mine["median_percent"]) == (1, pytest.approx(10.0, abs=0.2))
    assert [group["name"] for group in scored["by_family"]] == ["resnet"]


def test_a_trial_run_where_its_card_is_not_seen_is_told_of_and_not_scored_for_speed(client: TestClient):
    run_id = begin(client, gpu="p100", precision="fp32", host={"gpu_seen": False})
    tell(client, run_id, epochs(0.5))
    client.post(f"/runs/{run_id}/finish", json={"status": "completed", "at": at(700)})
    assert client.get(f"/runs/{run_id}").json()["excluded"] == "no_card"
    page = client.get("/browse/accuracy?gpu=p100")
    assert page.status_code == 200
    assert "where its GPU was not seen" in page.text
    late = begin(client, gpu="p100", precision="fp32")
    tell(client, late, epochs(3.0))
    client.post(f"/runs/{late}/finish", json={"status": "completed", "at": at(1)})
    assert client.get(f"/runs/{late}").json()["excluded"] == "late"
    assert "reported after the fact" in client.get("/browse/accuracy?gpu=p100").text


def test_nothing_to_score_is_an_answer(client: TestClient):
    answer = client.get("/accuracy?device=nobody")
    assert answer.status_code == 200
    assert answer.json()["overall"] == answer.json()["by_device"] == []
    assert answer.json()["runs"] == {
        "ended": 0, "scored": 0, "without_prediction": 0, "excluded": {}, "nothing_measured": 0,
    }  # fmt: skip


def test_the_list_is_narrowed_paged_and_written_as_a_file(client: TestClient):
    plan = uuid.uuid4().hex
    made = {begin(client, plan_id=plan, batch_size=size) for size in (16, 32, 64)}
    rows = client.get("/runs", params={"plan_id": plan, "sort": "-batch_size", "limit": 2}).json()
    assert [row["batch_size"] for row in rows["items"]] == [64, 32]
    rest = client.get(
        "/runs", params={"plan_id": plan, "sort": "-batch_size", "limit": 2, "cursor": rows["next"]}
    ).json()
    assert [row["batch_size"] for row in rest["items"]] == [16]
    lines = client.get(f"/runs?plan_id={plan}&format=jsonl").text.splitlines()
    assert {json.loads(line)["id"] for line in lines} == made
    table = list(csv.DictReader(io.StringIO(client.get(f"/runs?plan_id={plan}&format=csv").text)))
    assert {row["id"] for row in table} == made
    assert client.get("/runs?status=finished").json()["errors"][0]["field"] == "status"
    assert client.get("/runs?modle=x").json()["errors"][0]["nearest"][0] == "model"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpu": "a101"}, "gpu"),
        ({"model": "resnet5o"}, "model"),
        ({"task": "imag"}, "task"),
        ({"competition": "never-heard-of"}, "competition"),
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": 10**9}, "epochs"),
        ({"minutes": -1}, "minutes"),
        ({"minutes": 1e300}, "minutes"),
        ({"n_train": 2.5}, "n_train"),
        ({"precision": "fp12"}, "precision"),
        ({"run_id": "one"}, "run_id"),
        ({"started_at": "9999-12-31T23:59:59-23:59"}, "started_at"),
        ({"seq_len": 128}, "seq_len"),
        ({"batchsize": 8}, "batchsize"),
        ({"host": {"a": [[[[[[[[[1]]]]]]]]]}}, "host"),
    ],
)
def test_what_cannot_begin_a_run_is_refused_by_name(client: TestClient, change: dict[str, Any], field: str):
    answer = client.post("/runs", json=case() | change)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_events_that_cannot_be_are_refused_and_none_is_kept(client: TestClient):
    run_id = begin(client)
    good = epochs(0.1)
    for wrong, field in (
        ([*good, {"seq": 9, "kind": "epoch", "at": at(1), "seconds": -5}], "events.4.seconds"),
        ([{**good[0], "kind": "epok"}], "events.0.kind"),
        ([good[0], 7], "events.1"),
        ([{"kind": "gpu", "at": at(1)}], "events.0.seq"),
        ([{"seq": 1, "kind": "gpu", "at": at(1), "used_gb": 1}], "events.0.used_gb"),
        ([{"seq": 1, "kind": "gpu", "at": at(1), "used_gib": "nan"}], "events.0.used_gib"),
        ([{"seq": 1, "kind": "note", "at": at(1), "text": "\x00"}], ""),
        (good * 1251, "events"),
    ):
        answer = tell(client, run_id, wrong)
        assert answer.status_code == 422, (wrong, answer.text)
        assert field in [error["field"] for error in answer.json()["errors"]] or not field
    assert client.post(f"/runs/{run_id}/events", json=[]).status_code == 422
    assert client.post(f"/runs/{run_id}/events", json={"event": []}).status_code == 422
    assert client.post(f"/runs/{run_id}/events", content=b"{").status_code == 400
    assert client.post(f"/runs/{run_id}/events", content=b'{"events": [' + b" " * 2**22).status_code == 413
    assert client.get(f"/runs/{run_id}").json()["outcome"]["events"] == {}
    assert counted(tell(client, run_id, [])) == {
        "accepted": 0,
        "duplicates": 0,
        "differing": [],
        "ignored": [],
    }


def test_a_literal_nan_is_taken_where_a_loss_may_be_one(client: TestClient):
    run_id = begin(client)
    event = '{"events": [{"seq": 0, "kind": "epoch", "at": "2026-03-01T12:00:00Z", "train_loss": NaN, '
    event += '"metric": -Infinity%s}]}'
    assert client.post(f"/runs/{run_id}/events", content=event % "").json()["accepted"] == 1
    (kept,) = client.get(f"/runs/{run_id}").json()["outcome"]["epochs"]
    assert (kept["train_loss"], kept["metric"]) == ("nan", "-inf")
    refused = client.post(f"/runs/{run_id}/events", content=event % ', "seconds": NaN')
    assert refused.json()["errors"][0]["field"] == "events.0.seconds"
    twice = client.post(f"/runs/{run_id}/events", content=event % ', "metric": 1')
    assert twice.json()["errors"][0]["field"] == "metric"


def test_thousands_of_events_in_one_request(client: TestClient):
    run_id = begin(client)
    events = [{"seq": n, "kind": "gpu", "at": at(n % 3000), "used_gib": n / 1000} for n in range(5000)]
    assert tell(client, run_id, events).json()["accepted"] == 5000
    assert tell(client, run_id, events[::-1]).json()["duplicates"] == 5000


@pytest.mark.parametrize("path", ["", "/events", "/finish"])
def test_a_run_that_nobody_began_is_404(client: TestClient, path: str):
    for run_id in (str(uuid.uuid4()), "nonsense", "%00"):
        at_path = f"/runs/{run_id}{path}"
        body = {"/events": {"events": []}, "/finish": {"status": "stopped"}}.get(path)
        answer = client.get(at_path) if body is None else client.post(at_path, json=body)
        assert answer.status_code == 404, answer.text


def test_a_full_disk_is_told_and_service_resumes(sqlite_client: TestClient):
    run_id = begin(sqlite_client)
    database = sqlite_client.app.state.service.database  # type: ignore[attr-defined]
    events = [{"seq": n, "kind": "note", "at": at(n), "text": "x" * 10_000} for n in range(200)]
    assert tell(sqlite_client, run_id, events[:1]).status_code == 200
    with database.engine.connect() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar()

    def limit(most: int) -> None:
        from sqlalchemy import event

        def connected(connection: Any, _record: Any) -> None:
            connection.execute(f"PRAGMA max_page_count = {most}")

        event.listen(database.engine, "connect", connected)
        database.close()

    limit(pages + 2)
    refused = tell(sqlite_client, run_id, events)
    assert refused.status_code == 507, refused.text
    assert refused.json()["type"].endswith(":out-of-space")
    assert sqlite_client.get(f"/runs/{run_id}").json()["outcome"]["events"] == {"note": 1}
    limit(2**31 - 2)
    assert counted(tell(sqlite_client, run_id, events)) == {
        "accepted": 199,
        "duplicates": 1,
        "differing": [],
        "ignored": [],
    }
