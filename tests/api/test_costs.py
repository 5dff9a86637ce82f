"""What one caller may cost is bounded before the work begins, or ended; the others are answered meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_service.services.knowledge import profiling
from memory_service.services.review import review
from tests.store.fakes import model

PYTHON = {"Content-Type": "text/x-python"}


def transformer(name: str, **figures: Any) -> dict[str, Any]:
    config = {"model_type": "bert", "figures": {"hidden_size": 64, "num_attention_heads": 2, **figures}}
    return model(name, library="transformers", input_kind="seq_len", default_input_size=32, config=config)


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"num_hidden_layers": 300}, "num_hidden_layers must be between 1 and 128"),
        ({"vocab_size": 10**9}, "vocab_size must be between 1 and 2000000"),
        ({"backbone": "resnet50"}, "Unknown figure 'backbone'"),
        ({"use_pretrained_backbone": True}, "Unknown figure 'use_pretrained_backbone'"),
        ({"timm_model_name": "resnet50"}, "Unknown figure 'timm_model_name'"),
        ({"hidden_act": "../../weights"}, "hidden_act must be a plain word"),
        ({"layer_types": ["full"] * 300}, "holds more than 256 values"),
        ({"hidden_size": {"a": 1}}, "figures are numbers, words and short lists"),
    ],
)
def test_a_model_of_any_size_or_origin_is_refused(
    sqlite_client: TestClient, figures: dict[str, Any], why: str
):
    refused = sqlite_client.post("/models", json=transformer("zz-net", **figures))
    assert refused.status_code == 422
    assert why in refused.text
    patched = sqlite_client.patch(
        "/models/bert-base-uncased", json={"config": transformer("x", **figures)["config"]}
    )
    assert patched.status_code == 422


def test_a_trace_that_takes_too_long_is_ended_and_not_tried_again(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    assert (
        sqlite_client.post("/models", json=transformer("zz-slow", num_hidden_layers=128)).status_code == 201
    )
    asked = {"model": "zz-slow", "seq_len": 32, "gpu": "a100"}
    monkeypatch.setattr(profiling.TRACING, "seconds", 0.05)
    refused = sqlite_client.get("/predict", params=asked)
    assert refused.status_code == 422
    assert "took over 0.05 s" in refused.text
    monkeypatch.undo()
    assert "took over 0.05 s" in sqlite_client.get("/predict", params=asked).text
    assert sqlite_client.post("/models", json=transformer("zz-quick", num_hidden_layers=2)).status_code == 201
    assert sqlite_client.get("/predict", params=asked | {"model": "zz-quick"}).status_code == 200


def test_a_review_that_takes_too_long_is_ended_and_says_so(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    script = b"import torch\nprint(torch.ones(2))\n"
    assert sqlite_client.post("/review", content=script, headers=PYTHON).json()["ok"]
    monkeypatch.setattr(review._APART, "seconds", 0.0001)
    ended = sqlite_client.post("/review", content=script * 20_000, headers=PYTHON)
    assert ended.status_code == 200
    assert "every rule: reading the script took over" in ended.json()["not_checked"][0]
    monkeypatch.undo()
    assert sqlite_client.post("/review", content=script, headers=PYTHON).json()["not_checked"] == []
