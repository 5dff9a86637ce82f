"""Whether the run meets its deadline, and the mildest change that makes it (R11-R15); whether the fold still
improves (R16)."""

from math import floor, inf

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.monitoring.batch_change import (
    EARLY_SHARE,
    RESTART_SECONDS,
    accumulation_for,
    fastest_batch,
)
from memory_service.domain.monitoring.end_of_training import (
    Projection,
    best_so_far,
    is_agreed,
    later_fold_epochs,
    patience_of,
    present_fold_epochs,
    seconds_into_epoch,
    too_late,
    training_deadline_seconds,
)
from memory_service.domain.monitoring.run_view import Position, RunView
from memory_service.domain.monitoring.slowdown import is_loader_bound
from memory_service.domain.monitoring.verdict import Action, Answer, Severity, advise, keep_going
from memory_service.domain.quality.boosting_rounds import points_short
from memory_service.domain.quality.quality_index import fold_gain, learning_of, quality_index

STOP_FROM_SHARE = 0.70
"""R15; waits only while even the late end of the projection keeps the deadline."""

RELAUNCH_GAIN = 1.3
"""Starting again must bring this many times the epochs that staying brings."""

PREDICTION_ERROR = 1.15
"""A predicted gain is taken down by the usual error of such predictions (docs/methods/accuracy.md) before it
is acted upon."""


def time_answer(view: RunView, projection: Projection | None) -> Answer | None:
    """R12-R15: None when training ends in time, or nobody knows yet."""
    budget, deadline = view.state.budget_seconds, training_deadline_seconds(view)
    if budget is None or deadline is None or view.state.facts.status != "running":
        return None
    if projection is not None and projection.epochs_left <= 0 and view.epochs:
        return None
    own = view.state.facts.reserve_minutes
    if own is not None and view.used < budget - 60.0 * own:
        return None
    used = view.used / budget
    if view.used >= deadline:
        code = "budget-used" if used < 1.0 else "budget-over"
        return _stop(view, "R14", sentence(code, percent=100 * used))
    late = projection is not None and too_late(view, projection, deadline)
    if used > STOP_FROM_SHARE and (projection is None or late or projection.end.high > deadline):
        if projection is None:
            return _stop(view, "R15", sentence("not-done", percent=100 * used))
        until = {"end": projection.end.value / 60, "deadline": deadline / 60}
        return _stop(view, "R15", sentence("not-done-until", percent=100 * used, **until))
    if projection is None or not late:
        return None
    return _milder(view, projection, deadline)


def _stop(view: RunView, rule: str, finding: Sentence) -> Answer:
    at = view.position
    models = at.fold_index + (1 if at.epochs_done > 0 else 0)
    why = sentence("stop-with-folds" if models else "stop-with-checkpoint", finding=finding)
    changes = {"stop_training": True} | ({"predict_with_folds": models} if models else {})
    smaller = dict(view.state.expected.smaller or {})
    return advise("stop_and_predict", why, rule, changes, "critical", smaller)


def _milder(view: RunView, projection: Projection, deadline: float) -> Answer | None:
    """The change that keeps the deadline and costs the least expected quality
    (`domain.quality.quality_index`); None where nothing has to change."""
    state, at = view.state, view.position
    folds, epochs, unit = state.whole("folds") or 1, state.whole("epochs") or 1, state.epoch_word
    about = ""
    if state.facts.is_trees:
        needed = round(max(later_fold_epochs(view, epochs)[1], present_fold_epochs(view, epochs)[1]))
        about, epochs = "about " if needed < epochs else "", max(1, needed, at.epochs_done)
    into = seconds_into_epoch(view, projection.epoch.value)
    room = (deadline - view.used + into) / projection.epoch.high
    cannot = sentence(
        "cannot-finish", folds=folds, s="s" if folds > 1 else "", about=about, epochs=epochs, unit=unit,
        seconds=projection.epoch.value, end=projection.end.value / 60, deadline=deadline / 60,
        minutes=state.facts.minutes or 0,
    )  # fmt: skip
    stay = _best_cut(view, room, folds, epochs)
    faster = _relaunch(view, projection, deadline, cannot, 0.0 if stay is None else room)
    if faster is not None:
        return faster
    if stay is not None:
        to_folds, to_epochs = stay
        planned = {"folds": folds, "epochs": epochs}
        changes = _changed(planned, to_folds, to_epochs)
        if not changes:
            return None  # even at the late end of an epoch's time the planned ones fit
        what = " and ".join(f"{name} {planned[name]} -> {value}" for name, value in changes.items())
        first_fold = at.fold_index == 0 and folds > 1
        share = epochs * projection.epoch.value / (state.budget_seconds or inf)
        reserve = 100 * state.expected.reserve_share
        why = sentence("set-fewer", finding=cannot, changes=what, reserve=reserve)
        action: Action = "reduce_folds" if "folds" in changes else "reduce_epochs"
        rule = "R13" if first_fold and share > EARLY_SHARE and at.epochs_done else "R12"
        severity: Severity = "critical" if projection.end.low > deadline else "warning"
        return advise(action, why, rule, changes, severity)
    if not (at.epochs_done or at.fold_index):
        return _smaller(view, projection, deadline, cannot)
    if is_agreed(view, deadline - view.used + into):
        return _stop(view, "R14", sentence("none-fits", finding=cannot, unit=unit))
    why = sentence("perhaps-none-fits", finding=cannot, unit=unit)
    return keep_going(why, "R12", state.expected.smaller)


