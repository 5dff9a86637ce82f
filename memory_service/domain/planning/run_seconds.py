"""Timetable arithmetic: from seconds per step to p90 minutes of every stage, hidden ones included.

A run is: setup (imports, first kernels, weights, reading the data's index) - k folds of training with
validation - inference over the test set by each fold's model (R19) - writing the submission. Speed errors are
common to every epoch (a card 20 % slower than thought is slower all the time), so they add up; setup errors
are independent of them. All functions broadcast over numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.planning.fits import Fits, fits_of
from memory_service.domain.planning.policy import MEDIAN_SHARE, RESERVE_SHARE

FIRST_EPOCH_FACTOR = 1.15
"""The first pass reads files that are not in the page cache yet and compiles what the others reuse."""

EPOCH_OVERHEAD_S = (1.5, 4.0)
"""(median, p90) per epoch: refilling the loaders' queues, saving the checkpoint, printing."""

FOLD_OVERHEAD_S = (4.0, 10.0)
"""(median, p90) per fold: building the model, copying weights, starting workers."""

SETUP_GPU_S = (22.0, 45.0)
"""(median, p90): imports of torch and the model library 8-20 s, context, cuDNN's choice of kernels, first
batch."""

SETUP_CPU_S = (6.0, 15.0)

WEIGHTS_BYTES_PER_S = (50e6, 15e6)
"""(median, p90) for fetching pretrained weights when they are not on the disk yet."""

INDEX_S_PER_SAMPLE = {"files": (50e-6, 300e-6), "rows": (4e-6, 20e-6)}
"""(median, p90): listing and unpacking one sample that is its own file; reading one row of a table or text
file."""

WRITE_S = (3.0, 8.0)
WRITE_S_PER_SAMPLE = (5e-6, 25e-6)


@dataclass(frozen=True, slots=True)
class Seconds:
    """Time in seconds as 10th percentile, median and 90th percentile; each a float or an array."""

    low: Any
    value: Any
    high: Any

    @classmethod
    def of(cls, estimate: Estimate) -> Seconds:
        """Of an estimate in seconds."""
        return cls(estimate.low, estimate.value, estimate.high)

    def __add__(self, other: Seconds) -> Seconds:
        """Sum of fully correlated times: percentiles add."""
        return Seconds(self.low + other.low, self.value + other.value, self.high + other.high)

    def each(self, change: Callable[[Any], Any]) -> Seconds:
        """The same done to all three."""
        return Seconds(change(self.low), change(self.value), change(self.high))

    def estimate(self, unit: float, basis: str, grade: Grade = "estimated", n: int = 0) -> Estimate:
        """Of plain numbers, in a unit of so many seconds."""
        value, low, high = (float(part) / unit for part in (self.value, self.low, self.high))
        return Estimate(value, low, high, grade, n, basis)

    def taken(self, index: Any) -> Seconds:
        """Some of arrays; what is common to all for each of them."""
        return self.each(lambda part: np.asarray(part)[index] if np.ndim(part) else np.full(len(index), part))

    def times(self, factor: Any) -> Seconds:
        return self.each(lambda part: part * factor)

    def and_independent(self, other: Seconds) -> Seconds:
        """Sum with an independent time: medians add, deviations add in squares."""
        value = self.value + other.value
        less = _root_of_squares(self.value - self.low, other.value - other.low)
        more = _root_of_squares(self.high - self.value, other.high - other.value)
        return Seconds(value - less, value, value + more)

    @property
    def upper(self) -> Seconds:
        """The same without its 10th percentile, which no budget is held against: a search has a third less
        to do."""
        return _Upper(None, self.value, self.high)

    def at_least(self, other: Seconds) -> Seconds:
        """The slower of two stages that run side by side (loader and device), percentile by percentile."""
        parts = (self.low, other.low), (self.value, other.value), (self.high, other.high)
        return Seconds(*(np.maximum(*pair) for pair in parts))


class _Upper(Seconds):
    """Median and 90th percentile; any `Seconds` may be added to it."""

    __slots__ = ()

    def __add__(self, other: Seconds) -> Seconds:
        return _Upper(None, self.value + other.value, self.high + other.high)

    def each(self, change: Callable[[Any], Any]) -> Seconds:
        return _Upper(None, change(self.value), change(self.high))

    def and_independent(self, other: Seconds) -> Seconds:
        value = self.value + other.value
        return _Upper(None, value, value + _root_of_squares(self.high - self.value, other.high - other.value))


def _root_of_squares(one: Any, other: Any) -> Any:
    """`np.hypot` without its care for overflow, in a third of its time: a search does this for every plan."""
    return (one * one + other * other) ** 0.5


def spread(median_and_p90: tuple[float, float]) -> Seconds:
    """Seconds from a (median, p90) pair; the low side mirrors the ratio."""
    median, high = median_and_p90
    return Seconds(median * median / high if high else 0.0, median, high)


