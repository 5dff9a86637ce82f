"""An accepted row never breaks an answer; `python -m benchmarks.accepted_rows 3000` asks for more of them."""

from __future__ import annotations

import random

import pytest
from fastapi.testclient import TestClient

from benchmarks.accepted_rows import SHEET, bare_models, broken_answers, broken_by_sheets

BEYOND = {
    "tdp_w": 0, "tflops": {"fp32": 5e-324}, "bandwidth_gb_s": 1e-9, "memory_gib": 1e-12,
    "compute_capability": 0.0, "extra": {"cores": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_a_figure_that_no_card_has_is_refused_by_its_name(sqlite_client: TestClient, name: str):
    refused = sqlite_client.patch("/gpus/a100", json={name: BEYOND[name], "why": "a slip"})
    assert refused.status_code == 422
    assert any(error["field"].startswith(name) for error in refused.json()["errors"])
    assert sqlite_client.get("/predict?model=resnet50&gpu=a100").status_code == 200


def test_cards_at_the_bounds_are_priced_shown_and_run(sqlite_client: TestClient):
    assert sqlite_client.post("/gpus", json={**SHEET, "slug": "zz-usual"}).status_code == 201
    accepted, broken = broken_by_sheets(sqlite_client, 6, random.Random(3))
    assert broken == []
    assert accepted >= 1


def test_models_of_which_little_is_said_are_answered_or_refused(sqlite_client: TestClient):
    rows = list(bare_models(6, random.Random(7)))
    added = [sqlite_client.post("/models", json=row).status_code for row in rows]
    assert set(added) == {201}
    broken = [
        one for row in rows for one in broken_answers(sqlite_client, "a100", row["name"], row["tasks"][0])
    ]
    assert broken == []
