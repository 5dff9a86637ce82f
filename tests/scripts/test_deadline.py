"""Is the deadline the box's, and is what a fold has learned written as soon as it is over?"""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, Workshop, rows_of
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

QUICK = ("tabular-regression-network", "tabular-regression-lightgbm", "image-classification")

SLOW_IMPORT = "import time; time.sleep({seconds})"
"""Sleeping takes no time of the processor: it is what a cold disk does to imports."""


def minutes_said(log: str) -> float:
    found = re.search(r"folds; ([\d.]+) min", log)
    assert found, log
    return float(found[1])


def test_seconds_before_the_script_that_used_no_processor_are_of_the_budget(workshop: Workshop) -> None:
    trial = workshop.trial("tabular-regression-lightgbm", own={"MINUTES": "5"}, folds=1, epochs=1)
    ended = trial.train(before=SLOW_IMPORT.format(seconds=4))
    assert ended.status == 0, ended.log
    assert minutes_said(ended.log) >= 0.1


@pytest.mark.parametrize("zone", [None, UTC])
def test_a_moment_goes_before_the_minutes(workshop: Workshop, zone: object) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    told = moment.isoformat() if zone else str(moment.timestamp())
    own = {"MINUTES": "500", "MEMORY_DEADLINE": told}
    epochs: dict[str, Any] = {"epochs": 100_000, "early_stopping_patience": 100_000}
    trial = workshop.trial("tabular-regression-network", own=own, **epochs)
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
import lightgbm
boost = lightgbm.train
def train(*given, **named):
    if calls:
        time.sleep(10_000)
    return boost(*given, **named)
np.savez, lightgbm.train = savez, train
"""
    own = {"MINUTES": "0.1", "MEMORY_MODE": "offline", "MEMORY_HOME": str(tmp_path)}
    trial = workshop.trial("tabular-regression-lightgbm", own=own, folds=3)
    ended = trial.train(before=hang)
    assert ended.status == 0, ended.log
    assert "the budget is over" in ended.log
    assert any("timed_out" in path.read_text() for path in (tmp_path / "spool").iterdir())
    assert gain(trial.data, trial.cells()) > 0, ended.log


@pytest.mark.parametrize("name", QUICK)
def test_killed_when_its_first_fold_is_over_a_script_has_sent_what_that_learned(
    workshop: Workshop, name: str
) -> None:
    trial = workshop.trial(name)
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


@pytest.mark.parametrize("name", QUICK)
def test_sigterm_ends_a_script_cleanly_with_what_is_there(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name, folds=3)
    ended = trial.train(before=TERM_IN_SECOND_FOLD)
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    assert "=== Fold 3" not in ended.log


@pytest.mark.parametrize("name", [*QUICK, "text-classification"])
def test_out_of_fold_answers_are_those_of_every_row(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name)
    ended = trial.train()
    assert ended.status == 0, ended.log
    head, *rows = rows_of(trial.out / "oof.csv")
    train = rows_of(trial.data.folder / "train.csv")
    assert [row[0] for row in rows] == [row[0] for row in train[1:]]
    assert [str(row[1]) for row in rows] == [row[-1] for row in train[1:]] or "regression" in name
    assert all(column.startswith("p_") for column in head[2:])
    assert np.isfinite([[float(cell) for cell in row[2:]] for row in rows]).all()
    tests = rows_of(trial.out / "test_predictions.csv")
    assert len(tests) == len(trial.data.ids) + 1


def test_cores_are_those_of_the_affinity_and_of_the_quota(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    script = opened("tabular-regression-lightgbm", lambda folder: None)
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
    script = opened("tabular-regression-lightgbm", lambda folder: None, folds=5)
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


def test_catboost_on_a_card_grows_what_fits_by_the_clock(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no callback there: rounds are counted beforehand. Fits take 30 s to start and 2 s a round."""
    script = opened("tabular-classification-catboost", lambda folder: None, tree_device="cuda", epochs=5000)
    clock = [0.0]

    def grow(rounds: int) -> None:
        clock[0] += 30.0 + 2.0 * rounds

    monkeypatch.setattr(script.time, "monotonic", lambda: clock[0])
    for left in (10.0, 500.0, 5_000.0, 1e9):
        monkeypatch.setattr(type(script.state), "seconds_left", lambda _, left=left: left)
        rounds = script.rounds_in_time(grow, 5000)
        assert rounds == 1 or 30.0 + 2.0 * rounds < left
        assert rounds == 5000 or 2.0 * rounds > 0.5 * left - 40.0


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_trees_stop_while_predicting_still_fits(opened: Open, library: str) -> None:
    """Of 60 s none pass by boosting; a row takes 1 ms for each round: 160 rows take 50 s after 312."""
    name = f"tabular-regression-{library}"
    script = opened(name, lambda _: None, epochs=5000, early_stopping_patience=5000)
    module, state, clock = script.module, script.state, {"now": 0.0}
    module.START, state.minutes, state.reserve_minutes, state.train_minutes = 0.0, 1.0, 0.15, 0.7
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock["now"])})
    data, real, asked = script.read_data(), script.predict_model, list[int]()

    def predict(model: Any, features: Any) -> Any:
        asked.append(script.rounds_of(model))
        clock["now"] += 0.001 * len(features) * asked[-1]
        return real(model, features)

    module.predict_model = script.plan.predict_model = predict
    state.out_dir.mkdir()
    rows = np.arange(len(data.targets))
    result = script.train_fold(1, data, rows[::2], rows[1::2], None)
    script.predict_fold(data, state.out_dir / script.CHECKPOINT.format(1), 60.0, None)
    assert 50 < max(asked) < 312, asked
    assert clock["now"] < 60, asked
    assert not result["done"]


