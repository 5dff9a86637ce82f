"""Does the quality index keep its laws, and does the timetable's arithmetic add up?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.planning.fits import split_of
from memory_service.domain.planning.run_seconds import (
    RunSeconds,
    Seconds,
    minutes_needed,
    run_seconds,
    setup_seconds,
)
from memory_service.domain.quality.quality_index import (
    from_random_weights,
    learning_of,
    quality_index,
    too_large,
)

COUNTS = st.integers(10, 10**7)


def index(epochs: float, folds: int, n_train: float = 9000, size_ratio: float = 1.0) -> float:
    law = learning_of("image-classification", True)
    return float(quality_index(80.0, size_ratio, epochs, folds, law, n_train))


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 20), st.integers(1, 20), COUNTS)
def test_more_epochs_or_folds_never_lower_the_index(e1: int, e2: int, k1: int, k2: int, n: int) -> None:
    assert index(max(e1, e2), max(k1, k2), n) >= index(min(e1, e2), min(k1, k2), n)


def test_most_is_learned_by_the_fifth_epoch_as_the_sources_saw() -> None:
    """003: best validation loss at epoch 3-5 of 30 on 9 000 images."""
    assert index(30, 1) - index(5, 1) < 0.15 * (index(30, 1) - index(1, 1))


def test_a_huge_model_loses_on_very_little_data_only() -> None:
    assert too_large(300, 1_000) > too_large(20, 1_000) > 0
    assert too_large(300, 3_000) == 0


def test_from_random_weights_a_small_network_is_better_on_few_images_and_a_large_one_on_many() -> None:
    for n_train, larger_wins in ((1_000, False), (5_000, False), (200_000, True)):
        small, large = from_random_weights(np.array([78.0, 83.0]), np.array([11.2, 64.7]), n_train)
        assert (large > small) == larger_wins, n_train
        assert large < 83.0


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_learning_curve(task: str) -> None:
    for pretrained in (True, False):
        assert learning_of(task, pretrained).gap > 0


def test_split_shares() -> None:
    assert [int(split_of(9000, k)[0]) for k in (1, 3, 5)] == [7200, 6000, 7200]


def run(folds: int = 1, epochs: int = 5, step: float = 0.1, spread: float = 1.3) -> RunSeconds:
    return run_seconds(
        setup_seconds(20.0, 9000, gpu=True, pretrained=True, files=True),
        Seconds(step / spread, step, step * spread),
        128,
        Seconds(step / 400 / spread, step / 400, step / 400 * spread),
        n_train=9000,
        n_test=4500,
        folds=folds,
        epochs=epochs,
    )


def test_speed_errors_are_common_to_all_epochs() -> None:
    """Ten epochs on a card 30 % slower than thought are 30 % slower: the deviation does not average away."""
    short, long = run(epochs=2), run(epochs=20)
    grown = (long.total_end.high - long.total_end.value) / (short.total_end.high - short.total_end.value)
    assert grown > 2.5


def test_p90_is_above_the_median_and_setup_is_priced_in() -> None:
    seconds = run()
    assert seconds.setup.value > 20
    assert seconds.total_end.high > seconds.total_end.value > seconds.training_end.value


@given(st.integers(1, 10), st.integers(1, 50), st.floats(1e-3, 10))
def test_minutes_needed_keep_the_reserve(folds: int, epochs: int, step: float) -> None:
    seconds = run(folds, epochs, step)
    minutes = float(minutes_needed(seconds))
    assert seconds.training_end.high / 60 <= 0.85 * minutes + 1e-9
    assert seconds.total_end.high / 60 <= minutes + 1e-9
    assert seconds.total_end.value / 60 <= 0.8 * minutes + 1e-9
    assert math.isfinite(minutes)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.sampled_from((1, 16, 768)),
    st.floats(1e-4, 10),
    st.floats(1.0, 3.0),
)
def test_the_minutes_of_all_plans_at_once_are_those_of_each(
    n_train: int, n_test: int, batch: int, step_s: float, spread: float
) -> None:
    epochs, folds = (1, 4, 60), (1, 3)
    setup = setup_seconds(30.0, n_train, gpu=True, pretrained=1.0, files=True)
    step = Seconds(step_s / spread, step_s, step_s * spread)
    seen = step.times(0.3 / batch)
    of: Any = {"n_train": n_train, "n_test": n_test}
    grid = (np.array(epochs)[:, None], np.array(folds)[None, :])
    together = minutes_needed(run_seconds(setup, step, batch, seen, **of, epochs=grid[0], folds=grid[1]))
    for i, e in enumerate(epochs):
        for j, k in enumerate(folds):
            alone = minutes_needed(run_seconds(setup, step, batch, seen, **of, epochs=e, folds=k))
            assert together[i, j] == pytest.approx(float(alone), rel=1e-9)
