"""Does a refusal tell an agent what was wrong, in which field, what was given and what would be right?"""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Agent

NO_RUN = "00000000-0000-4000-8000-000000000000"

REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("recommend_plan", {"task": "imagx", "gpu": "a100"}, ["task: unknown task", "'imagx'", "nearest: image"]),
    ("recommend_plan", {"task": "image", "gpu": "a1000"}, ["gpu: unknown gpu", "'a1000'", "nearest: a100"]),
    ("recommend_plan", {"task": "image"}, ["gpu: choose a GPU"]),
    (
        "recommend_plan",
        {"task": "image", "gpu": "t4", "minutes": -3},
        ["minutes: must be over 0", "given: -3"],
    ),
    (
        "recommend_plan",
        {"task": "image", "gpu": "t4", "minutes": "soon"},
        ["minutes: must be a number", "'soon'"],
    ),
    ("recommend_plan", {"task": "image", "gpu": "t4", "minutes": "30 min"}, ["minutes: must be a number"]),
    ("recommend_plan", {"task": "image", "gpu": "t4", "folds": "2.5"}, ["folds: must be a whole number"]),
    ("recommend_plan", {"task": "image", "gpu": "none"}, ["'none'", "say `cpu`", "nearest: cpu"]),
    ("recommend_plan", {"task": "image", "gpu": "No GPU"}, ["nearest: cpu"]),
    ("recommend_plan", {"task": "image", "gpu": "t4", "batchsize": 8}, ["batchsize: unknown", "batch_size"]),
    (
        "recommend_plan",
        {"task": "image", "gpu": "t4", "form": "yaml"},
        ["form: must be 'plan', 'text' or 'script'"],
    ),
    ("recommend_plan", {"task": "image", "gpu": "t4", "description": "\x00"}, ["description", "NUL"]),
    ("recommend_plan", {"task": "image", "gpu": "t4", "minutes": 0.5, "form": "script"}, ["no-script"]),
    ("recommend_plan", {"task": "image-to-image", "gpu": "t4", "form": "script"}, ["image-classification"]),
    ("find_similar_competitions", {}, ["give either text or competition"]),
    ("find_similar_competitions", {"text": "dogs", "limit": 10**6}, ["limit", "at most 100"]),
    ("find_similar_competitions", {"competition": "dog-bred"}, ["not-found"]),
    ("predict_fit", {"model": "resnet50", "gpu": "a1000"}, ["gpu: unknown gpu", "nearest: a100"]),
    ("predict_fit", {"model": "resnet50"}, ["gpu"]),
    (
        "predict_fit",
        {"model": "resnet50", "gpu": "a100", "batch_size": 0},
        ["batch_size: must be at least 1"],
    ),
    ("review_script", {"gpu": "a100"}, ["script"]),
    ("review_script", {"script": "x = 1", "minutes": -1}, ["minutes: must be over 0", "given: -1"]),
    ("review_script", {"script": "x" * (2**20 + 1)}, ["a script of at most 1048576 bytes is reviewed"]),
    ("start_run", {"gpu": "t4"}, ["task: is required", "model: is required"]),
    ("start_run", {"plan_id": "plan-0000"}, ["plan-0000 is not known here", "`plan`"]),
    ("start_run", {"task": "image", "gpu": "t4", "model": "resnet18", "folds": 0}, ["folds", "given: 0"]),
    (
        "start_run",
        {"task": "image", "gpu": "t4", "model": "resnet18", "epoch": 3},
        ["epoch: unknown", "epochs"],
    ),
    (
        "start_run",
        {"run_id": "mine", "task": "image", "gpu": "t4", "model": "resnet18"},
        ["run_id", "a UUID"],
    ),
    ("start_run", {"task": "image", "gpu": "t4", "model": "my net"}, ["unknown model", "custom/NAME"]),
    ("report_progress", {"kind": "epoch"}, ["run_id: is required"]),
    ("report_progress", {"run_id": NO_RUN, "kind": "epoch"}, ["not-found", NO_RUN]),
    ("report_progress", {"run_id": NO_RUN, "kind": "epch"}, ["kind: must be one of", "nearest: epoch"]),
    (
        "report_progress",
        {"run_id": NO_RUN, "kind": "epoch", "loss": 1.0},
        ["loss: is no field", "train_loss"],
    ),
    (
        "report_progress",
        {"run_id": NO_RUN, "kind": "gpu", "memory_percent": 400},
        ["memory_percent", "given: 400"],
    ),
    ("finish_run", {"status": "completed"}, ["run_id: is required"]),
    ("finish_run", {"run_id": NO_RUN, "status": "done"}, ["status", "'completed'", "'done'"]),
    ("finish_run", {"run_id": NO_RUN, "status": "completed"}, ["not-found"]),
    ("remember_competition", {"slug": "x"}, ["title: is required", "description: is required"]),
    ("remember_competition", {"slug": "a b", "title": "x", "description": "x"}, ["slug", "'a b'"]),
    (
        "remember_competition",
        {"slug": "dog-breed-identification", "title": "x", "description": "x"},
        ["conflict", "dog-breed-identification"],
    ),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"), REFUSED, ids=[f"{t}-{n}" for n, (t, _, _) in enumerate(REFUSED)]
)
def test_a_wrong_call_is_told_how_to_put_it_right(
    agent: Agent, tool: str, arguments: dict[str, Any], told: list[str]
):
    text = agent.refusal(tool, **arguments)
    assert all(part in text for part in told), text
    assert len(text) < 3_000
    assert "Traceback" not in text


def test_an_unknown_tool_is_refused_with_the_nearest(agent: Agent):
    with pytest.raises(MCPError, match="nearest: recommend_plan"):
        agent.call("recommend", {})
