"""Members that learn from a table: boosted and random trees, linear models, neighbours."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.features import Choice, features_of, matrices_of
from memory_service.train.problem import Clock, Prediction, Problem

MOST_ROUNDS = 6_000
BY_ORDER = ("auc", "gini", "average_precision")  # metrics that only the order of the answers moves


def is_table(problem: Problem) -> bool:
    return isinstance(problem.inputs, pd.DataFrame) and any(
        kind != "text" for kind in problem.columns.values()
    )


def cached(problem: Problem, what: str, rows: np.ndarray, make: Callable[[], Any]) -> Any:
    """The last few are kept: members of a fold share them."""
    kept = problem.shared.setdefault("features", {})
    key = (what, problem.shared.get("choice"), len(rows), hash(rows.tobytes()))
    if key not in kept:
        while len(kept) > 7:
            kept.pop(next(iter(kept)))
        kept[key] = make()
    return kept[key]


def sides(problem: Problem, train_rows: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    choice = problem.shared.get("choice", Choice())
    return cached(problem, "table", train_rows, lambda: features_of(problem, choice, train_rows, 0))


def matrices(problem: Problem, train_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    choice = problem.shared.get("choice", Choice())
    return cached(problem, "matrix", train_rows, lambda: matrices_of(problem, choice, train_rows, 0))


def each_target(problem: Problem) -> list[np.ndarray]:
    """A model each: classes are one, labels and values one by one."""
    return [problem.targets] if problem.targets.ndim == 1 else list(problem.targets.T)


def assembled(problem: Problem, parts: list[np.ndarray]) -> np.ndarray:
    """(rows, outputs) of the models' predictions."""
    if problem.kind == "classes":
        (one,) = parts
        return np.column_stack([1 - one, one]) if one.ndim == 1 else one
    return np.column_stack([part[:, -1] if part.ndim == 2 else part for part in parts])


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


@dataclass
class LightGBM:
    """settings   of LightGBM, in place of its own"""

    name: str = "LightGBM"
    settings: dict[str, Any] = field(default_factory=dict)
    patience: int = 100

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and installed("lightgbm")

    def price(self, problem: Problem) -> float:
        models = problem.width if problem.kind != "classes" or problem.width > 2 else 1
        cells = len(problem.inputs) * max(len(problem.columns), 1)
        rounds = 40 / self.settings.get("learning_rate", 0.05)
        return 0.3 + models * rounds * (4e-4 + 6e-9 * cells)

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        import lightgbm

        table, test, _ = sides(problem, train_rows)
        table, test = (
            each.set_axis([f"c{n}" for n in range(each.shape[1])], axis=1) for each in (table, test)
        )
        settings: dict[str, Any] = {
            "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 0.8,
            "bagging_fraction": 0.8, "bagging_freq": 1, "verbosity": -1, "num_threads": problem.cores,
            "seed": seed, **objective(problem), **self.settings,
        }  # fmt: skip
        targets = each_target(problem)
        rounds: list[int] = []
        valid: list[Any] = []
        asked: list[Any] = []
        complete = True
        gains = np.zeros(table.shape[1])
        for place, target in enumerate(targets):
            allowed = clock.left() / (len(targets) - place)
            stop = Stop(clock, clock.left() - 0.85 * allowed)
            learn = lightgbm.Dataset(table.iloc[train_rows], target[train_rows], free_raw_data=False)
            callbacks: list[Any] = [stop]
            more: dict[str, Any] = {}
            if len(valid_rows):
                callbacks.append(lightgbm.early_stopping(self.patience, verbose=False))
                more["valid_sets"] = [learn.create_valid(table.iloc[valid_rows], target[valid_rows])]
            most = MOST_ROUNDS if len(valid_rows) else int(np.atleast_1d(memo.get("rounds", 200))[place])
            model = lightgbm.train(settings, learn, max(most, 1), callbacks=callbacks, **more)
            best = model.best_iteration or model.current_iteration()
            rounds.append(best)
            complete &= not stop.cut
            gains += model.feature_importance("gain")
            valid.append(model.predict(table.iloc[valid_rows], num_iteration=best) if len(valid_rows) else [])
            asked.append(model.predict(test, num_iteration=best))
        problem.shared["gains"] = dict(zip(sides(problem, train_rows)[0].columns, gains, strict=True))
        held_out = assembled(problem, valid) if len(valid_rows) else np.empty((0, problem.width))
        return Prediction(held_out, assembled(problem, asked), {"rounds": rounds}, complete)


def objective(problem: Problem) -> dict[str, Any]:
    """What LightGBM minimises and what stops it."""
    if problem.kind == "values":
        return {"objective": "regression_l1" if problem.loss == "absolute" else "regression"}
    if problem.kind == "classes" and problem.width > 2:
        return {"objective": "multiclass", "num_class": problem.width}
    return {"objective": "binary", "metric": "auc" if problem.metric in BY_ORDER else "binary_logloss"}


