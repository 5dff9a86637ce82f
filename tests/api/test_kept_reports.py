"""What a run reported is acknowledged and shown whatever its figures are."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_service.services.runs import verdicts
from tests.telling import at, case

MEMORY = {"kind": "gpu", "used_gib": 30.0, "utilization_percent": 90.0}


def begun(client: TestClient, **changed: Any) -> str:
    body = case(**changed)
    assert client.post("/runs", json=body).status_code == 201
    return str(body["run_id"])


def report(client: TestClient, run_id: str, *events: dict[str, Any]) -> Any:
    sent = [{"seq": n, "at": at(10), **event} for n, event in enumerate(events)]
    return client.post(f"/runs/{run_id}/events", json={"events": sent})


@pytest.mark.parametrize("tiny", [0, 5e-324, 1e-9])
def test_a_card_without_memory_is_refused(sqlite_client: TestClient, tiny: float):
    run_id = begun(sqlite_client, gpu="custom/card", model="custom/net")
    refused = report(sqlite_client, run_id, MEMORY | {"total_gib": tiny})
    assert refused.status_code == 422
    assert "total_gib" in refused.text


def test_events_that_cannot_be_judged_are_kept_and_acknowledged(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    run_id = begun(sqlite_client)
    assert report(sqlite_client, run_id, MEMORY).json()["verdict"]["action"]

    def broken(_: Any) -> Any:
        raise ZeroDivisionError("a figure nobody thought of")

    monkeypatch.setattr(verdicts, "verdict", broken)
    monkeypatch.setattr(verdicts, "live_view", broken)
    with caplog.at_level(logging.ERROR):
        taken = sqlite_client.post(
            f"/runs/{run_id}/events",
            json={"events": [{"seq": 9, "at": at(60), "kind": "note", "text": "hello"}]},
        )
    assert taken.status_code == 200
    assert (taken.json()["accepted"], taken.json()["verdict"]) == (1, None)
    assert f"run {run_id} cannot be judged" in caplog.text
    asked = sqlite_client.get(f"/runs/{run_id}/verdict")
    assert (asked.status_code, asked.json()) == (200, None)
    page = sqlite_client.get(f"/runs/{run_id}").json()
    assert (page["verdict"], page["watch"]) == (None, None)
    assert sqlite_client.get(f"/browse/runs/{run_id}").status_code == 200
    assert sqlite_client.get("/browse/runs").status_code == 200
    log = sqlite_client.post(f"/runs/{run_id}/log", content=b"Epoch 1/3 loss 0.5\n")
    assert (log.status_code, log.json()["verdict"]) == (200, None)
    assert sqlite_client.post(f"/runs/{run_id}/finish", json={"status": "completed"}).status_code == 200
    monkeypatch.undo()
    assert sqlite_client.get(f"/runs/{run_id}/verdict").json()["action"]


def test_an_unknown_run_is_still_not_found(sqlite_client: TestClient):
    assert sqlite_client.get(f"/runs/{uuid.uuid4()}/verdict").status_code == 404
