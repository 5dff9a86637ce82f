"""Will it be done in time, and if not, which mildest change still makes it? (R11-R17)

The end of training is projected from measured epochs, the first one apart; each answer says from what.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, sqrt
from statistics import mean, median
from typing import Any

from memory_service.domain.budget import FIRST_EPOCH_FACTOR, FOLD_OVERHEAD_S, RESERVE_SHARE
from memory_service.domain.estimate import Estimate
from memory_service.domain.quality import learning_of, quality_index
from memory_service.domain.schedule import TREE_PATIENCE_ROUNDS
from memory_service.domain.trend import latched, spread_of
from memory_service.domain.watch_batch import EARLY_SHARE, accumulation_for, fastest_batch
from memory_service.domain.watch_speed import is_loader_bound
from memory_service.domain.watch_verdict import Answer
from memory_service.domain.watch_view import Position, View

__all__ = ["Projection", "early_stopping", "project", "time_answer", "training_deadline_seconds"]

Z80 = 1.2816
LEAST_SPREAD = 0.03
"""Epochs of one run on a quiet machine differ by 1-3 %; fewer than three say no better."""

STOP_FROM_SHARE = 0.70
"""R15; held back only while even the late end of the projection keeps the deadline."""

LATCH_OFF = 0.95
"""An alarm of time goes off again only when the projection is 5 % inside the deadline."""

STEPS_ONLY = (1.0, 1.12, 1.4)
"""low, value, high over the time of the training steps alone: an epoch has a validation too."""

RELAUNCH_SECONDS = 45.0
"""p90 of starting again: imports, context, first kernels (`domain.budget`)."""

RELAUNCH_GAIN = 1.3
"""Starting again must bring this many times the epochs that staying brings."""

PREDICTION_ERROR = 1.15
"""A predicted gain is taken down by the usual error of such predictions (docs/accuracy.md) before it is acted
upon."""

PATIENCE = 5
"""R16 says 3-5 epochs; without a word of the run or its plan the later one."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Seconds of one epoch and of the end of training (from the run's start), each low, value, high (80 %).

    epochs_left   in all folds; n: epochs measured; certain: at least one ordinary epoch was measured
    """

    epoch: Estimate
    end: Estimate
    epochs_left: float
    n: int

    @property
    def certain(self) -> bool:
        return self.n > 0


def training_deadline_seconds(view: View) -> float | None:
    """When training must be over: 15 % of the budget stay (R14), or what inference needs where that is
    more."""
    budget = view.state.budget_seconds
    if budget is None:
        return None
    inference = view.state.expected.inference_minutes
    return budget - max(RESERVE_SHARE * budget, 0.0 if inference is None else 60.0 * inference.high)


def project(view: View) -> Projection | None:
    """The end of training, measured or else predicted; None when neither, or the epochs are not counted."""
    epochs = view.state.whole("epochs")
    whole = None if view.epochs else _by_run_progress(view)
    if epochs is None or whole is not None or view.state.facts.status != "running":
        return whole
    one, n, basis = epoch_seconds(view)
    if one is None:
        return None
    return _projection(view, one, n, basis, epochs)


def _projection(view: View, one: Estimate, n: int, basis: str, epochs: int) -> Projection:
    left, most = _epochs_left(view, epochs)
    into = min(max(0.0, view.now - view.epochs[-1].at_seconds), one.value) if view.epochs else 0.0
    folds = max(0, (view.state.whole("folds") or 1) - view.position.fold_index - 1)
    gaps = folds * FOLD_OVERHEAD_S[0]
    end = Estimate(
        view.now + max(0.0, left * one.value - into) + gaps,
        view.now + max(0.0, left * one.low - into),
        view.now + max(0.0, most * one.high - into) + folds * FOLD_OVERHEAD_S[1],
        one.grade,
        one.n,
        basis,
    )
    return Projection(one, end, left, n)


def epoch_seconds(view: View) -> tuple[Estimate | None, int, str]:
    """Seconds of one ordinary epoch, how many were measured, and from what."""
    later = view.later_epoch_seconds
    if later:
        n, middle = len(later), median(later)
        spread = spread_of(later, LEAST_SPREAD)
        width = Z80 * sqrt(spread**2 / n + LEAST_SPREAD**2)
        basis = f"median of {n} measured epoch{'s' if n > 1 else ''} after the first"
        return _around(middle, width, "measured", n, basis), n, basis
    first = view.first_epoch_seconds
    if first:
        basis = f"the first epoch, which takes about {FIRST_EPOCH_FACTOR:g} times an ordinary one"
        value = first / FIRST_EPOCH_FACTOR
        return Estimate(value, value / FIRST_EPOCH_FACTOR, first, "measured", 1, basis), 0, basis
    steps = _steps_per_epoch(view)
    if steps and view.step_seconds and (view.steps_seen or 0) >= view.state.expected.not_before_steps:
        low, value, high = (factor * steps * view.step_seconds for factor in STEPS_ONLY)
        basis = f"{view.steps_seen} measured steps of {steps} an epoch"
        return Estimate(value, low, high, "measured", 1, basis), 0, basis
    told = view.state.expected
    if told.epoch_seconds is not None and told.batch_size in (None, view.state.batch_size):
        return told.epoch_seconds, 0, f"predicted, nothing was measured yet ({told.epoch_seconds.basis})"
    return None, 0, ""


def _around(value: float, width: float, grade: Any, n: int, basis: str) -> Estimate:
    return Estimate(value, value / (1.0 + width), value * (1.0 + width), grade, n, basis)


def _steps_per_epoch(view: View) -> int | None:
    progress = view.summary.progress
    if progress is not None and progress[2][2] and progress[2][5] == "epoch":
        return int(progress[2][2])
    told = view.state.whole("steps_per_epoch")
    n_train, batch = view.state.whole("n_train"), view.state.batch_size
    if told or not n_train or not batch:
        return told
    folds = view.state.whole("folds") or 1
    share = 0.8 if folds <= 1 else 1.0 - 1.0 / folds
    return max(1, -(-int(n_train * share) // batch))


def _epochs_left(view: View, epochs: int) -> tuple[float, float]:
    """(as finished folds went, if every fold goes to its end): early stopping may have ended folds sooner."""
    at = view.position
    folds = view.state.whole("folds") or 1
    usual = mean(at.per_fold) if at.per_fold else float(epochs)
    later = max(0, folds - at.fold_index - 1)
    if at.fold_index >= folds:
        return 0.0, 0.0
    here = max(0, epochs - at.epochs_done)
    soon = max(0.0, min(float(here), usual - at.epochs_done)) if at.per_fold else float(here)
    return soon + later * usual, here + later * epochs


def _by_run_progress(view: View) -> Projection | None:
    """A progress bar over all epochs of a fold (Hugging Face) tells of its end by itself."""
    progress = view.summary.progress
    if progress is None or view.state.facts.status != "running":
        return None
    _, _, of, step, elapsed, scope = progress[2]
    if scope != "run" or not of or not elapsed or step < view.state.expected.not_before_steps:
        return None
    basis = f"{step} of {of} steps of the run"
    later = max(0, (view.state.whole("folds") or 1) - view.position.fold_index - 1)
    end = _around((of - step + later * of) * elapsed / step, 0.1, "measured", 1, basis)
    at = progress[0] / 1e6
    whole = Estimate(at + end.value, at + end.low, at + end.high, "measured", 1, basis)
    epochs = max(1, view.state.whole("epochs") or 1)
    one = _around(of * elapsed / step / epochs, 0.1, "measured", 1, basis)
    return Projection(one, whole, epochs * ((of - step) / of + later), 1)


def too_late(view: View, projection: Projection, deadline: float) -> bool:
    """Whether training will miss its deadline: at the median, and with only a first epoch or steps measured
    even at the early end. Near the deadline it stays as it was (`LATCH_OFF`), judged epoch after epoch."""
    if not projection.certain:
        return projection.end.low > deadline
    end = projection.end.value
    if not LATCH_OFF * deadline <= end <= deadline:
        return end > deadline
    return latched([*_ends_epoch_after_epoch(view), end], deadline, LATCH_OFF * deadline)


def _ends_epoch_after_epoch(view: View) -> list[float]:
    """What the projection was after each epoch, by the epochs until then."""
    epochs = view.state.whole("epochs") or 1
    left, _ = _epochs_left(view, epochs)
    rows = [e for e in view.epochs if not e.first and e.seconds is not None]
    ends = []
    for i, row in enumerate(rows):
        middle = median(r.seconds or 0.0 for r in rows[: i + 1])
        ends.append(row.at_seconds + (left + len(rows) - 1 - i) * middle)
    return ends


def time_answer(view: View, projection: Projection | None) -> Answer | None:
    """R12-R15: None when training ends in time, or nobody knows yet."""
    budget, deadline = view.state.budget_seconds, training_deadline_seconds(view)
    if budget is None or deadline is None or view.state.facts.status != "running":
        return None
    if projection is not None and projection.epochs_left <= 0 and view.epochs:
        return None
    used = view.now / budget
    if view.now >= deadline:
        return _stop(
            view, "R14", f"{100 * used:.0f} % of the budget is used; the rest is for inference and writing"
        )
    late = projection is not None and too_late(view, projection, deadline)
    if used > STOP_FROM_SHARE and (projection is None or late or projection.end.high > deadline):
        end = "" if projection is None else f"; training would end at minute {projection.end.value / 60:.1f}"
        return _stop(view, "R15", f"{100 * used:.0f} % of the budget is used and training is not done{end}")
    if projection is None or not late:
        return None
    return _milder(view, projection, deadline)


def _stop(view: View, rule: str, why: str) -> Answer:
    at = view.position
    models = at.fold_index + (1 if at.epochs_done > 0 else 0)
    kept = "the folds that exist" if models else "whatever checkpoint exists"
    return Answer(
        "stop_and_predict",
        f"{why}: stop training, predict with {kept} (R19).",
        rule,
        {"stop_training": True, "predict_with_folds": models},
        "critical",
        dict(view.state.expected.smaller or {}),
    )


def _milder(view: View, projection: Projection, deadline: float) -> Answer:
    """The change that keeps the deadline and costs the least expected quality (`domain.quality`)."""
    state, at = view.state, view.position
    folds, epochs = state.whole("folds") or 1, state.whole("epochs") or 1
    into = (
        min(max(0.0, view.now - view.epochs[-1].at_seconds), projection.epoch.value) if view.epochs else 0.0
    )
    room = (deadline - view.now + into) / projection.epoch.high
    cannot = (
        f"It cannot finish: {folds} fold{'s' if folds > 1 else ''} x {epochs} epochs at "
        f"{projection.epoch.value:.3g} s an epoch end training at minute {projection.end.value / 60:.1f}, "
        f"the deadline is minute {deadline / 60:.1f} of {(state.facts.minutes or 0):g}"
    )
    stay = _best_cut(view, room, folds, epochs)
    faster = _relaunch(view, projection, deadline, cannot, 0.0 if stay is None else room)
    if faster is not None:
        return faster
    if stay is not None:
        to_folds, to_epochs = stay
        changes = {
            k: v for k, v, was in (("folds", to_folds, folds), ("epochs", to_epochs, epochs)) if v != was
        }
        if changes:
            what = " and ".join(
                f"{name} {was} -> {changes[name]}"
                for name, was in (("folds", folds), ("epochs", epochs))
                if name in changes
            )
            first_fold = at.fold_index == 0 and folds > 1
            share = epochs * projection.epoch.value / (state.budget_seconds or inf)
            return Answer(
                "reduce_folds" if "folds" in changes else "reduce_epochs",
                f"{cannot}. Set {what}: that keeps it, with 15 % left for inference (R14), at the "
                "least loss of expected quality.",
                "R13" if first_fold and share > EARLY_SHARE and at.epochs_done else "R12",
                changes,
                "critical" if projection.end.low > deadline else "warning",
            )
    if at.epochs_done or at.fold_index:
        return _stop(view, "R14", f"{cannot}; not even one more epoch fits")
    return _smaller(view, projection, deadline, cannot)


def _best_cut(
    view: View, room: float, folds: int, epochs: int, at: Position | None = None
) -> tuple[int, int] | None:
    """(folds, epochs) that `room` more epochs allow, of the highest expected quality; None when none do."""
    at = at or view.position
    facts = view.state.facts
    learning = learning_of(facts.task, facts.pretrained, facts.is_trees)
    n_train = float(view.state.whole("n_train") or 10_000)
    best: tuple[float, int, int] | None = None
    for to_folds in range(folds, max(1, at.fold_index + (at.epochs_done > 0)) - 1, -1):
        later = to_folds - at.fold_index - 1
        if later < 0:
            to_epochs = epochs
        else:
            to_epochs = min(epochs, floor((room + at.epochs_done) / (later + 1)))
            if to_epochs < at.epochs_done:
                to_epochs = floor(room / later) if later else at.epochs_done
        if to_epochs < 1 or (to_epochs <= at.epochs_done and later <= 0 and to_folds == folds):
            continue
        quality = float(
            quality_index(
                80.0,
                1.0,
                1.0,
                to_epochs,
                to_folds,
                gap=learning.gap,
                tau=learning.epochs,
                gain=learning.fold_gain,
                octave_up=0.0,
                octave_down=0.0,
                n_train=n_train,
            )
        )
        if best is None or quality > best[0]:
            best = (quality, to_folds, to_epochs)
    return None if best is None else best[1:]


def _relaunch(view: View, projection: Projection, deadline: float, cannot: str, room: float) -> Answer | None:
    """Starting again at a faster batch, where the predicted curve says it brings more epochs than staying."""
    budget = view.state.budget_seconds or inf
    batch = view.state.batch_size
    if view.now > EARLY_SHARE * budget or batch is None or is_loader_bound(view):
        return None
    faster = fastest_batch(view)
    if faster is None:
        return None
    to_batch, gain = faster[0], faster[1] / PREDICTION_ERROR
    again = (deadline - view.now - RELAUNCH_SECONDS) * gain / projection.epoch.high
    if again < max(1.0, RELAUNCH_GAIN * room):
        return None
    folds, epochs = view.state.whole("folds") or 1, view.state.whole("epochs") or 1
    cut = _best_cut(view, again, folds, epochs, Position(0, 0, ()))
    if cut is None:
        return None
    changes = {"batch_size": to_batch, **accumulation_for(view, to_batch)}
    changes |= {k: v for k, v, was in (("folds", cut[0], folds), ("epochs", cut[1], epochs)) if v != was}
    return Answer(
        "relaunch",
        f"{cannot}. Batch {to_batch} is predicted to be {gain:.1f} times as fast as {batch}: started "
        f"again now "
        f"it brings about {again:.0f} epochs where staying brings {room:.0f}.",
        "R12",
        changes,
        "critical",
    )


def _smaller(view: View, projection: Projection, deadline: float, cannot: str) -> Answer:
    """Not one epoch fits and nothing is trained yet: a smaller model where one is known, else fewer
    samples."""
    smaller = view.state.expected.smaller
    if smaller:
        changes = dict(smaller)
        return Answer(
            "relaunch",
            f"{cannot}. Not one epoch fits: start again with {changes.get('model')}.",
            "R12",
            changes,
            "critical",
        )
    n_train = view.state.whole("n_train")
    share = max(0.0, deadline - view.now - RELAUNCH_SECONDS) / projection.epoch.high / 2
    if n_train and share * n_train >= 1:
        keep = int(share * n_train)
        return Answer(
            "relaunch",
            f"{cannot}. Not one epoch fits: start again on {keep} of {n_train} samples for two epochs, or "
            f"with a "
            "smaller model.",
            "R12",
            {"n_train": keep, "epochs": 2, "folds": 1},
            "critical",
        )
    return _stop(view, "R14", f"{cannot}; nothing fits any more")


def early_stopping(view: View, projection: Projection | None) -> Answer | None:
    """R16: the best epoch lies further back than the patience, by validation loss or a metric of known
    way."""
    at, state = view.position, view.state
    epochs, folds = state.whole("epochs"), state.whole("folds") or 1
    if not view.epochs or at.epochs_done == 0 or state.facts.status != "running":
        return None
    fold = view.summary.folds.get(view.epochs[-1].fold)
    if fold is None or fold.last_epoch is None:
        return None
    metric = {"max": fold.highest_metric, "min": fold.lowest_metric}.get(state.facts.metric_direction or "")
    best = metric or fold.lowest_loss
    default = TREE_PATIENCE_ROUNDS if state.facts.is_trees else PATIENCE
    patience = state.whole("patience") or state.expected.patience or default
    since = 0 if best is None else at.epochs_done - 1 + view.first_number - best[1]
    if best is None or since <= patience:
        return None
    if epochs is not None and at.epochs_done >= epochs:
        return None
    what = "metric" if metric else "validation loss"
    why = (
        f"The best {what} ({best[0]:.4g}) is {since} epochs back, at epoch {best[1]}; patience is {patience}"
    )
    if at.fold_index + 1 >= folds:
        return Answer(
            "stop_and_predict",
            f"{why}: stop and predict with the weights of epoch {best[1]}.",
            "R16",
            {"stop_training": True, "best_epoch": best[1], "predict_with_folds": at.fold_index + 1},
        )
    left = "" if projection is None else f", {projection.epochs_left:.0f} epochs were still planned"
    return Answer(
        "reduce_epochs",
        f"{why}: end this fold now and go on to the next{left}.",
        "R16",
        {"epochs": at.epochs_done},
    )
