"""Projects the end of training from measured epochs, the first one apart."""

from dataclasses import dataclass
from math import sqrt
from statistics import mean, median
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.units import plural
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.trend import latched, spread_of
from memory_service.domain.planning.hyperparameters import TREE_LEARNING_RATE
from memory_service.domain.planning.run_seconds import FIRST_EPOCH_FACTOR, FOLD_OVERHEAD_S
from memory_service.domain.quality.boosting_rounds import patience_rounds, rounds_trained

Z80 = 1.2816
LEAST_SPREAD = 0.03
"""Epochs of one run on a quiet machine differ by 1-3 %; fewer than three say no better."""

STEPS_ONLY = (1.0, 1.12, 1.4)
"""low, value, high over the time of the training steps alone: an epoch has a validation too."""

SURELY_BEGUN_S = 120.0
"""A prediction by which two epochs would be over by now, counted from here, says nothing any more."""

PATIENCE = 5
"""R16 says 3-5 epochs; without a word of the run or its plan the later one."""

FOLDS_DIFFER = 1.5
"""Best rounds of the folds of one table: 1.5 times the longest so far is past the 90th percentile."""

MOST_RESERVED = 0.5
"""Of the budget, for inference that was only predicted: what needs more wants fewer models to predict with,
not an end before anything is learned."""

ENOUGH_READINGS = 3
"""Measured epochs that must agree before training is ended by a projection: an end cannot be taken back."""

OWN_ESTIMATE = 0.15
"""Half the width of an estimate that a trainer prints: a mean of its steps so far, without evaluations."""

LATCH_OFF = 0.95
"""An alarm of time goes off again only when the projection is 5 % inside the deadline."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Seconds of one epoch and of the end of training (from the run's start), each low, value, high (80 %).

    epochs_left   in all folds; n: epochs measured
    certain       at least one ordinary epoch was measured, and of boosted trees a whole fold
    """

    epoch: Estimate
    end: Estimate
    epochs_left: float
    n: int
    certain: bool


def training_deadline_seconds(view: RunView) -> float | None:
    """When training must be over: the plan's reserve stays (R14), or what inference needs if more, at most
    half of the budget."""
    budget = view.state.budget_seconds
    if budget is None:
        return None
    inference = view.state.expected.inference_minutes
    reserve = view.state.expected.reserve_share * budget
    needed = 0.0 if inference is None else 60.0 * inference.high
    return budget - max(reserve, min(needed, MOST_RESERVED * budget))


def project(view: RunView) -> Projection | None:
    """The end of training, measured or else predicted; None when neither, or the epochs are not counted."""
    if view.state.facts.reserve_minutes is not None:  # other models follow
        return None
    epochs = view.state.whole("epochs")
    whole = None if view.epochs and epochs is not None else _by_run_progress(view) or _by_own_estimate(view)
    if epochs is None or whole is not None or view.state.facts.status != "running":
        return whole
    one, n, basis = epoch_seconds(view)
    if one is None:
        return None
    return _projection(view, one, n, basis, epochs)


def _projection(view: RunView, one: Estimate, n: int, basis: str, epochs: int) -> Projection:
    least, left, most = _epochs_left(view, epochs)
    into = seconds_into_epoch(view, one.value)
    folds = max(0, (view.state.whole("folds") or 1) - view.position.fold_index - 1)
    usual_gap, late_gap = FOLD_OVERHEAD_S
    value = view.used + max(0.0, left * one.value - into) + folds * usual_gap
    low = view.used + max(0.0, least * one.low - into)
    high = view.used + max(0.0, most * one.high - into) + folds * late_gap
    end = Estimate(value, low, high, one.grade, one.n, basis)
    return Projection(one, end, left, n, n > 0 and (least == left or bool(view.position.per_fold)))


def seconds_into_epoch(view: RunView, epoch_seconds: float) -> float:
    """How much of the epoch under way is done: since the one before; of a run's first as its steps say."""
    if view.epochs:
        return min(max(0.0, view.now - view.epochs[-1].at_seconds), epoch_seconds)
    steps, done = view.steps_per_epoch, view.steps_seen
    if not steps or not done or view.state.since_us or view.position.fold_index:
        return 0.0
    return epoch_seconds * min(1.0, done / steps)


