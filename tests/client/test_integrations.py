"""Do the hooks of an agent that executes code blocks review, watch and answer, and never stand in its way?"""

from __future__ import annotations

import contextlib
import io
import time
import traceback
from dataclasses import dataclass
from typing import Any

import pytest

from memory_service.integrations import plan_text, watched_exec
from tests.client.conftest import Scripted, Service


@dataclass
class ExecutionResult:
    """What AIDE's interpreter answers with."""

    term_out: list[str]
    exec_time: float
    exc_type: str | None
    exc_info: dict[str, Any] | None = None
    exc_stack: list[tuple[Any, ...]] | None = None


class Interpreter:
    """Executes code blocks as AIDE's does, but in this process."""

    def run(self, code: str, reset_session: bool = True) -> ExecutionResult:
        out, failed, began = io.StringIO(), None, time.perf_counter()
        with contextlib.redirect_stdout(out):
            try:
                exec(compile(code, "runfile.py", "exec"), {"__name__": "__main__"})
            except BaseException as error:  # noqa: BLE001
                failed = type(error).__name__
                out.write(traceback.format_exc())
        seconds = time.perf_counter() - began
        lines = [
            *out.getvalue().splitlines(keepends=True),
            "Execution time: a moment seconds (limit: an hour).",
        ]
        return ExecutionResult(lines, seconds, failed)


TRAINING = """
batch_size, epochs = 32, 3
for epoch in range(1, 4):
    print(f"Epoch {epoch}/3 - loss: {1 / epoch:.4f} - val_loss: {1.1 / epoch:.4f} - val_acc: 0.{epoch}00")
"""

RISKY = """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(3):
    for x, y in []:
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    print(f"Epoch {epoch + 1}/3 - loss: 0.5")
"""


def runs(service: Service) -> dict[str, Any]:
    import json
    from urllib.request import urlopen

    with urlopen(f"{service.url}/runs?limit=500") as answer:
        return {run["id"]: run for run in json.load(answer)["items"]}


def executed(service: Service, code: str, **facts: Any) -> tuple[ExecutionResult, dict[str, Any]]:
    before = runs(service)
    result = watched_exec(Interpreter().run, server=service.url, seconds=60.0, **facts)(
        code, reset_session=True
    )
    (run_id,) = runs(service).keys() - before.keys()
    return result, service.page(run_id)


def test_a_block_is_reported_and_its_output_ends_with_the_verdict(service: Service):
    result, page = executed(service, TRAINING, minutes=60, task="tabular")
    assert [epoch["metric"] for epoch in page["outcome"]["epochs"]] == [0.1, 0.2, 0.3]
    assert (page["status"], page["minutes"]) == ("completed", 60)
    assert result.term_out[-1].startswith("\nverdict: ")
    assert "Epoch 3/3" in "".join(result.term_out)


def test_findings_of_the_review_come_before_the_output(service: Service):
    result, page = executed(service, RISKY, task="tabular")
    said = "".join(result.term_out)
    assert result.term_out[0].startswith("review, line ")
    assert "zero_grad" in said
    assert said.index("zero_grad") < said.index("Epoch 1/3")
    assert ", note " not in said
    assert page["epochs"] in (None, 3)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')", "out_of_memory"),
        ("raise TimeoutError('too long')", "timed_out"),
        ("1 / 0", "crashed"),
    ],
)
def test_a_block_that_fails_ends_its_run_as_it_failed(code: str, status: str, service: Service):
    result, page = executed(service, code)
    assert result.exc_type is not None
    assert page["status"] == status


def test_an_interpreter_that_dies_is_the_agents_to_handle(service: Service):
    def dying(code: str) -> None:
        raise RuntimeError("REPL child process died unexpectedly")

    before = runs(service)
    with pytest.raises(RuntimeError, match="died unexpectedly"):
        watched_exec(dying, server=service.url, seconds=60.0)("print(1)")
    (run_id,) = runs(service).keys() - before.keys()
    assert service.page(run_id)["status"] == "crashed"


ODD: list[Any] = ["a text", [b"bytes"], None]


@pytest.mark.parametrize("result", [None, 7, *(ExecutionResult(lines, 0.0, None) for lines in ODD)])
def test_a_result_of_another_shape_passes_as_it_is(result: Any, scripted: Scripted):
    assert watched_exec(lambda code: result, server=scripted.url)("print(1)") is result
    assert [end["status"] for end in scripted.ends] == ["completed"]


def test_without_a_server_the_block_runs_and_nothing_is_added():
    result = watched_exec(Interpreter().run, server="http://127.0.0.1:9", seconds=1.0)(TRAINING)
    assert result.term_out[0].startswith("Epoch 1/3")
    assert result.term_out[-1].startswith("Execution time")
    assert plan_text("Classify 5000 photos.", minutes=30, server="http://127.0.0.1:9", seconds=1.0) == ""


def test_a_server_that_answers_nonsense_is_no_obstacle(scripted: Scripted):
    scripted.answer = lambda path, body: (
        200,
        {},
        {"findings": [{"severity": "error"}], "read": 7, "feasible": 3},
    )
    result = watched_exec(Interpreter().run, server=scripted.url)(TRAINING)
    assert "Epoch 3/3" in "".join(result.term_out)
    assert plan_text("Classify 5000 photos.", server=scripted.url) == ""


def test_the_prompt_gets_the_plan(service: Service):
    text = plan_text(
        "Classify 5000 photos of 5 kinds of flowers, scored by accuracy.", 30, "t4", server=service.url
    )
    assert text.startswith("**plan-")
    assert "30 min" in text
    assert len(text) < 2200
