"""Whether advice was followed, judged by what the run or a later one reported."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Literal

from memory_service.domain.monitoring.event import MEMORY_KINDS
from memory_service.domain.monitoring.state import State

Followed = Literal["yes", "no", "open"]
"""open: the run still goes on and may take it."""

STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE = 120.0, 0.1
"""Advice to stop was followed if no epoch but the one under way ended after it, and the run sent nothing new
after 2 minutes or a tenth of its time, and an epoch's time."""

SAME_VALUE = 1e-6


def followed(
    at_seconds: float, advice: Mapping[str, Any], state: State, later: Iterable[Mapping[str, Any]] = ()
) -> Followed | None:
    """Whether `advice` (a verdict's JSON form), given at a moment of the run's own time, was taken; None
    where it cannot be known (a continue, a check of something by hand).

    later   what runs of the same model and place that began after this one stated
    """
    action, changes = str(advice["action"]), dict(advice.get("set") or {})
    ended = state.facts.status != "running"
    if action == "stop_and_predict":
        within = max(STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE * at_seconds) + _epoch_seconds(state)
        later_epochs = sum(epoch["done"][0] > at_seconds * 1e6 for epoch in state.summary.epochs.values())
        taken = ended and later_epochs <= 1 and state.now_seconds - at_seconds <= within
    elif action == "add_monitoring":
        taken = _reads_after(state, at_seconds)
    elif action in ("continue", "investigate"):
        return None
    else:
        wanted = {name: value for name, value in changes.items() if name in _STATED}
        if not wanted:
            return None
        taken = all(_stated_since(state, name, value, at_seconds) for name, value in wanted.items())
        taken = taken or any(_began_with(run, wanted) for run in later)
        if not taken and ended and action in ("reduce_epochs", "reduce_folds"):
            taken = _did_no_more(state, wanted)
    if taken:
        return "yes"
    return "no" if ended else "open"


_STATED = ("batch_size", "epochs", "folds", "learning_rate", "num_workers", "grad_accumulation")


def _stated_since(state: State, name: str, value: Any, at_seconds: float) -> bool:
    reported = state.summary.settings.get(name)
    return reported is not None and bool(reported[0] >= at_seconds * 1e6) and _same(reported[2], value)


def _began_with(run: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a later run began with what was advised, as far as runs say such things when they begin."""
    known = {name: value for name, value in wanted.items() if run.get(name) is not None}
    return bool(known) and all(_same(run[name], value) for name, value in known.items())


def _same(a: Any, b: Any) -> bool:
    try:
        return abs(float(a) - float(b)) <= SAME_VALUE * max(abs(float(b)), 1e-12)
    except (TypeError, ValueError):
        return bool(a == b)


def _epoch_seconds(state: State) -> float:
    """Of the latest epochs, as reported."""
    seconds = [record["seconds"][2] for record in state.summary.epochs.values() if "seconds" in record]
    return float(median(seconds)) if seconds else 0.0


def _reads_after(state: State, at_seconds: float) -> bool:
    """A figure that says something of a step's peak came later."""
    later = (state.summary.reading_us or 0) > at_seconds * 1e6
    return later and any(kind in state.summary.peaks for kind in MEMORY_KINDS if kind != "allocated_now")


def _did_no_more(state: State, wanted: Mapping[str, Any]) -> bool:
    """Whether a run ended with at most the advised epochs and folds."""
    folds = [fold for fold in state.summary.folds.values() if fold.last_epoch is not None]
    if not folds:
        return False
    epochs = max((fold.last_epoch or 0) - (fold.first_epoch or 0) + 1 for fold in folds)
    return bool(epochs <= wanted.get("epochs", epochs) and len(folds) <= wanted.get("folds", len(folds)))