def epoch_seconds(view: RunView) -> tuple[Estimate | None, int, str]:
    """Seconds of one ordinary epoch, how many were measured, and from what."""
    later = view.later_epoch_seconds
    if later:
        n, middle = len(later), median(later)
        spread = spread_of(later, LEAST_SPREAD)
        width = Z80 * sqrt(spread**2 / n + LEAST_SPREAD**2)
        basis = f"median of {plural(n, 'measured epoch')} after the first"
        return _around(middle, width, "measured", n, basis), n, basis
    first = view.first_epoch_seconds
    if first and not view.state.facts.is_trees:  # a first round has the reading and binning of all rows in it
        basis = f"the first epoch, which takes about {FIRST_EPOCH_FACTOR:g} times an ordinary one"
        value = first / FIRST_EPOCH_FACTOR
        return Estimate(value, value / FIRST_EPOCH_FACTOR, first, "measured", 1, basis), 0, basis
    steps = view.steps_per_epoch
    if steps and view.step_seconds and (view.steps_seen or 0) >= view.state.expected.not_before_steps:
        low, value, high = (factor * steps * view.step_seconds for factor in STEPS_ONLY)
        basis = f"{view.steps_seen} measured steps, {steps} an epoch"
        return Estimate(value, low, high, "estimated", 1, basis), 0, basis
    predicted, of_batch = view.state.expected.epoch_seconds, view.state.expected.batch_size
    if predicted is None or of_batch not in (None, view.state.batch_size):
        return None, 0, ""
    if view.now > SURELY_BEGUN_S + 2.0 * predicted.high:
        return None, 0, ""
    return predicted, 0, f"predicted, nothing was measured yet ({predicted.basis})"


def _around(value: float, width: float, grade: Any, n: int, basis: str) -> Estimate:
    return Estimate(value, value / (1.0 + width), value * (1.0 + width), grade, n, basis)


Span = tuple[float, float, float]
"""At least, as is expected, at the most."""


def _epochs_left(view: RunView, epochs: int) -> Span:
    """In all folds: early stopping ends folds sooner than planned."""
    at = view.position
    folds = view.state.whole("folds") or 1
    if at.fold_index >= folds:
        return 0.0, 0.0, 0.0
    later = max(0, folds - at.fold_index - 1)
    spans = zip(present_fold_epochs(view, epochs), later_fold_epochs(view, epochs), strict=True)
    least, left, most = (max(0.0, here - at.epochs_done) + later * other for here, other in spans)
    return least, left, most


def later_fold_epochs(view: RunView, epochs: int) -> Span:
    """Epochs of a fold to come: as finished folds took; the first fold of boosted trees by the round at which
    they are expected to be best; else the planned ones."""
    best, finished = view.state.expected.best_epoch, view.position.per_fold
    usual = mean(finished) if finished else float(epochs)
    if best is None or not view.state.facts.is_trees:
        return usual, usual, float(epochs)
    if finished:
        return usual, usual, min(float(epochs), FOLDS_DIFFER * max(finished))
    return rounds_trained(best, patience_of(view), epochs)


def present_fold_epochs(view: RunView, epochs: int) -> Span:
    """The same of the fold that is being trained. Boosted trees that gain past the round that was expected go
    on for the patience at least, and perhaps for as long again."""
    least, usual, most = later_fold_epochs(view, epochs)
    if view.state.expected.best_epoch is None or not view.state.facts.is_trees:
        here = usual if view.position.per_fold else float(epochs)
        return here, here, float(epochs)
    latest = best_so_far(view)
    reached = 0 if latest is None else latest[1] - view.first_number + 1
    soon = min(epochs, reached + patience_of(view))
    return max(least, soon), max(usual, soon), min(float(epochs), max(most, float(reached + soon)))


def best_so_far(view: RunView) -> tuple[float, int, str] | None:
    """(value, epoch, what) of the best validation of the present fold: by the metric, else by the loss."""
    fold = view.summary.folds.get(view.epochs[-1].fold) if view.epochs else None
    if fold is None:
        return None
    metric = {"max": fold.highest_metric, "min": fold.lowest_metric}.get(view.state.metric_direction or "")
    if metric is not None:
        return (*metric, "metric")
    return None if fold.lowest_loss is None else (*fold.lowest_loss, "validation loss")


