"""Members that learn from a table: boosted and random trees, linear models, neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.boosting import BY_ORDER, boost, each_target
from memory_service.train.features import Choice, features_of, matrices_of
from memory_service.train.problem import Clock, Fit, Member, Prediction, Problem, answers_of, installed
from memory_service.train.words import linear


def is_table(problem: Problem) -> bool:
    return isinstance(problem.inputs, pd.DataFrame) and any(
        kind not in ("text", "group") for kind in problem.columns.values()
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


@dataclass
class LightGBM(Member):
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

    def learn(self, fit: Fit) -> Prediction:
        table, test, _ = sides(fit.problem, fit.train_rows)
        found, gains = boost(fit, table, test, self.settings, self.patience)
        fit.problem.shared["gains"] = dict(zip(table.columns, gains, strict=True))
        return found


@dataclass
class CatBoost(Member):
    name: str = "CatBoost"
    settings: dict[str, Any] = field(default_factory=dict)

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and problem.kind != "labels" and installed("catboost")

    def price(self, problem: Problem) -> float:
        cells = len(problem.inputs) * max(len(problem.columns), 1)
        models = problem.width if problem.kind == "classes" and problem.width > 2 else 1
        categories = sum(kind == "category" for kind in problem.columns.values())
        return 2 + models * 500 * (1.5e-3 + (4e-8 + 3e-7 * (categories > 0)) * cells / 2)

    def learn(self, fit: Fit) -> Prediction:
        import catboost

        problem, train_rows, valid_rows, clock = fit.problem, fit.train_rows, fit.valid_rows, fit.clock
        table, test, categories = sides(problem, train_rows)
        table, test = (words_of(each, categories) for each in (table, test))
        end = clock.left() * 0.15
        cut: list[int] = []

        class InTime:
            def after_iteration(self, info: Any) -> bool:
                if clock.left() <= end:
                    cut.append(info.iteration)
                return not cut

        several = problem.width > 1
        if problem.kind == "values":
            loss = {"absolute": "MAE", "poisson": "Poisson"}.get(problem.loss, "RMSE")
            kind, loss = catboost.CatBoostRegressor, "MultiRMSE" if several else loss
            if problem.loss == "quantile" and (problem.targets == problem.targets[:, :1]).all():
                several, levels = False, ",".join(map(str, problem.levels))
                loss = f"{'Multi' if problem.width > 1 else ''}Quantile:alpha={levels}"
        else:
            kind, loss = catboost.CatBoostClassifier, "MultiClass" if problem.width > 2 else "Logloss"
        most = 3_000 if len(valid_rows) else int(fit.memo.get("rounds", 300))
        settings = {
            "iterations": max(most, 1), "learning_rate": 0.06, "depth": 6, "loss_function": loss,
            "random_seed": fit.seed, "thread_count": problem.cores, "allow_writing_files": False,
            "verbose": False, **self.settings,
        }  # fmt: skip
        if len(valid_rows) and loss == "Logloss" and problem.metric in BY_ORDER:
            settings["eval_metric"] = "AUC"
        model = kind(**settings)
        target = problem.targets
        target = target[:, 0] if target.ndim == 2 and not several else target
        more: dict[str, Any] = {"callbacks": [InTime()]}
        if len(valid_rows):
            more |= {"eval_set": (table.iloc[valid_rows], target[valid_rows]), "early_stopping_rounds": 80}
        model.fit(table.iloc[train_rows], target[train_rows], cat_features=categories, **more)

        def answers(part: pd.DataFrame) -> np.ndarray:
            if problem.kind == "values":
                form = "Exponent" if loss == "Poisson" else "RawFormulaVal"
                return np.reshape(model.predict(part, prediction_type=form), (len(part), -1))
            found = np.zeros((len(part), problem.width))
            found[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(part)
            return found

        held_out = answers(table.iloc[valid_rows]) if len(valid_rows) else fit.nothing
        return Prediction(held_out, answers(test), {"rounds": int(model.tree_count_)}, not cut)


def words_of(table: pd.DataFrame, categories: list[str]) -> pd.DataFrame:
    """The table with its categories as texts, also where none is told: CatBoost takes nothing else."""
    told = {name: table[name].astype(object) for name in categories}
    return table.assign(**{name: each.where(each.notna(), "").astype(str) for name, each in told.items()})


@dataclass
class XGBoost(Member):
    name: str = "XGBoost"
    settings: dict[str, Any] = field(default_factory=dict)

    def applies(self, problem: Problem) -> bool:
        return is_table(problem) and installed("xgboost")

    def price(self, problem: Problem) -> float:
        models = problem.width if problem.kind != "classes" or problem.width > 2 else 1
        cells = len(problem.inputs) * max(len(problem.columns), 1)
        return 0.5 + models * 600 * (1e-3 + 1.2e-8 * cells)

    def learn(self, fit: Fit) -> Prediction:
        import xgboost

        problem, by_order = fit.problem, fit.problem.metric in BY_ORDER
        table, test, _ = sides(problem, fit.train_rows)
        names = [f"c{n}" for n in range(table.shape[1])]
        table, test = (each.set_axis(names, axis=1) for each in (table, test))
        settings: dict[str, Any] = {
            "eta": 0.06, "max_depth": 6, "subsample": 0.8, "colsample_bytree": 0.7, "min_child_weight": 3,
            "tree_method": "hist", "nthread": problem.cores, "seed": fit.seed, "verbosity": 0,
            **self.settings,
        }  # fmt: skip
        if problem.kind == "values":
            objectives = {"absolute": "reg:absoluteerror", "poisson": "count:poisson"}
            settings["objective"] = objectives.get(problem.loss, "reg:squarederror")
            if problem.loss == "quantile":
                settings["objective"] = "reg:quantileerror"
        elif problem.kind == "classes" and problem.width > 2:
            settings |= {"objective": "multi:softprob", "num_class": problem.width}
        else:
            settings |= {"objective": "binary:logistic", "eval_metric": "auc" if by_order else "logloss"}
        frame = xgboost.DMatrix(test, enable_categorical=True)

        def one(target: np.ndarray, most: int, reserve: float, place: int) -> tuple[Any, Any, int, bool]:
            cut: list[int] = []
            if problem.levels:
                settings["quantile_alpha"] = problem.levels[place]
            learned, judge = (
                xgboost.DMatrix(table.iloc[rows], target[rows], enable_categorical=True)
                for rows in (fit.train_rows, fit.valid_rows)
            )
            more: dict[str, Any] = {"callbacks": [rounds_callback(xgboost, fit.clock, reserve, cut)]}
            if len(fit.valid_rows):
                more |= {"evals": [(judge, "valid")], "early_stopping_rounds": 80, "verbose_eval": False}
            model = xgboost.train(settings, learned, most, **more)
            best = model.best_iteration + 1 if len(fit.valid_rows) else model.num_boosted_rounds()
            valid: Any = model.predict(judge, iteration_range=(0, best)) if len(fit.valid_rows) else []
            return valid, model.predict(frame, iteration_range=(0, best)), best, not cut

        return each_target(fit, one)


def rounds_callback(library: Any, clock: Clock, until: float, cut: list[int]) -> Any:
    """Ends XGBoost when the clock has no more than `until` seconds left; the round goes into `cut`."""

    class InTime(library.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, _model: Any, epoch: int, _log: Any) -> bool:
            if clock.left() <= until:
                cut.append(epoch)
            return bool(cut)

    return InTime()


@dataclass
class Estimator(Member):
    """A scikit-learn estimator of the table as numbers.

    make      (problem, seed, strength) -> estimator
    seconds   of one fit, for each row and column of the table
    most      rows: beyond them it does not apply
    wide      numbers: below them it does not apply; then it learns values alone
    pairs     seconds for each pair of a row that is known and one that is asked for
    """

    name: str
    make: Callable[[Problem, int, float], Any]
    strengths: tuple[float, ...] = (0.0,)
    seconds: float = 2e-7
    most: int = 200_000
    pairs: float = 0.0
    wide: int = 0

    def applies(self, problem: Problem) -> bool:
        fits = is_table(problem) and len(problem.inputs) <= self.most
        numbers = sum(kind == "number" for kind in problem.columns.values())
        return fits and (not self.wide or (problem.kind == "values" and numbers >= self.wide))

    def price(self, problem: Problem) -> float:
        cells = len(problem.inputs) * max(3 * len(problem.columns), 1)
        several = problem.width if problem.kind == "classes" else 1
        asked = len(problem.test_inputs) + 0.2 * len(problem.inputs)
        one = self.seconds * cells * (1 + 0.2 * several) + self.pairs * len(problem.inputs) * asked
        return 0.3 + len(self.strengths) * one

    def learn(self, fit: Fit) -> Prediction:
        problem, train_rows, valid_rows, clock = fit.problem, fit.train_rows, fit.valid_rows, fit.clock
        table, test = matrices(problem, train_rows)
        target, (center, scale) = problem.targets, problem.scales(train_rows)
        if problem.kind == "values":
            target = (target - center) / scale
            target = target[:, 0] if problem.width == 1 else target

        def answers(inputs: np.ndarray) -> np.ndarray:
            return answers_of(model, problem, inputs) * scale + center

        best: Any = None
        strengths = self.strengths if len(valid_rows) else (fit.memo.get("strength", self.strengths[0]),)
        for strength in strengths:
            began = clock.left()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.make(problem, fit.seed, strength).fit(table[train_rows], target[train_rows])
            found = answers(table[valid_rows]) if len(valid_rows) else fit.nothing
            loss = fit.loss(found) if len(valid_rows) else 0.0
            if best is not None and loss >= best[0]:
                break
            best = (loss, Prediction(found, answers(test), {"strength": strength}))
            if clock.left() < 2.5 * (began - clock.left()):
                break
        return best[1]


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
        loss = {"absolute": "absolute_error", "poisson": "poisson"}.get(problem.loss, "squared_error")
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


def partial_least_squares(problem: Problem, seed: int, strength: float) -> Any:
    from sklearn.cross_decomposition import PLSRegression

    return PLSRegression(int(min(strength, len(problem.inputs) // 3)), scale=False)


def gaussian_process(problem: Problem, seed: int, _: float) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    length = float(problem.inputs.shape[1]) ** 0.5
    kernel = ConstantKernel(1.0) * RBF(length) + ConstantKernel(1.0) * RBF(10 * length) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, random_state=seed, n_restarts_optimizer=0)


SMALL_TREES = {"learning_rate": 0.04, "num_leaves": 8, "min_data_in_leaf": 10, "feature_fraction": 0.5}
LARGE_TREES = {"learning_rate": 0.03, "num_leaves": 95, "min_data_in_leaf": 30, "feature_fraction": 0.6}
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)

TABLE_MEMBERS: tuple[Any, ...] = (
    LightGBM(settings={"learning_rate": 0.05}),
    Estimator("linear model", linear, STRENGTHS, 3e-7),
    Estimator("partial least squares", partial_least_squares, (5.0, 10.0, 20.0, 40.0), 1e-6, 5_000, wide=30),
    Estimator("Gaussian process", gaussian_process, most=500, pairs=5e-5, wide=30),
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
