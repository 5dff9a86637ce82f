"""Where the disk is slow, is a submission whole at any moment, and does the budget hold?"""

from __future__ import annotations

import random
import re
import zlib
from typing import Any

import numpy as np
import pytest

from tests.scripts.harness import faults
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, Workshop
from tests.scripts.test_killed import reached

ENDLESS: dict[str, Any] = {"epochs": 100_000, "early_stopping_patience": 100_000}
BUDGETS = {
    "text-classification": (0.3, 1e6),
    "image-regression": (1.0, 1e6),
}
"""Minutes, and bytes a second; a file takes 0.3 s to open: an epoch of images 14 s."""


@pytest.mark.parametrize("name", BUDGETS)
def test_what_writing_takes_is_kept_back(workshop: Workshop, name: str) -> None:
    """By a clock that only the processor and the disk move: training never ends by itself."""
    minutes, rate = BUDGETS[name]
    slow = faults.NO_CLIENT + faults.PROCESSOR_CLOCK + faults.slow_disk(0.3, rate, virtual=True)
    trial = workshop.trial(name, own={"MINUTES": str(minutes)}, **ENDLESS)
    ended = trial.train(before=slow)
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    took = re.search(r"(?:folds|fits); ([\d.]+) min", ended.log)
    assert took, ended.log
    assert float(took[1]) <= minutes, ended.log[-2000:]


def check_whole(trial: Trial, log: str) -> None:
    """Nothing under its name is half written, and once a fold is over its answers are sent."""
    for path in trial.out.glob("answers_*.npz"):
        with np.load(path) as file:
            assert dict(file)
    if trial.submission.exists():
        cells = trial.cells()
        if "Submission written from" in log and "left out" not in log:
            assert len({tuple(row) for row in cells.values()}) > 1, log


def test_killed_while_the_disk_is_at_work_what_lies_there_is_whole(workshop: Workshop) -> None:
    slow, name = faults.slow_disk(0.03, 3e5), "image-regression"
    trial = workshop.short_trial(name)
    whole = trial.train(before=slow)
    assert whole.status == 0, whole.log
    trial.anew()
    rng, killed, log = random.Random(zlib.crc32(name.encode())), 0, ""
    for share in (0.15, 0.35, 0.5, 0.65, 0.8, 0.95):
        moment = int(len(whole.log) * share), rng.uniform(0, whole.seconds / 10)
        ended = trial.train(before=slow, kill_when=lambda moment=moment: reached(trial, moment))
        killed, log = killed + (ended.status == -9), log + ended.log
        check_whole(trial, log)
        if ended.status == 0:
            trial.anew()
            log = ""
    assert killed, "it had always ended before"
