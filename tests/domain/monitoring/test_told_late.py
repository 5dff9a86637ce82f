"""Do epochs that are told after they were trained count as used time, and no others?"""

from __future__ import annotations

import pytest

from memory_service.domain.monitoring.state import RunFacts
from tests.watching import Said, judged

RUN = RunFacts(model="resnet50", batch_size=64, folds=1, epochs=20, n_train=10_000, minutes=60)


def told(*epochs: tuple[float, float], fold: int = 1) -> list[Said]:
    """Epochs of these (moment, seconds)."""
    return [
        ("epoch", at, {"fold": fold, "epoch": n, "seconds": seconds, "train_loss": 0.5})
        for n, (at, seconds) in enumerate(epochs, 1)
    ]


def used(said: list[Said]) -> float | None:
    return judged(RUN, said).budget_used_percent


def test_six_epochs_told_at_once_have_used_what_they_took() -> None:
    answer = judged(RUN, told(*[(2.0, 300.0)] * 6))
    assert answer.budget_used_percent == pytest.approx(50.0, abs=0.1)
    assert answer.action == "reduce_epochs"
    assert answer.set["epochs"] <= 10, "of 51 minutes 30 are used: four more epochs of five minutes fit"


def test_time_goes_on_behind_epochs_that_were_told_at_once() -> None:
    later: list[Said] = [("note", 302.0, {"text": "predicting"})]
    assert used([*told(*[(2.0, 300.0)] * 6), *later]) == pytest.approx(100 * 2100 / 3600, abs=0.2)


def test_epochs_that_are_told_as_they_end_add_nothing() -> None:
    assert used(told(*[(300.0 * n + 5, 299.0) for n in range(1, 7)])) == pytest.approx(100 * 1805 / 3600)


def test_a_time_that_counts_on_from_the_start_is_not_added_up() -> None:
    assert used(told(*[(100.0 * n, 100.0 * n) for n in range(1, 7)])) == pytest.approx(100 * 600 / 3600)


def test_folds_that_train_side_by_side_are_not_added_up() -> None:
    both = told(*[(100.0 * n, 100.0) for n in range(1, 7)])
    both += told(*[(100.0 * n, 100.0) for n in range(1, 7)], fold=2)
    assert used(both) == pytest.approx(100 * 600 / 3600)
