"""Over HTTP, as a training script would: do runs that were told change the next answer, and only as they
should?"""

from __future__ import annotations

import uuid
from typing import Any

from fastapi.testclient import TestClient

from tests.api.test_calibrations import posted
from tests.telling import at, case, epochs

OF_BATCH = 128
FAMILY = ("resnet18", "resnet34", "resnet50")


def device(client: TestClient) -> str:
    """A new A100 that reported a calibration; its name."""
    name = f"box-{uuid.uuid4().hex[:8]}"
    made = client.post("/calibrations", json=posted(name))
    assert made.status_code == 201, made.text
    return name


def step_seconds(client: TestClient, gpu: str, model: str = "resnet50", **asked: Any) -> float:
    query = {"model": model, "gpu": gpu, "precision": "bf16", "batch_size": OF_BATCH, **asked}
    answer = client.get("/predict", params=query)
    assert answer.status_code == 200, answer.text
    return float(answer.json()["step_seconds"]["value"])


def ran(client: TestClient, gpu: str, status: str = "completed", **changed: Any) -> dict[str, Any]:
    """Tell a whole run: begin, four epochs where `step` says how long one took, finish on a day of March."""
    step, day = changed.pop("step", None), changed.pop("day", 1)
    body = case(gpu=gpu, started_at=on(at(0), day), **changed)
    begun = client.post("/runs", json=body)
    assert begun.status_code == 201, begun.text
    run = begun.json()["run_id"]
    if step is not None:
        events = [{**event, "at": on(event["at"], day)} for event in epochs(step)]
        told = client.post(f"/runs/{run}/events", json={"events": events})
        assert told.status_code == 200, told.text
    ended = client.post(f"/runs/{run}/finish", json={"status": status, "at": on(at(600), day)})
    assert ended.status_code == 200, ended.text
    return dict(ended.json())


def on(moment: str, day: int) -> str:
    return moment.replace("03-01", f"03-{day:02d}")


def plan(client: TestClient, gpu: str, **asked: Any) -> dict[str, Any]:
    query = {"task": "image", "gpu": gpu, "n_train": 60_000, "minutes": 120, **asked}
    answer = client.get("/recommend", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_three_runs_30_percent_slower_bring_the_next_within_5_percent(client: TestClient) -> None:
    gpu = device(client)
    truth = {model: 1.3 * step_seconds(client, gpu, model) for model in (*FAMILY, "resnet101")}
    pinned = {"model": "resnet101", "batch_size": OF_BATCH, "image_size": 224, "precision": "bf16"}
    for model in FAMILY:
        ran(client, gpu, model=model, step=truth[model])
    for model, seconds in truth.items():
        assert abs(step_seconds(client, gpu, model) / seconds - 1) < 0.05, model
    expected = plan(client, gpu, **pinned)["expected"]["samples_per_second"]
    assert abs(expected["value"] * truth["resnet101"] / OF_BATCH - 1) < 0.05
    assert expected["n"] == 3
    assert gpu in expected["basis"]


def test_an_out_of_memory_at_96_bounds_the_plans_until_a_run_there_finishes(client: TestClient) -> None:
    gpu = device(client)
    asked = {"model": "resnet50", "image_size": 224, "precision": "bf16"}
    assert plan(client, gpu, **asked)["batch_size"] >= 96
    ran(client, gpu, "out_of_memory", batch_size=96)
    for objective in ("fast", "balanced", "quality"):
        answer = plan(client, gpu, **asked, objective=objective, detail="full")
        for entry in (answer, *answer["alternatives"]):
            assert entry["batch_size"] < 96
    refused = plan(client, gpu, **asked, batch_size=96)
    assert refused["feasible"] is False
    assert f"96 on {gpu}" in refused["why"]
    assert refused["closest"]["plan"]["batch_size"] < 96
    listed = client.get("/conflicts", params={"device": gpu, "quantity": "feasible_batch"}).json()["items"]
    assert [row["uses"]["value"] for row in listed] == [95]
    ran(client, gpu, batch_size=96, step=0.05, day=2)
    assert plan(client, gpu, **asked, batch_size=96)["feasible"] is True


def test_a_run_a_hundred_times_slower_moves_nothing_and_says_why(client: TestClient) -> None:
    gpu = device(client)
    before, planned = step_seconds(client, gpu), plan(client, gpu)
    run = ran(client, gpu, step=100 * before)
    assert run["excluded"] == "implausible"
    assert any("over 20 times" in one for one in run["learned"])
    assert abs(step_seconds(client, gpu) / before - 1) < 0.01
    after = plan(client, gpu)
    apart = {"gpu": None, "knowledge_revision": None}
    assert {**after, **apart} == {**planned, **apart}
