"""A distributed training by torchrun: each of its processes reports its own steps, samples and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from memory_service.client.begin import shared_run_id
from tests.client.conftest import Service

TRAIN = """
import os, sys, time
import torch
from torch import distributed
from memory_service.client import watch

distributed.init_process_group("gloo")
rank = int(os.environ["RANK"])
facts = {"task": "image", "model": "resnet18", "gpu": "t4", "batch_size": 32, "epochs": 2}
with watch(**facts, server=sys.argv[1]) as run:
    for epoch in range(2):
        for _ in range(25):
            time.sleep(0.02)
            distributed.all_reduce(torch.ones(1))
            run.batch(32)
        run.event("gpu", {"process_gib": 5.0 + 4.0 * rank})
        run.epoch(epoch, train_loss=1.0)
    if rank == 0:
        open(sys.argv[2], "w").write(run.run_id)
    assert run.finish()
"""


def test_two_ranks_are_one_run_with_the_samples_of_both(service: Service, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    begun = tmp_path / "run"
    subprocess.run([*torchrun, str(script), service.url, str(begun)], check=True, timeout=300)
    live = service.page(begun.read_text())["watch"]
    assert [(r["rank"], r["steps"], r["peak_gib"]) for r in live["ranks"]] == [(0, 48, 5.0), (1, 48, 9.0)], (
        "a first step has no time"
    )
    assert live["steps"] == 48, "the ranks step together"
    assert live["peaks_gib"]["driver"] == 9.0, "the fullest card counts"
    alone = [r["samples_per_second"] for r in live["ranks"]]
    assert max(alone) < live["samples_per_second"] < 1.2 * sum(alone)


def test_only_what_torchrun_starts_on_one_machine_has_ranks() -> None:
    two = {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1"}
    assert shared_run_id(two) != shared_run_id(two), "the second run of a script is another one"
    assert shared_run_id({**two, "WORLD_SIZE": "4"}) is None
    assert shared_run_id({"RANK": "1", "WORLD_SIZE": "2"}) is None
