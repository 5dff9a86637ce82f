"""Do several processes train one model together, as on several cards? Here by gloo, on processors."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.conftest import free_port
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of
from tests.scripts.test_resume import edited

TWO = """
import os
os.environ |= {{"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}}
os.environ |= {{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}}
if os.fork() == 0:
    os.environ |= {{"RANK": "1", "LOCAL_RANK": "1"}}
"""
"""What torchrun tells two processes, without its imports."""

TOGETHER = (
    "image-classification", "image-segmentation", "text-classification-lora",
)  # fmt: skip


def two() -> str:
    return TWO.format(port=free_port())


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_two_processes_learn_one_model_and_validate_every_row_once(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name, n_gpus=2, learning_rate=workshop.plan(name)["learning_rate"] * 1.5)
    ended = trial.train(before=two())
    assert ended.status == 0, ended.log
    assert "2 x " in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    assert len(trial.checkpoints()) == trial.plan["folds"]
    if trial.data.form != "masks":
        told = [row[0] for row in rows_of(trial.out / "oof.csv")[1:]]
        assert told == [row[0] for row in rows_of(trial.data.folder / "train.csv")[1:]]
    assert len(re.findall("^Epoch 1/", ended.log, re.MULTILINE)) == trial.plan["folds"], "one of them prints"


@pytest.mark.parametrize("method", ["full", "lora"])
def test_two_processes_with_half_of_every_weight_learn_one_model(workshop: Workshop, method: str) -> None:
    rate = {"full": 5e-3}.get(method, workshop.plan("text-classification-lora")["learning_rate"] * 1.5)
    more: dict[str, Any] = {"sharding": "fsdp", "method": method, "learning_rate": rate}
    trial = workshop.trial("text-classification-lora", n_gpus=2, grad_accumulation=2, **more)
    ended = trial.train(before=two())
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    kept = torch.load(trial.out / "fold_1.pt", weights_only=True)["model"]
    embedding = [weight for name, weight in kept.items() if "embed_tokens" in name]
    assert [weight.shape[1] for weight in embedding] == ([32] if method == "full" else []), "whole again"
    told = [row[0] for row in rows_of(trial.out / "oof.csv")[1:]]
    assert told == [row[0] for row in rows_of(trial.data.folder / "train.csv")[1:]]
    before = trial.cells()
    (trial.out / "answers_1.npz").unlink()
    assert trial.predict().status == 0
    assert trial.cells() == before, "one process predicts with what both learned"


def test_two_processes_end_together_when_the_time_is_over(workshop: Workshop) -> None:
    more: dict[str, Any] = {"epochs": 100_000, "early_stopping_patience": 100_000, "n_gpus": 2}
    trial = workshop.trial("text-classification", own={"MINUTES": "0.3"}, folds=3, **more)
    ended = trial.train(before=two())
    assert ended.status == 0, ended.log
    assert "VALIDATION: " in ended.log, "it came to its end"
    assert gain(trial.data, trial.cells()) > 0, ended.log


TORCHRUN = """
import os
import sys
import torch
from torch.distributed import run
torch.cuda.device_count = lambda: 2
def execv(program, arguments):
    assert arguments[:3] == [sys.executable, "-m", "torch.distributed.run"]
    run.main(["--run-path", "--start-method=fork", *arguments[3:]])
    raise SystemExit
os.execv = execv
"""
"""torchrun itself, with the script's arguments; its processes are forked, which spares them their imports."""

NO_MEMORY = """    if RANK == 1 and state.batch_size > 4:
        raise torch.OutOfMemoryError("CUDA out of memory")
"""


@pytest.mark.slow
def test_a_plan_of_two_cards_becomes_torchrun_which_starts_again_with_half_the_batch(
    workshop: Workshop,
) -> None:
    trial = workshop.trial("text-classification", n_gpus=2, folds=1)
    edited(trial, r'(    """The loss of a training batch; `rows`.*"""\n)', r"\1" + NO_MEMORY)
    ended = trial.train(before=TORCHRUN)
    assert ended.status == 0, ended.log
    assert ended.log.count("GPU=2 x none") == 2, ended.log
    assert (trial.out / "batch_size.txt").read_text() == "4"
    assert gain(trial.data, trial.cells()) > 0, ended.log