def setup_seconds(params_m: Any, n_train: int, *, gpu: bool, pretrained: Any, files: bool) -> Seconds:
    """Everything before the first training step: imports, first kernels, weights, the data's index."""
    base = spread(SETUP_GPU_S if gpu else SETUP_CPU_S)
    weight_bytes = np.asarray(params_m, dtype=np.float64) * 4e6 * np.asarray(pretrained, dtype=np.float64)
    median, p90 = WEIGHTS_BYTES_PER_S
    weights = Seconds(weight_bytes / (median * 4.0), weight_bytes / median, weight_bytes / p90)
    index = spread(INDEX_S_PER_SAMPLE["files" if files else "rows"]).times(float(n_train))
    return base.and_independent(weights).and_independent(index)


def write_seconds(n_test: int) -> Seconds:
    """Averaging the folds' predictions and writing the submission file."""
    return spread(WRITE_S) + spread(WRITE_S_PER_SAMPLE).times(float(n_test))


NOTHING = Seconds(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RunSeconds:
    """The stages of a run and what it needs.

    epoch      one ordinary epoch, validation included
    first_fold   the first fold's training, with its slower first epoch; fold: another's; whole: a fit to all
               rows
    answer     inference by one model; inference: by all
    training_end, total_end   from the start to the end of training / of everything (setup errors independent)
    """

    setup: Seconds
    epoch: Seconds
    first_fold: Seconds
    fold: Seconds
    whole: Seconds
    answer: Seconds
    write: Seconds
    training: Seconds
    inference: Seconds
    training_end: Seconds
    total_end: Seconds

    @classmethod
    def of(
        cls, setup: Seconds, epoch: Seconds, first_fold: Seconds, fold: Seconds, whole: Seconds,
        answer: Seconds, write: Seconds, fits: Fits,
    ) -> RunSeconds:  # fmt: skip
        """A run of these stages with so many fits."""
        training = fold.times(fits.other) + (first_fold.times(fits.first) if fits.by_time else first_fold)
        if fits.refits:
            training = training + whole.times(fits.whole)
        inference = answer.times(fits.models)
        training_end = training.and_independent(setup)
        total_end = (training + inference).and_independent(setup).and_independent(write)
        stages = setup, epoch, first_fold, fold, whole, answer, write
        return cls(*stages, training, inference, training_end, total_end)

    def each(self, change: Callable[[Seconds], Seconds]) -> RunSeconds:
        """The same done to all stages."""
        return RunSeconds(*(change(getattr(self, stage.name)) for stage in fields(self)))

    def taken(self, index: Any) -> RunSeconds:
        """Some of several runs."""
        return self.each(lambda stage: stage.taken(index))

    def repeated(self, fits: Fits) -> RunSeconds:
        """The same with as many fits, after one setup: with more seeds."""
        if np.ndim(fits.seeds) == 0 and fits.seeds == 1:
            return self
        stages = self.setup, self.epoch, self.first_fold, self.fold, self.whole, self.answer, self.write
        return RunSeconds.of(*stages, fits)


WRITTEN_P90 = 1.6
"""Of the seconds of writing an answer: libraries and lengths differ."""

TREE_FOLD_OVERHEAD = spread(FOLD_OVERHEAD_S).times(0.25)
"""Of a fold of boosted trees: data are cut and predicted, no network is loaded."""


def run_seconds(
    setup: Seconds,
    step: Seconds,
    batch_size: Any,
    eval_sample: Seconds,
    *,
    n_train: int,
    n_test: int,
    folds: Any,
    epochs: Any,
    written: Any = 0.0,
    by_time: bool = False,
) -> RunSeconds:
    """Every stage of a network's run of `folds` x `epochs`.

    by_time       rows are split by time: other folds than the latest learn from fewer
    written       seconds per test sample of writing its answer, where text is generated
    step          seconds of one training step of `batch_size` samples, loader included
    eval_sample   seconds per sample of a forward pass in evaluation, loader included
    """
    fits = fits_of(n_train, n_test, folds, by_time=by_time)
    train = step.times(np.ceil(fits.rows / batch_size))
    judge = eval_sample.times(fits.valid)
    epoch = train + judge + spread(EPOCH_OVERHEAD_S)
    fold = epoch.times(epochs) + spread(FOLD_OVERHEAD_S)
    first_fold = fold + train.times(FIRST_EPOCH_FACTOR - 1.0)
    if by_time:
        other = step.times(np.ceil(fits.other_rows / batch_size))
        fold = (other + judge + spread(EPOCH_OVERHEAD_S)).times(epochs) + spread(FOLD_OVERHEAD_S)
    answers = spread((1.0, WRITTEN_P90)).times(written * n_test)
    answer = eval_sample.times(float(n_test)) + answers + spread(FOLD_OVERHEAD_S)
    return RunSeconds.of(setup, epoch, first_fold, fold, NOTHING, answer, write_seconds(n_test), fits)


def minutes_needed(
    run: RunSeconds, reserve_share: float = RESERVE_SHARE, median_share: float = MEDIAN_SHARE
) -> Any:
    """The smallest budget (minutes) that holds: p90 of training within 85 % of it, p90 of all within it,
    median within 80 % of it."""
    late = np.maximum(run.training_end.high / (1.0 - reserve_share), run.total_end.high)
    return np.maximum(late, run.total_end.value / median_share) / 60.0
