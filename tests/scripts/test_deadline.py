"""Is the deadline the box's, and is what a fold has learned written as soon as it is over?"""

from __future__ import annotations

import os
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, Workshop
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

SLOW_IMPORT = "import time; time.sleep({seconds})"
"""Sleeping takes no time of the processor: it is what a cold disk does to imports."""


def minutes_said(log: str) -> float:
    found = re.search(r"(?:folds|fits); ([\d.]+) min", log)
    assert found, log
    return float(found[1])


def test_seconds_before_the_script_that_used_no_processor_are_of_the_budget(workshop: Workshop) -> None:
    trial = workshop.trial("text-regression", own={"MINUTES": "5"}, folds=1, epochs=1)
    ended = trial.train(before=SLOW_IMPORT.format(seconds=4))
    assert ended.status == 0, ended.log
    assert minutes_said(ended.log) >= 0.1


@pytest.mark.parametrize("zone", [None, UTC])
def test_a_moment_goes_before_the_minutes(workshop: Workshop, zone: object) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    told = moment.isoformat() if zone else str(moment.timestamp())
    own = {"MINUTES": "500", "MEMORY_DEADLINE": told}
    epochs: dict[str, Any] = {"epochs": 100_000, "early_stopping_patience": 100_000}
    trial = workshop.trial("text-regression", own=own, **epochs)
    ended = trial.train()
    assert ended.status == 0, ended.log
    trial.cells()
    reached = [int(epoch) for epoch in re.findall(r"Epoch (\d+)/", ended.log)]
    assert max(reached, default=0) < 100_000


def test_a_script_that_hangs_ends_at_the_end_of_its_budget_with_what_it_has(
    workshop: Workshop, tmp_path: Path
) -> None:
    """The second fold never ends: it sleeps in a call that looks at no clock. The service is told so."""
    hang = """
import time
import numpy as np
real, calls = np.savez, []
def savez(*given, **named):
    real(*given, **named)
    calls.append(1)
import torch
step = torch.optim.AdamW.step
def train(*given, **named):
    if calls:
        time.sleep(10_000)
    return step(*given, **named)
np.savez, torch.optim.AdamW.step = savez, train
"""
    own = {"MINUTES": "0.3", "MEMORY_MODE": "offline", "MEMORY_HOME": str(tmp_path)}
    trial = workshop.trial("text-classification", own=own, folds=3)
    ended = trial.train(before=hang)
    assert ended.status == 0, ended.log
    assert "the budget is over" in ended.log
    assert any("timed_out" in path.read_text() for path in (tmp_path / "spool").iterdir())
    assert gain(trial.data, trial.cells()) > 0, ended.log


def test_killed_when_its_first_fold_is_over_a_script_has_sent_what_that_learned(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification")
    killed = trial.train(kill_when=lambda: (trial.out / "oof.csv").exists() and written_again(trial))
    assert killed.status == -signal.SIGKILL, killed.log
    assert gain(trial.data, trial.cells()) > 0, killed.log


def written_again(trial: Trial) -> bool:
    """Whether the submission is younger than the fold's answers."""
    return trial.submission.stat().st_mtime_ns > (trial.out / "answers_1.npz").stat().st_mtime_ns


TERM_IN_SECOND_FOLD = """
import os, signal
import numpy as np
real = np.savez
def savez(*given, **named):
    real(*given, **named)
    os.kill(os.getpid(), signal.SIGTERM)
np.savez = savez
"""


def test_sigterm_ends_a_script_cleanly_with_what_is_there(workshop: Workshop) -> None:
    trial = workshop.trial("text-classification", folds=3)
    ended = trial.train(before=TERM_IN_SECOND_FOLD)
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    assert "=== Fold 3" not in ended.log


def test_cores_are_those_of_the_affinity_and_of_the_quota(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    script = opened("text-regression", lambda folder: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    files: dict[str, str] = {}

    class Files:
        def __init__(self, path: str) -> None:
            self.path = path

        def __truediv__(self, name: str) -> Files:
            return Files(f"{self.path}/{name}")

        def read_text(self) -> str:
            if self.path not in files:
                raise FileNotFoundError(self.path)
            return files[self.path]

    monkeypatch.setattr(script.module, "Path", Files)
    assert script.usable_cores() == 64
    files["/sys/fs/cgroup/cpu.max"] = "max 100000"
    assert script.usable_cores() == 64
    files["/sys/fs/cgroup/cpu.max"] = "250000 100000"
    assert script.usable_cores() == 3
    files.clear()
    files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "150000"
    files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000"
    assert script.usable_cores() == 2


def test_no_fold_that_fits_is_given_up(opened: Open) -> None:
    """Of 60 s 12 are over; the first fold takes 25 s, for it warms up, later ones 5 s and less if they are
    cut: three fit by R14's 51 s."""
    script = opened("text-regression", lambda folder: None, folds=5)
    clock = {"now": 12.0}
    module = script.module
    state = script.state
    module.START, state.minutes, state.reserve_minutes, state.train_minutes = 0.0, 1.0, 0.15, 0.7
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock["now"])})
    took = iter((25.0, 5.0, 5.0, 5.0, 5.0))

    def fold(number: int, *_: object) -> dict[str, float]:
        clock["now"] += min(next(took), state.seconds_left())
        return {"score": 1.0}

    script.plan.train_fold, module.finish_fold = fold, lambda *_: None
    state.out_dir.mkdir()
    assert len(script.train_folds(script.read_data(), None)) == 3
    assert clock["now"] <= 51