def test_a_fold_whose_first_round_was_its_best_makes_no_other_dear(opened: Open) -> None:
    """From its last round, the 251st, to its submission it took 1 s, and hardly by the one tree it kept."""
    script = opened("tabular-regression-lightgbm", lambda _: None)
    state = script.state
    state.tree_seconds, state.round_seconds, state.rounds = 0.1, 0.004, 251
    state.last_round = time.monotonic() - 1.0
    script.learn_predicting(1)
    assert 1.0 < state.predict_seconds < 3.0
    state.last_round = time.monotonic() - 1.0
    script.learn_predicting(200)
    assert 1.0 < state.predict_seconds < 3.0


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_each_target_has_its_share_of_the_time(opened: Open, library: str) -> None:
    """Of 60 s each look at the clock takes 20 ms."""
    name = f"tabular-regression-{library}"
    script = opened(name, lambda _: None, epochs=5000, early_stopping_patience=5000, learning_rate=1e-3)
    module, state, clock = script.module, script.state, iter(np.arange(0.0, 600.0, 0.02))
    module.START, state.minutes, state.reserve_minutes, state.train_minutes = 0.0, 1.0, 0.15, 0.7
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: next(clock))})
    data = script.read_data()
    data.targets, data.outputs = np.tile(data.targets, 3), ["a", "b", "c"]
    state.out_dir.mkdir()
    rows = np.arange(len(data.targets))
    result = script.train_fold(1, data, rows[::2], rows[1::2], None)
    assert min(result["rounds"]) > 0.8 * max(result["rounds"]) > 50, result["rounds"]
    assert not result["done"]


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("most", [1, 12])
def test_trees_cut_by_the_time_keep_their_best_round(
    opened: Open, monkeypatch: pytest.MonkeyPatch, library: str, most: int
) -> None:
    script = opened(f"tabular-regression-{library}", lambda _: None, learning_rate=0.9)
    data = script.read_data()
    features = script.features_of(data.inputs, script.fit_categories(data.inputs))
    target = next(iter(script.targets_of(data)))
    other = np.random.default_rng(0).permutation(target)  # nothing is learned for them
    monkeypatch.setattr(type(script.state), "time_is_over", lambda _, run, rounds: rounds >= most)
    model = script.fit((features, target), (features, other), 1, 0, None, 40)
    assert script.rounds_of(model) <= min(most, 6)
    assert len(script.predict_model(model, features)) == len(target)
    assert script.rounds_of(script.fit((features, target), None, 1, 0, None, 40)) == most
