"""Boosted trees with a clock: LightGBM, and what all libraries of them share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.problem import Clock, Fit, Prediction, Problem

MOST_ROUNDS = 6_000
TIMED_ROUND, TIMED_ROWS = 50, 1_000  # when, and on how many rows, predicting is timed
BY_ORDER = ("auc", "gini", "average_precision")  # metrics that only the order of the answers moves
Side = tuple[pd.DataFrame, np.ndarray, np.ndarray | None]
"""Features, targets and weights of rows."""


def each_target(
    fit: Fit, grow_one: Callable[[np.ndarray, int, float, int], tuple[Any, Any, int, bool]]
) -> Prediction:
    """A model of all classes, or one of each label or value, which get their shares of the time.

    grow_one   (targets of all rows, most rounds, seconds that the clock is to have left, which output) ->
               (predictions of rows that validate, of test rows, rounds, whether it was not cut)
    """
    problem, columns = fit.problem, fit.problem.targets
    targets = [columns] if columns.ndim == 1 else list(columns.T)
    found = []
    for place, target in enumerate(targets):
        allowed = fit.clock.left() / (len(targets) - place)
        known = np.resize(fit.memo.get("rounds", 200), len(targets))[place]
        most = MOST_ROUNDS if len(fit.valid_rows) else max(int(known), 1)
        found.append(grow_one(target, most, fit.clock.left() - 0.85 * allowed, place))
    valid, asked, rounds, whole = zip(*found, strict=True)
    held_out = assembled(problem, valid) if len(fit.valid_rows) else fit.nothing
    return Prediction(held_out, assembled(problem, asked), {"rounds": list(rounds)}, all(whole))


def assembled(problem: Problem, parts: Any) -> np.ndarray:
    """(rows, outputs) of the models' predictions."""
    if problem.kind == "classes":
        (one,) = parts
        return np.column_stack([1 - one, one]) if one.ndim == 1 else one
    return np.column_stack([part[:, -1] if part.ndim == 2 else part for part in parts])


def objective(problem: Problem, place: int = 0) -> dict[str, Any]:
    """What LightGBM minimises of this output, and what stops it."""
    if problem.loss == "quantile":
        return {"objective": "quantile", "alpha": problem.levels[place]}
    if problem.kind == "values":
        objectives = {"absolute": "regression_l1", "poisson": "poisson"}
        return {"objective": objectives.get(problem.loss, "regression")}
    if problem.kind == "classes" and problem.width > 2:
        return {"objective": "multiclass", "num_class": problem.width}
    return {"objective": "binary", "metric": "auc" if problem.metric in BY_ORDER else "binary_logloss"}


def grow(
    settings: dict[str, Any],
    learned: Side,
    judged: Side | None,
    rounds: int,
    clock: Clock,
    reserve: float,
    patience: int = 100,
    asked: int = 0,
) -> tuple[Any, int, bool]:
    """(LightGBM's booster, its best round, whether it ended before the clock had only `reserve` seconds and
    what it takes to predict `asked` rows)."""
    import lightgbm

    cut, seconds = False, 0.0  # to predict with one round

    def stop_in_time(env: Any) -> None:
        nonlocal cut, seconds
        rounds = env.iteration + 1
        if rounds == TIMED_ROUND:
            some = plain_names(learned[0].iloc[:TIMED_ROWS])
            began = time.monotonic()
            env.model.predict(some)
            seconds = (time.monotonic() - began) * asked / len(some) / rounds
        if clock.left() <= reserve + 1.3 * seconds * rounds:
            cut = True
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list or [])

    def dataset(side: Side, **more: Any) -> Any:
        return lightgbm.Dataset(plain_names(side[0]), side[1], weight=side[2], free_raw_data=False, **more)

    data, calls, more = dataset(learned), list[Any]([stop_in_time]), dict[str, Any]()
    stop_in_time.order = 40  # type: ignore[attr-defined]
    if judged is not None:
        calls.append(lightgbm.early_stopping(patience, first_metric_only=True, verbose=False))
        more["valid_sets"] = [dataset(judged, reference=data)]
    model = lightgbm.train({"verbosity": -1, **settings}, data, rounds, callbacks=calls, **more)
    return model, model.best_iteration or model.current_iteration(), not cut


def plain_names(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names that no library refuses."""
    return table.set_axis([f"c{n}" for n in range(table.shape[1])], axis=1)


def boost(
    fit: Fit, table: pd.DataFrame, test: pd.DataFrame, settings: dict[str, Any], patience: int = 100
) -> tuple[Prediction, np.ndarray]:
    """(predictions, the gain of each column) of LightGBM with these settings in place of its own."""
    problem, gains = fit.problem, np.zeros(table.shape[1])
    settings = {
        "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 0.8,
        "bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": problem.cores, "seed": fit.seed,
        **settings,
    }  # fmt: skip

    def one(target: np.ndarray, most: int, reserve: float, place: int) -> tuple[Any, Any, int, bool]:
        nonlocal gains
        how = objective(problem, place) | settings
        weights = problem.weights
        learned, held = (
            (table.iloc[r], target[r], None if weights is None else weights[r])
            for r in (fit.train_rows, fit.valid_rows)
        )
        judged = held if len(fit.valid_rows) else None
        asked = len(test) + len(fit.valid_rows)
        model, best, whole = grow(how, learned, judged, most, fit.clock, reserve, patience, asked)
        gains = gains + model.feature_importance("gain")
        valid = model.predict(held[0], num_iteration=best) if judged else []
        return valid, model.predict(test, num_iteration=best), best, whole

    return each_target(fit, one), gains
