"""LightGBM of a table of features, with a clock."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.problem import Clock, Prediction, Problem

ROUNDS = 3000
PATIENCE = 100


def grow(
    settings: dict[str, Any],
    train_side: tuple[pd.DataFrame, np.ndarray, np.ndarray | None],
    valid_side: tuple[pd.DataFrame, np.ndarray, np.ndarray | None] | None,
    rounds: int,
    until: float,
) -> tuple[Any, bool]:
    """(the booster, whether it ended before `until` on the clock). A side: features, targets, weights."""
    import lightgbm

    cut = False

    def stop_in_time(env: Any) -> None:
        nonlocal cut
        if time.monotonic() > until:
            cut = True
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    features, targets, weights = train_side
    data = lightgbm.Dataset(features, targets, weight=weights)
    watched = (
        []
        if valid_side is None
        else [lightgbm.Dataset(valid_side[0], valid_side[1], weight=valid_side[2], reference=data)]
    )
    calls = [stop_in_time]
    if valid_side is not None:
        calls.append(lightgbm.early_stopping(PATIENCE, first_metric_only=True, verbose=False))
    model = lightgbm.train(
        {"verbosity": -1, "deterministic": True, "force_row_wise": True, **settings},
        data,
        rounds,
        watched,
        callbacks=calls,
    )
    return model, not cut


def boost(
    problem: Problem,
    table: pd.DataFrame,
    train_rows: np.ndarray,
    valid_rows: np.ndarray,
    seed: int,
    clock: Clock,
    memo: dict[str, Any],
) -> Prediction:
    """One booster of classes, or one of each label or target. `table` has training rows, then test rows."""
    objective = {"classes": "multiclass", "labels": "binary"}.get(
        problem.kind, "l1" if problem.loss == "absolute" else "l2"
    )
    settings: dict[str, Any] = {
        "objective": objective,
        "learning_rate": 0.04,
        "num_leaves": 31,
        "min_child_samples": 20,
    }
    settings |= {
        "feature_fraction": 0.5,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": seed,
        "num_threads": problem.cores,
    }
    columns = problem.targets.reshape(len(problem.targets), -1)
    if problem.kind == "classes":
        settings |= {"num_class": problem.width} if problem.width > 2 else {"objective": "binary"}
    test = table.iloc[len(problem.inputs) :]
    valid_found, test_found, rounds, complete = [], [], [], True
    for place, column in enumerate(columns.T):
        until = time.monotonic() + 0.9 * clock.left() / (columns.shape[1] - place)
        fit, held = (
            (table.iloc[train_rows], column[train_rows], None),
            (table.iloc[valid_rows], column[valid_rows], None),
        )
        wanted = ROUNDS if len(valid_rows) else int(1.05 * memo.get("rounds", 200)) + 1
        model, whole = grow(settings, fit, held if len(valid_rows) else None, wanted, until)
        complete &= whole
        best = model.best_iteration or None
        rounds.append(best or model.current_iteration())
        shape = (-1, problem.width) if problem.kind == "classes" and problem.width > 2 else (-1, 1)
        if len(valid_rows):
            valid_found.append(model.predict(held[0], num_iteration=best).reshape(shape))
        test_found.append(model.predict(test, num_iteration=best).reshape(shape))

    def joined(found: list[np.ndarray]) -> np.ndarray:
        together = np.hstack(found) if found else np.zeros((0, problem.width))
        two = problem.kind == "classes" and problem.width == 2 and len(together)
        return np.hstack([1 - together, together]) if two else together

    return Prediction(joined(valid_found), joined(test_found), {"rounds": int(np.median(rounds))}, complete)
