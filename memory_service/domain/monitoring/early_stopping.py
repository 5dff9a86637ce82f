"""Early stopping: whether the fold still improves (R16)."""

from __future__ import annotations

from memory_service.domain.monitoring.projection import (
    Projection,
    best_so_far,
    patience_of,
    training_deadline_seconds,
)
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.verdict import Answer


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
    where = f"{since} {unit}s back, at {unit} {best[1]}"
    why = f"The best {what} ({best[0]:.4g}) is {where}; patience is {patience}"
    if at.fold_index + 1 >= folds:
        return Answer(
            "stop_and_predict",
            f"{why}: stop and predict with the weights of {unit} {best[1]}.",
            "R16",
            {"stop_training": True, "best_epoch": best[1], "predict_with_folds": at.fold_index + 1},
            observation=f"{why}.",
        )
    left = "" if projection is None else f", {projection.epochs_left:.0f} {unit}s were still planned"
    return Answer(
        "reduce_epochs",
        f"{why}: end this fold now and go on to the next{left}.",
        "R16",
        {"epochs": at.epochs_done},
        observation=f"{why}.",
    )


def keeps_deadline(view: RunView, projection: Projection | None) -> bool:
    """Whether training ends in time if this fold ends now and the later ones after as many epochs."""
    deadline = training_deadline_seconds(view)
    if projection is None or deadline is None:
        return False
    at = view.position
    later = max(0, (view.state.whole("folds") or 1) - at.fold_index - 1)
    return view.now + later * at.epochs_done * projection.epoch.high <= deadline
