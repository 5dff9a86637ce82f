"""An accepted row never breaks an answer."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.proven_rows import NETWORK
from memory_service.errors import wrong_value
from memory_service.services.knowledge import profiling
from tests.api.odd_rows import (
    SHEET,
    bare_models,
    broken_answers,
    broken_by_corrections,
    broken_by_sheets,
    odd_models,
    odd_sheets,
    shipped_models,
)

TURNS = 8
"""`SEED` takes the other eighths of library x kind of input x task."""

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
    accepted, broken = broken_by_sheets(sqlite_client, islice(odd_sheets(random.Random(3)), 6))
    assert broken == []
    assert accepted >= 1


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("qwen1.5-14b", {"config": {"model_type": "qwen2", "figures": {"num_hidden_layers": "a"}}}, "config"),
        ("resnet50.a1_in1k", {"default_input_size": 10**9}, "default_input_size"),
        ("resnet50.a1_in1k", {"input_kind": "seq_len"}, "input_kind"),
        ("resnet50.a1_in1k", {"config": {"side_step": 0}}, "config"),
    ],
)
def test_a_correction_that_breaks_a_models_price_is_refused_by_its_field(
    sqlite_client: TestClient, name: str, changes: dict[str, Any], field: str
):
    answer = sqlite_client.patch(f"/models/{name}", json=changes | {"why": "a slip"})
    assert answer.status_code == 422
    assert field in {error["field"] for error in answer.json()["errors"]}
    assert sqlite_client.get(f"/predict?model={name}&gpu=a100").status_code == 200


def test_a_decoder_without_usual_sizes_breaks_no_plan(sqlite_client: TestClient):
    shown = sqlite_client.get("/models/qwen1.5-14b").json()
    config = {name: value for name, value in shown["config"].items() if name != "max_input_size"}
    changes = {"input_sizes": [], "config": config}
    assert sqlite_client.patch("/models/qwen1.5-14b", json=changes).status_code == 200
    asked = f"/recommend?task={shown['tasks'][0]}&size=small&gpu=a100&method=lora"
    assert sqlite_client.get(asked).status_code in (200, 422)


def test_corrected_models_break_no_answer(sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiling, "has_torch", lambda: False)  # tracing is of the long form
    corrections = islice(odd_models(shipped_models(sqlite_client), random.Random(3)), 5)
    accepted, broken = broken_by_corrections(sqlite_client, corrections, at_once=5)
    assert broken == []
    assert accepted >= 1


def test_models_of_which_little_is_said_are_answered_or_refused(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    def trace(name: str, function: object, *_: Any, **options: Any) -> Profile:
        if function is not profiling.profile_model:
            raise wrong_value("model", "is not known", name)
        size, kind = options["input_size"] or 32, name.split("-")[2]
        return replace(NETWORK, model=name, input_size=size, precision=options["precision"], input_kind=kind)  # type: ignore[arg-type]

    monkeypatch.setattr(profiling, "_in_child_process", trace)
    turn = int(os.environ.get("SEED", "0")) % TURNS
    rows = list(bare_models(random.Random(7)))[turn::TURNS]
    for row in rows:
        assert sqlite_client.post("/models", json=row).status_code == 201
    broken = [
        f"{path}: {answer.status_code} {answer.text[:200]}"
        for row in rows
        for path in (
            f"/predict?model={row['name']}&gpu=a100",
            f"/recommend?task={row['tasks'][0]}&size=small&gpu=a100&model={row['name']}",
        )
        for answer in [sqlite_client.get(path)]
        if answer.status_code not in (200, 422)
    ]
    for row in rows[:4]:
        broken += broken_answers(sqlite_client, "cpu", row["name"], row["tasks"][0])
    assert broken == []
