"""Does a refusal tell an agent what was wrong, in which field, what was given and what would be right?"""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Agent

NO_RUN = "00000000-0000-4000-8000-000000000000"
RUN = {"task": "image", "gpu": "t4", "model": "resnet18"}

REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("plan", {"task": "imagx", "gpu": "a100"}, ["task: unknown task", "'imagx'", "nearest: image"]),
    ("plan", {"task": "image", "gpu": "a1000"}, ["gpu: unknown gpu", "'a1000'", "nearest: a100"]),
    ("plan", {"task": "image", "form": "choose", "gpu": "t4"}, ["gpu: is said by the offers"]),
    (
        "plan",
        {"task": "image", "gpu": "t4", "minutes": -3},
        ["minutes: must be over 0", "given: -3"],
    ),
    (
        "plan",
        {"task": "image", "gpu": "t4", "minutes": "soon"},
        ["minutes: must be a number", "'soon'"],
    ),
    ("plan", {"task": "image", "gpu": "t4", "minutes": "30 min"}, ["minutes: must be a number"]),
    ("plan", {"task": "image", "gpu": "t4", "more": {"folds": "2.5"}}, ["folds: must be a whole number"]),
    ("plan", {"task": "image", "gpu": "t4", "more": {"gpu": "a100"}}, ["gpu", "given twice"]),
    ("plan", {"task": "image", "gpu": "t4", "more": 3}, ["more: must be an object"]),
    ("plan", {"task": "image", "gpu": "none"}, ["'none'", "say `cpu`", "nearest: cpu"]),
    ("plan", {"task": "image", "gpu": "No GPU"}, ["nearest: cpu"]),
    ("plan", {"task": "image", "gpu": "t4", "batchsize": 8}, ["batchsize: unknown", "batch_size"]),
    ("plan", {"task": "image", "gpu": "t4", "form": "yaml"}, ["form: must be one of", "script"]),
    ("plan", {"task": "image", "gpu": "t4", "description": "\x00"}, ["description", "NUL"]),
    ("plan", {"task": "image-to-image", "gpu": "t4", "form": "script"}, ["image-classification"]),
    ("find", {}, ["give either text or competition"]),
    ("find", {"text": "dogs", "limit": 10**6}, ["limit", "at most 100"]),
    ("find", {"competition": "dog-bred"}, ["not-found"]),
    ("fit", {"model": "resnet50", "gpu": "a1000"}, ["gpu: unknown gpu", "nearest: a100"]),
    ("fit", {"model": "resnet50"}, ["gpu"]),
    (
        "fit",
        {"model": "resnet50", "gpu": "a100", "batch_size": 0},
        ["batch_size: must be at least 1"],
    ),
    ("review", {"gpu": "a100"}, ["script"]),
    ("review", {"script": "x = 1", "minutes": -1}, ["minutes: must be over 0", "given: -1"]),
    ("review", {"script": "x" * (2**20 + 1)}, ["a script of at most 1048576 bytes is reviewed"]),
    ("report", {"run": {"gpu": "t4"}}, ["task: is required", "model: is required"]),
    ("report", {"plan_id": "plan-0000"}, ["plan-0000 is not known here", "`plan`"]),
    ("report", {"run": RUN | {"folds": 0}}, ["folds", "given: 0"]),
    ("report", {"run": RUN | {"epoch": 3}}, ["epoch: unknown", "epochs"]),
    ("report", {"run_id": "mine", "run": RUN}, ["run_id", "a UUID"]),
    ("report", {"run": RUN | {"model": "my net"}}, ["unknown model", "custom/NAME"]),
    ("report", {"run": "resnet18"}, ["run: must be an object"]),
    ("report", {"events": []}, ["argument", "nearest: event"]),
    ("report", {"run_id": NO_RUN, "event": {"kind": "epoch"}}, ["not-found", NO_RUN]),
    ("report", {"run_id": NO_RUN, "log": "Epoch 1"}, ["not-found"]),
    ("report", {"run_id": NO_RUN, "event": {"kind": "epch"}}, ["kind: must be one of", "nearest: epoch"]),
    ("report", {"run_id": NO_RUN, "event": {"kind": "epoch", "loss": 1.0}}, ["loss: is no", "train_loss"]),
    (
        "report",
        {"run_id": NO_RUN, "event": {"kind": "gpu", "memory_percent": 400}},
        ["memory_percent", "given: 400"],
    ),
    ("report", {"run_id": NO_RUN, "status": "done"}, ["status", "'completed'", "'done'"]),
    ("report", {"run_id": NO_RUN, "status": "completed"}, ["not-found"]),
    ("look", {}, ["run_id: is required"]),
    ("look", {"run_id": NO_RUN}, ["not-found"]),
    ("look", {"plan_id": "plan-0000"}, ["not-found", "not known here"]),
    ("remember", {}, ["give one of them"]),
    ("remember", {"competition": {"slug": "x"}}, ["title: is required", "description: is required"]),
    ("remember", {"competition": {"slug": "a b", "title": "x", "description": "x"}}, ["slug", "'a b'"]),
    (
        "remember",
        {"competition": {"slug": "dog-breed-identification", "title": "x", "description": "x"}},
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
    with pytest.raises(MCPError, match="nearest: remember"):
        agent.call("remembr", {})
