"""Does a model that has become NaN cost no more than its own epochs, and does nobody submit its answers?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.scripts.harness import faults
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

KINDS = ("image-classification", "image-segmentation", "object-detection")


@pytest.mark.parametrize("name", KINDS)
def test_a_fold_that_diverges_at_once_is_left_out(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name)
    ended = trial.train(before=faults.diverging(after=1))
    assert ended.status == 0, ended.log
    assert "fold 1 has diverged in epoch 1" in ended.log, ended.log
    [left] = trial.checkpoints()
    assert left.startswith("fold_2.")
    assert "written from 1 folds" in ended.log
    assert trial.cells()


def test_a_fold_that_diverges_later_ends_with_its_best_epoch(workshop: Workshop) -> None:
    import torch

    trial = workshop.trial("text-regression", folds=1, epochs=6)
    batches = -(-4 * 96 // 5 // trial.plan["batch_size"])
    ended = trial.train(before=faults.diverging(after=4 * batches + 1))
    assert ended.status == 0, ended.log
    assert "fold 1 has diverged in epoch 5" in ended.log, ended.log
    kept = torch.load(trial.out / "fold_1.pt", weights_only=True)
    assert all(weight.isfinite().all() for weight in kept["model"].values())
    assert gain(trial.data, trial.cells()) > 0, ended.log
    assert "Fold 1 is done already" in trial.train().log


@pytest.fixture
def half_precision(opened: Open, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script whose half precision overflows for every row, but for the full one."""
    script = opened("text-regression", lambda folder: None)
    inside: list[bool] = []

    @contextlib.contextmanager
    def autocast() -> Iterator[None]:
        inside.append(True)
        yield
        inside.pop()

    script.inside = inside
    script.module.autocast, script.module.mixed_precision = autocast, lambda: True
    return script


def test_rows_that_overflow_in_half_precision_are_predicted_in_full(half_precision: Any) -> None:
    import torch

    script, model = half_precision, torch.nn.Linear(1, 1)
    inputs = torch.tensor([[1.0], [2.0]])

    def overflowing(given: Any) -> Any:
        return given / (0.0 if script.inside else 1.0)

    found = script.computed(model, overflowing, inputs)
    assert torch.equal(found, inputs)
    lost = script.computed(model.half(), overflowing, inputs)
    assert not lost.isfinite().any(), "frozen weights of half precision have no full one"


def test_few_rows_without_a_number_get_the_prior_and_many_are_an_error(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("text-regression", lambda folder: None)
    predictions = np.ones((2, 200, 1), np.float32)
    predictions[1, 7] = np.nan
    script.fill_lost(predictions, [5.0], "test")
    assert predictions[:, 7].tolist() == [[5.0], [5.0]]
    assert predictions.sum() == 398 + 10
    assert "NaN is predicted for 1 test rows" in capsys.readouterr().out
    script.print_epoch(1, 2, math.nan, 0.5, 0.5, 1.0, 0)
    assert "fp16 overflowed in training" in capsys.readouterr().out
    predictions[0, :3] = np.inf
    with pytest.raises(FloatingPointError, match="3 of 200"):
        script.fill_lost(predictions, [5.0], "test")
