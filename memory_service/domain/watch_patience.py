"""Has the fold stopped getting better? (R16)"""

from __future__ import annotations

from memory_service.domain.schedule import TREE_PATIENCE_ROUNDS
from memory_service.domain.watch_projection import Projection
from memory_service.domain.watch_verdict import Answer
from memory_service.domain.watch_view import View

__all__ = ["early_stopping"]

PATIENCE = 5
"""R16 says 3-5 epochs; without a word of the run or its plan the later one."""


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