def patience_of(view: RunView) -> int:
    """Epochs without a gain before the fold ends, as the run or its plan says, else as is usual."""
    state = view.state
    usual = PATIENCE
    if state.facts.is_trees:
        usual = patience_rounds(state.facts.learning_rate or TREE_LEARNING_RATE)
    return state.whole("patience") or state.expected.patience or usual


def _by_run_progress(view: RunView) -> Projection | None:
    """The projection of a progress bar over all epochs of a fold (Hugging Face)."""
    progress = view.summary.progress
    if progress is None or view.state.facts.status != "running":
        return None
    _, _, of, step, elapsed, scope = progress[2]
    began = view.summary.first_step_us
    if elapsed is None and began is not None:
        elapsed = max(0, progress[0] - began) / 1e6
    if scope != "run" or not of or not elapsed or step < view.state.expected.not_before_steps:
        return None
    basis = f"{step} of {of} steps of the run"
    later = max(0, (view.state.whole("folds") or 1) - view.position.fold_index - 1)
    end = _around((of - step + later * of) * elapsed / step, 0.1, "measured", 1, basis)
    at = progress[0] / 1e6 + view.used - view.now
    whole = Estimate(at + end.value, at + end.low, at + end.high, "measured", 1, basis)
    epochs = max(1, view.state.whole("epochs") or 1)
    one = _around(of * elapsed / step / epochs, 0.1, "measured", 1, basis)
    return Projection(one, whole, epochs * ((of - step) / of + later), 1, certain=True)


def _by_own_estimate(view: RunView) -> Projection | None:
    """The projection of the trainer's own estimate of what is left (`eta: 16:31:20`)."""
    stamped = view.summary.settings.get("eta_seconds")
    enough = (view.steps_seen or 0) >= view.state.expected.not_before_steps
    if stamped is None or not enough or view.state.facts.status != "running":
        return None
    at, left = stamped[0] / 1e6 + view.used - view.now, float(stamped[2])
    rest = _around(left, OWN_ESTIMATE, "measured", 1, "the trainer's own estimate of what is left")
    epochs = max(1, view.state.whole("epochs") or 1)
    left_epochs = max(0.0, epochs - float(view.position.epochs_done))
    one = rest.scaled(1.0 / left_epochs) if left_epochs else rest
    end = Estimate(at + rest.value, at + rest.low, at + rest.high, "measured", 1, rest.basis)
    return Projection(one, end, left_epochs, 1, certain=True)


def too_late(view: RunView, projection: Projection, deadline: float) -> bool:
    """Whether training will miss its deadline: at the median, and with only a first epoch or steps measured
    even at the early end. Near the deadline it stays as it was (`LATCH_OFF`), judged epoch after epoch."""
    if not projection.certain:
        return projection.end.low > deadline
    end = projection.end.value
    if not LATCH_OFF * deadline <= end <= deadline:
        return end > deadline
    return latched([*_ends_epoch_after_epoch(view), end], deadline, LATCH_OFF * deadline)


def is_agreed(view: RunView, seconds: float) -> bool:
    """Whether the latest epochs, `ENOUGH_READINGS` of them at least, each took longer than that."""
    latest = [e.seconds for e in view.epochs if e.seconds is not None][-ENOUGH_READINGS:]
    return len(latest) == ENOUGH_READINGS and min(latest) > seconds


def _ends_epoch_after_epoch(view: RunView) -> list[float]:
    """What the projection was after each epoch, by the epochs until then."""
    epochs = view.state.whole("epochs") or 1
    _, left, _ = _epochs_left(view, epochs)
    late = view.used > view.now  # then nobody saw when each ended
    rows = [] if late else [e for e in view.epochs if not e.first and e.seconds is not None]
    ends = []
    for i, row in enumerate(rows):
        middle = median(r.seconds or 0.0 for r in rows[: i + 1])
        ends.append(row.at_seconds + (left + len(rows) - 1 - i) * middle)
    return ends