class Stop:
    """Ends boosting when the clock has no more than `until` seconds left."""

    order = 40

    def __init__(self, clock: Clock, until: float) -> None:
        self.clock, self.until, self.cut = clock, until, False

    def __call__(self, env: Any) -> None:
        import lightgbm

        if self.clock.left() <= self.until:
            self.cut = True
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list or [])


@dataclass
class CatBoost:
    name: str = "CatBoost"
    settings: dict[str, Any] = field(default_factory=dict)

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and problem.kind != "labels" and installed("catboost")

    def price(self, problem: Problem) -> float:
        cells = len(problem.inputs) * max(len(problem.columns), 1)
        models = problem.width if problem.kind == "classes" and problem.width > 2 else 1
        categories = sum(kind == "category" for kind in problem.columns.values())
        return 2 + models * 500 * (1.5e-3 + (4e-8 + 3e-7 * (categories > 0)) * cells / 2)

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        import catboost

        table, test, categories = sides(problem, train_rows)
        table, test = (each.astype(dict.fromkeys(categories, str)) for each in (table, test))
        end = clock.left() * 0.15
        cut: list[int] = []

        class InTime:
            def after_iteration(self, info: Any) -> bool:
                if clock.left() <= end:
                    cut.append(info.iteration)
                return not cut

        if problem.kind == "values":
            several = problem.width > 1
            loss = "MAE" if problem.loss == "absolute" else "RMSE"
            kind, loss = catboost.CatBoostRegressor, "MultiRMSE" if several else loss
        else:
            kind, loss = catboost.CatBoostClassifier, "MultiClass" if problem.width > 2 else "Logloss"
        most = 3_000 if len(valid_rows) else int(memo.get("rounds", 300))
        settings = {
            "iterations": max(most, 1), "learning_rate": 0.06, "depth": 6, "loss_function": loss,
            "random_seed": seed, "thread_count": problem.cores, "allow_writing_files": False,
            "verbose": False, **self.settings,
        }  # fmt: skip
        if (
            len(valid_rows)
            and problem.kind == "classes"
            and problem.width == 2
            and problem.metric in BY_ORDER
        ):
            settings["eval_metric"] = "AUC"
        model = kind(**settings)
        target = (
            problem.targets[:, 0] if problem.targets.ndim == 2 and problem.width == 1 else problem.targets
        )
        more: dict[str, Any] = {"callbacks": [InTime()]}
        if len(valid_rows):
            more |= {"eval_set": (table.iloc[valid_rows], target[valid_rows]), "early_stopping_rounds": 80}
        model.fit(table.iloc[train_rows], target[train_rows], cat_features=categories, **more)

        def answers(part: pd.DataFrame) -> np.ndarray:
            if problem.kind == "values":
                return np.reshape(model.predict(part), (len(part), -1))
            found = np.zeros((len(part), problem.width))
            found[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(part)
            return found

        held_out = answers(table.iloc[valid_rows]) if len(valid_rows) else np.empty((0, problem.width))
        return Prediction(held_out, answers(test), {"rounds": int(model.tree_count_)}, not cut)


@dataclass
class XGBoost:
    name: str = "XGBoost"
    settings: dict[str, Any] = field(default_factory=dict)

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and installed("xgboost")

    def price(self, problem: Problem) -> float:
        models = problem.width if problem.kind != "classes" or problem.width > 2 else 1
        cells = len(problem.inputs) * max(len(problem.columns), 1)
        return 0.5 + models * 600 * (1e-3 + 1.2e-8 * cells)

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        import xgboost

        table, test, _ = sides(problem, train_rows)
        table, test = (
            each.set_axis([f"c{n}" for n in range(each.shape[1])], axis=1) for each in (table, test)
        )
        settings: dict[str, Any] = {
            "eta": 0.06, "max_depth": 6, "subsample": 0.8, "colsample_bytree": 0.7, "min_child_weight": 3,
            "tree_method": "hist", "nthread": problem.cores, "seed": seed, "verbosity": 0, **self.settings,
        }  # fmt: skip
        if problem.kind == "values":
            settings["objective"] = "reg:absoluteerror" if problem.loss == "absolute" else "reg:squarederror"
        elif problem.kind == "classes" and problem.width > 2:
            settings |= {"objective": "multi:softprob", "num_class": problem.width}
        else:
            by_order = problem.metric in BY_ORDER
            settings |= {"objective": "binary:logistic", "eval_metric": "auc" if by_order else "logloss"}
        targets = each_target(problem)
        rounds: list[int] = []
        valid: list[Any] = []
        asked: list[Any] = []
        complete = True
        frame = xgboost.DMatrix(test, enable_categorical=True)
        for place, target in enumerate(targets):
            allowed = clock.left() / (len(targets) - place)
            until = clock.left() - 0.85 * allowed
            cut: list[int] = []

            stop = rounds_callback(xgboost, clock, until, cut)
            learn = xgboost.DMatrix(table.iloc[train_rows], target[train_rows], enable_categorical=True)
            more: dict[str, Any] = {"callbacks": [stop]}
            if len(valid_rows):
                judge = xgboost.DMatrix(table.iloc[valid_rows], target[valid_rows], enable_categorical=True)
                more |= {"evals": [(judge, "valid")], "early_stopping_rounds": 80, "verbose_eval": False}
            most = MOST_ROUNDS if len(valid_rows) else int(np.atleast_1d(memo.get("rounds", 200))[place])
            model = xgboost.train(settings, learn, max(most, 1), **more)
            best = model.best_iteration + 1 if len(valid_rows) else model.num_boosted_rounds()
            rounds.append(best)
            complete &= not cut
            valid.append(model.predict(judge, iteration_range=(0, best)) if len(valid_rows) else [])
            asked.append(model.predict(frame, iteration_range=(0, best)))
        held_out = assembled(problem, valid) if len(valid_rows) else np.empty((0, problem.width))
        return Prediction(held_out, assembled(problem, asked), {"rounds": rounds}, complete)


def rounds_callback(library: Any, clock: Clock, until: float, cut: list[int]) -> Any:
    """Ends XGBoost when the clock has no more than `until` seconds left; the round goes into `cut`."""

    class InTime(library.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, _model: Any, epoch: int, _log: Any) -> bool:
            if clock.left() <= until:
                cut.append(epoch)
            return bool(cut)

    return InTime()


@dataclass
class Estimator:
    """A scikit-learn estimator of the table as numbers.

    make      (problem, seed, strength) -> estimator
    seconds   of one fit, for each row and column of the table
    most      rows: beyond them it does not apply
    pairs     seconds for each pair of a row that is known and one that is asked for
    """

    name: str
    make: Callable[[Problem, int, float], Any]
    strengths: tuple[float, ...] = (0.0,)
    seconds: float = 2e-7
    most: int = 200_000
    pairs: float = 0.0

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and len(problem.inputs) <= self.most

    def price(self, problem: Problem) -> float:
        cells = len(problem.inputs) * max(3 * len(problem.columns), 1)
        several = problem.width if problem.kind == "classes" else 1
        asked = len(problem.test_inputs) + 0.2 * len(problem.inputs)
        one = self.seconds * cells * (1 + 0.2 * several) + self.pairs * len(problem.inputs) * asked
        return 0.3 + len(self.strengths) * one

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        table, test = matrices(problem, train_rows)
        target = problem.targets
        if problem.kind == "values":
            center, scale = target[train_rows].mean(axis=0), target[train_rows].std(axis=0).clip(1e-9)
            target = (target - center) / scale
            target = target[:, 0] if problem.width == 1 else target
        best: tuple[float, float, Any] | None = None
        strengths = self.strengths if len(valid_rows) else (memo.get("strength", self.strengths[0]),)
        for strength in strengths:
            began = clock.left()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.make(problem, seed, strength).fit(table[train_rows], target[train_rows])
            if not len(valid_rows):
                best = (0.0, strength, model)
                break
            loss = loss_of(problem, valid_rows, self.answers(problem, model, table[valid_rows], train_rows))
            if best is not None and loss >= best[0]:
                break
            best = (loss, strength, model)
            if clock.left() < 2.5 * (began - clock.left()):
                break
        assert best is not None  # there is a strength
        _, strength, model = best
        held_out = self.answers(problem, model, table[valid_rows], train_rows) if len(valid_rows) else None
        asked = self.answers(problem, model, test, train_rows)
        return Prediction(
            np.empty((0, problem.width)) if held_out is None else held_out, asked, {"strength": strength}
        )

    def answers(self, problem: Problem, model: Any, inputs: np.ndarray, train_rows: np.ndarray) -> np.ndarray:
        if problem.kind == "values":
            known = problem.targets[train_rows]
            scale = known.std(axis=0).clip(1e-9)
            return np.reshape(model.predict(inputs), (len(inputs), -1)) * scale + known.mean(axis=0)
        chances = model.predict_proba(inputs)
        if problem.kind == "labels":
            if isinstance(chances, list):  # of forests: (rows, 2) for each label
                return np.column_stack(
                    [each[:, -1] if each.shape[1] > 1 else 0 * each[:, 0] for each in chances]
                )
            return np.asarray(chances)
        found = np.zeros((len(inputs), problem.width))
        found[:, np.asarray(model.classes_, dtype=int)] = chances
        return found


def loss_of(problem: Problem, rows: np.ndarray, predictions: np.ndarray) -> float:
    """What members minimise, of these rows."""
    truth = problem.targets[rows]
    if problem.kind == "values":
        errors = predictions - truth
        return float(np.abs(errors).mean() if problem.loss == "absolute" else (errors**2).mean())
    chances = predictions.clip(1e-7, 1 - 1e-7)
    if problem.kind == "labels":
        return float(-np.where(truth > 0.5, np.log(chances), np.log(1 - chances)).mean())
    return float(-np.log(chances[np.arange(len(truth)), truth]).mean())


def linear(problem: Problem, seed: int, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    if problem.kind == "values":
        return Ridge(alpha=1 / strength)
    model = LogisticRegression(C=strength, max_iter=200)
    return OneVsRestClassifier(model) if problem.kind == "labels" else model


def forest(kind: str) -> Callable[[Problem, int, float], Any]:
    def make(problem: Problem, seed: int, _: float) -> Any:
        from sklearn import ensemble

        name = f"{kind}{'Regressor' if problem.kind == 'values' else 'Classifier'}"
        few = 5 if problem.kind == "values" else 2
        trees = 200 if len(problem.inputs) < 30_000 else 100
        return getattr(ensemble, name)(
            trees, min_samples_leaf=few, max_features=0.5 if problem.kind == "values" else "sqrt",
            n_jobs=problem.cores, random_state=seed,
        )  # fmt: skip

    return make


def histogram_boosting(problem: Problem, seed: int, _: float) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputRegressor

    rarest = len(problem.targets)
    if problem.kind == "classes":
        rarest = int(np.bincount(problem.targets).min())
    elif problem.kind == "labels":
        rarest = int(min(problem.targets.sum(axis=0).min(), (1 - problem.targets).sum(axis=0).min()))
    early = rarest >= 10  # it holds out a tenth, with each class in both parts
    how: dict[str, Any] = {
        "learning_rate": 0.05, "max_iter": 1000 if early else 150, "early_stopping": early,
        "n_iter_no_change": 30, "random_state": seed,
    }  # fmt: skip
    if problem.kind == "values":
        loss = "absolute_error" if problem.loss == "absolute" else "squared_error"
        model = HistGradientBoostingRegressor(loss=loss, **how)
        return model if problem.width == 1 else MultiOutputRegressor(model)
    model = HistGradientBoostingClassifier(**how)
    return OneVsRestClassifier(model) if problem.kind == "labels" else model


def neighbours(problem: Problem, seed: int, strength: float) -> Any:
    from sklearn import set_config
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsRegressor if problem.kind == "values" else KNeighborsClassifier
    count = int(min(strength, max(1, len(problem.inputs) // 2)))
    set_config(enable_cython_pairwise_dist=False)  # beside other OpenMP it has given rows that do not exist
    return kind(count, weights="distance", algorithm="brute")


SMALL_TREES = {"learning_rate": 0.04, "num_leaves": 8, "min_data_in_leaf": 10, "feature_fraction": 0.5}
LARGE_TREES = {"learning_rate": 0.03, "num_leaves": 95, "min_data_in_leaf": 30, "feature_fraction": 0.6}
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)

TABLE_MEMBERS: tuple[Any, ...] = (
    LightGBM(settings={"learning_rate": 0.05}),
    Estimator("linear model", linear, STRENGTHS, 3e-7),
    CatBoost(),
    Estimator("extremely random trees", forest("ExtraTrees"), seconds=6e-6),
    XGBoost(),
    LightGBM("LightGBM, small trees", SMALL_TREES),
    Estimator("histogram boosting", histogram_boosting, seconds=1.1e-5),
    LightGBM("LightGBM, large trees", LARGE_TREES),
    Estimator("random forest", forest("RandomForest"), seconds=1.2e-5),
    Estimator("nearest neighbours", neighbours, (16.0, 5.0, 40.0), 3e-7, 30_000, 2.5e-8),
)  # fmt: skip
"""In the order in which they are tried."""


def variation(number: int) -> LightGBM:
    """A LightGBM with settings drawn at random, the same for a number."""
    dice = np.random.default_rng([7, number])
    settings = {
        "learning_rate": float(dice.choice([0.02, 0.03, 0.05])),
        "num_leaves": int(2 ** dice.uniform(2.5, 7)),
        "min_data_in_leaf": int(2 ** dice.uniform(2, 7)),
        "feature_fraction": float(dice.uniform(0.3, 1.0)),
        "bagging_fraction": float(dice.uniform(0.5, 1.0)),
        "lambda_l2": float(10 ** dice.uniform(-3, 1.5)),
        "min_data_per_group": int(2 ** dice.uniform(2, 7)),
        "cat_smooth": float(2 ** dice.uniform(0, 6)),
        "extra_trees": bool(dice.random() < 0.3),
    }
    return LightGBM(f"LightGBM, variation {number}", settings)
