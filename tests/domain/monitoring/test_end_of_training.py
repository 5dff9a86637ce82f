"""When will it end? By hand, of a progress bar, of epochs alike, of trees that still gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.end_of_training import (
    _ends_epoch_after_epoch,
    epoch_seconds,
    present_fold_epochs,
    project,
)
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.planning.run_seconds import FOLD_OVERHEAD_S
from tests.watching import Said, events

RUN = RunFacts(model="resnet50", batch_size=64, folds=2, epochs=10, n_train=20_000, minutes=60.0)
TREES = replace(RUN, model="lightgbm", task="tabular-regression", device_kind="cpu", epochs=8_000)


def view(facts: RunFacts, said: list[Said], expected: Expectation | None = None) -> RunView:
    return RunView(State(facts, add_events(Summary(), events(said)), expected or Expectation()))


def test_of_a_bar_over_all_epochs_a_later_fold_takes_as_long_again() -> None:
    bar = {"step": 100, "of": 1000, "elapsed_seconds": 100.0, "scope": "run"}
    found = project(view(RUN, [("batch", 120.0, bar)]))
    assert found is not None
    left = 900.0 + 1000.0
    assert (found.end.value, found.end.low, found.end.high) == pytest.approx(
        (120 + left, 120 + left / 1.1, 120 + left * 1.1)
    )
    assert (found.epoch.value, found.epoch.high) == pytest.approx((100.0, 110.0))
    assert found.epochs_left == pytest.approx(10 * 1.9)


def test_of_a_bar_the_run_is_one_epoch_where_nobody_says_how_many() -> None:
    bar = {"step": 100, "of": 1000, "elapsed_seconds": 100.0, "scope": "run"}
    found = project(view(replace(RUN, epochs=None, folds=1), [("batch", 120.0, bar)]))
    assert found is not None
    assert found.n == 1
    assert found.epoch.value == pytest.approx(1000.0)
    assert found.epochs_left == pytest.approx(0.9)


def test_steps_alone_leave_room_for_the_validation_behind_them() -> None:
    """Of two folds each learns from 10 000 rows: in batches of 64 these are 157 steps."""
    one, n, _ = epoch_seconds(view(RUN, [("batch", 100.0, {"steps": 100, "seconds": 50.0})]))
    assert one is not None
    assert (one.low, one.value, one.high) == pytest.approx((78.5, 1.12 * 78.5, 1.4 * 78.5))
    assert n == 0


def test_an_end_that_is_overdue_is_now() -> None:
    said: list[Said] = [("epoch", 30.0 * n, {"fold": 1, "epoch": n, "seconds": 30.0}) for n in range(1, 11)]
    said.append(("gpu", 400.0, {"utilization_percent": 1.0}))
    found = project(view(replace(RUN, folds=1), said))
    assert found is not None
    assert (found.end.low, found.end.value, found.end.high) == (400.0, 400.0, 400.0)


def test_epochs_alike_foresee_the_same_end_all_along() -> None:
    said: list[Said] = [
        ("epoch", 100.0 + 30.0 * n, {"fold": 1, "epoch": n, "seconds": 90.0 if n == 1 else 30.0})
        for n in range(1, 8)
    ]
    ends = _ends_epoch_after_epoch(view(replace(RUN, folds=1), said))
    assert ends == pytest.approx([100.0 + 30.0 * 10] * 6), "the first one stands apart"


@pytest.mark.parametrize("first", [0, 1])
def test_trees_that_gain_past_the_round_that_was_expected_go_on_for_their_patience(first: int) -> None:
    """300 rounds, the last of them the best, where 100 were expected."""
    said: list[Said] = [
        ("epoch", float(n), {"fold": 1, "epoch": n, "seconds": 1.0, "valid_loss": 1.0 - n / 1e4})
        for n in range(first, 300 + first)
    ]
    expected = Expectation(best_epoch=Estimate(100.0, 80.0, 125.0), patience=50)
    least, usual, most = present_fold_epochs(view(TREES, said, expected), 8_000)
    assert (least, usual, most) == (350, 350, 650)


def test_folds_to_come_take_their_epochs_and_what_lies_between_folds() -> None:
    said: list[Said] = [("epoch", 30.0 * n, {"fold": 1, "epoch": n, "seconds": 30.0}) for n in range(1, 6)]
    found = project(view(RUN, said))
    assert found is not None
    assert found.end.value == pytest.approx(150 + (5 + 10) * 30 + FOLD_OVERHEAD_S[0])


def test_one_epoch_after_the_first_is_measured_as_one() -> None:
    said: list[Said] = [("epoch", 60.0 * n, {"fold": 1, "epoch": n, "seconds": 60.0}) for n in (1, 2)]
    one, n, basis = epoch_seconds(view(RUN, said))
    assert one is not None
    assert (one.value, n, basis) == (60.0, 1, "median of 1 measured epoch after the first")


def test_a_trainer_s_own_estimate_of_what_is_left_is_taken_where_no_epoch_is_over() -> None:
    """Its steps of 0.8 s are no epochs of 0.8 s: 16 hours are left, whatever the budget."""
    step = {"epoch": 1, "of": 6_200, "scope": "epoch", "seconds": 40.0, "steps": 50}
    said: list[Said] = [
        ("batch", 40.0 * n, {**step, "step": 50 * n, "eta_seconds": 60_000.0 - 40.0 * n})
        for n in range(1, 33)
    ]
    projection = project(view(RunFacts(minutes=60.0), said))
    assert projection is not None
    assert projection.end.value == pytest.approx(60_000.0, rel=0.001)
    assert projection.end.low < 60_000.0 < projection.end.high