def _changed(planned: dict[str, int], folds: int, epochs: int) -> dict[str, int]:
    cut = {"folds": folds, "epochs": epochs}
    return {name: value for name, value in cut.items() if value != planned[name]}


def _best_cut(
    view: RunView, room: float, folds: int, epochs: int, at: Position | None = None
) -> tuple[int, int] | None:
    """(folds, epochs) that `room` more epochs allow, of the highest expected quality; None when none do.

    epochs   that a fold needs: the planned ones; of boosted trees those they are expected to train
    """
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
        if facts.is_trees:
            gained = float(fold_gain(learning.fold_gain, to_folds, n_train))
            quality = gained - points_short(epochs, to_epochs)
        else:
            quality = float(quality_index(80.0, 1.0, to_epochs, to_folds, learning, n_train))
        if best is None or quality > best[0]:
            best = (quality, to_folds, to_epochs)
    return None if best is None else best[1:]


def _relaunch(
    view: RunView, projection: Projection, deadline: float, cannot: Sentence, room: float
) -> Answer | None:
    """Starting again at a faster batch, where the predicted curve says it brings more epochs than staying."""
    budget = view.state.budget_seconds or inf
    batch = view.state.batch_size
    if view.used > EARLY_SHARE * budget or batch is None or is_loader_bound(view):
        return None
    faster = fastest_batch(view)
    if faster is None:
        return None
    to_batch, gain = faster[0], faster[1] / PREDICTION_ERROR
    again = (deadline - view.used - RESTART_SECONDS) * gain / projection.epoch.high
    if again < max(1.0, RELAUNCH_GAIN * room):
        return None
    folds, epochs = view.state.whole("folds") or 1, view.state.whole("epochs") or 1
    cut = _best_cut(view, again, folds, epochs, Position(0, 0, ()))
    if cut is None:
        return None
    changes = {"batch_size": to_batch, **accumulation_for(view, to_batch)}
    changes |= _changed({"folds": folds, "epochs": epochs}, *cut)
    speeds = {"batch": batch, "to_batch": to_batch, "gain": gain, "again": again, "room": room}
    why = sentence("restart-faster", finding=cannot, **speeds)
    return Answer("relaunch", why, "R12", changes, "critical")


def _smaller(view: RunView, projection: Projection, deadline: float, cannot: Sentence) -> Answer:
    """Not one epoch fits and nothing is trained yet: a smaller model where one is known, else fewer
    samples; an end now would leave nothing to predict with."""
    smaller = view.state.expected.smaller
    if smaller:
        why = sentence("restart-smaller", finding=cannot, model=smaller.get("model"))
        return Answer("relaunch", why, "R12", dict(smaller), "critical")
    n_train = view.state.whole("n_train")
    share = max(0.0, deadline - view.used - RESTART_SECONDS) / projection.epoch.high / 2
    if n_train and share * n_train >= 1:
        keep = int(share * n_train)
        why = sentence("restart-on-fewer", finding=cannot, keep=keep, n_train=n_train)
        changes = {"n_train": keep, "epochs": 2, "folds": 1}
        return Answer("relaunch", why, "R12", changes, "critical")
    return keep_going(sentence("nothing-fits", finding=cannot), "R12")


def early_stopping(view: RunView, projection: Projection | None) -> Answer | None:
    """R16: the best epoch, by metric or validation loss, lies further back than the patience."""
    at, state = view.position, view.state
    epochs, folds = state.whole("epochs"), state.whole("folds") or 1
    if not view.epochs or at.epochs_done == 0 or state.facts.status != "running":
        return None
    best, patience = best_so_far(view), patience_of(view)
    since = 0 if best is None else at.epochs_done - 1 + view.first_number - best[1]
    if best is None or since <= patience:
        return None
    if epochs is not None and at.epochs_done >= epochs:
        return None
    what, unit = best[2], view.state.epoch_word
    back = {"what": what, "best": best[0], "since": since, "unit": unit, "at": best[1], "patience": patience}
    finding = sentence("best-is-back", **back)
    if at.fold_index + 1 >= folds:
        why = sentence("stop-at-best", finding=finding, unit=unit, at=best[1])
        changes = {"stop_training": True, "best_epoch": best[1], "predict_with_folds": at.fold_index + 1}
        return advise("stop_and_predict", why, "R16", changes)
    why = sentence("end-fold", finding=finding)
    if projection is not None:
        why = sentence("end-fold-planned", finding=finding, left=projection.epochs_left, unit=unit)
    return advise("reduce_epochs", why, "R16", {"epochs": at.epochs_done})


def keeps_deadline(view: RunView, projection: Projection | None) -> bool:
    """Whether training ends in time if this fold ends now and the later ones after as many epochs."""
    deadline = training_deadline_seconds(view)
    if projection is None or deadline is None:
        return False
    at = view.position
    later = max(0, (view.state.whole("folds") or 1) - at.fold_index - 1)
    return view.used + later * at.epochs_done * projection.epoch.high <= deadline
