"""Members that learn from a table: boosted and random trees, linear models, neighbours, latent factors."""

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.features import Choice, as_text, features_of, matrices_of
from memory_service.train.problem import Clock, Fit, Member, Prediction, Problem, answers_of, installed
from memory_service.train.words import linear, one_for_each

MOST_ROUNDS = 6_000
TIMED_ROUND, TIMED_ROWS = 50, 1_000  # when, and on how many rows, predicting is timed
# Metrics that only the order of the answers moves.
BY_ORDER = ("auc", "gini", "average_precision", "precision_top", "recall_top", "lift_top")
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


def is_table(problem: Problem) -> bool:
    some = any(kind not in ("text", "group") for kind in problem.columns.values())
    return some and isinstance(problem.inputs, pd.DataFrame)


def cached(problem: Problem, make: Callable[..., Any], rows: np.ndarray) -> Any:
    """What `make` gives for these rows. The last few are kept: members of a fold share them."""
    kept, choice = problem.shared.setdefault("features", {}), problem.shared.get("choice", Choice())
    key = (make, choice, len(rows), hash(rows.tobytes()))
    if key not in kept:
        while len(kept) > 7:
            kept.pop(next(iter(kept)))
        kept[key] = make(problem, choice, rows, 0)
    return kept[key]


def sides(problem: Problem, train_rows: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    return cached(problem, features_of, train_rows)


def matrices(problem: Problem, train_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return cached(problem, matrices_of, train_rows)


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


class CatBoost(Member):
    name = "CatBoost"

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
            "verbose": False,
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
            if problem.kind == "classes":
                return answers_of(model, problem, part)
            form = "Exponent" if loss == "Poisson" else "RawFormulaVal"
            return np.reshape(model.predict(part, prediction_type=form), (len(part), -1))

        held_out = answers(table.iloc[valid_rows]) if len(valid_rows) else fit.nothing
        return Prediction(held_out, answers(test), {"rounds": int(model.tree_count_)}, not cut)


def words_of(table: pd.DataFrame, categories: list[str]) -> pd.DataFrame:
    """The table with its categories as texts, also where none is told: CatBoost takes nothing else."""
    told = {name: table[name].astype(object) for name in categories}
    return table.assign(**{name: each.where(each.notna(), "").astype(str) for name, each in told.items()})


class XGBoost(Member):
    name = "XGBoost"

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
        table, test = plain_names(table), plain_names(test)
        settings: dict[str, Any] = {
            "eta": 0.06, "max_depth": 6, "subsample": 0.8, "colsample_bytree": 0.7, "min_child_weight": 3,
            "tree_method": "hist", "nthread": problem.cores, "seed": fit.seed, "verbosity": 0,
        }  # fmt: skip
        if problem.kind == "values":
            objectives = {"absolute": "reg:absoluteerror", "poisson": "count:poisson"}
            objectives["quantile"] = "reg:quantileerror"
            settings["objective"] = objectives.get(problem.loss, "reg:squarederror")
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

            class InTime(xgboost.callback.TrainingCallback):
                def after_iteration(self, _model: Any, epoch: int, _log: Any) -> bool:
                    if fit.clock.left() <= reserve:
                        cut.append(epoch)
                    return bool(cut)

            more: dict[str, Any] = {"callbacks": [InTime()]}
            if len(fit.valid_rows):
                more |= {"evals": [(judge, "valid")], "early_stopping_rounds": 80, "verbose_eval": False}
            model = xgboost.train(settings, learned, most, **more)
            best = model.best_iteration + 1 if len(fit.valid_rows) else model.num_boosted_rounds()
            valid: Any = model.predict(judge, iteration_range=(0, best)) if len(fit.valid_rows) else []
            return valid, model.predict(frame, iteration_range=(0, best)), best, not cut

        return each_target(fit, one)


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
            with warnings.catch_warnings(action="ignore"):
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
        return one_for_each(problem, HistGradientBoostingRegressor(loss=loss, **how))
    return one_for_each(problem, HistGradientBoostingClassifier(**how))


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
        "learning_rate": float(dice.choice([0.02, 0.03, 0.05])), "num_leaves": int(2 ** dice.uniform(2.5, 7)),
        "min_data_in_leaf": int(2 ** dice.uniform(2, 7)), "feature_fraction": float(dice.uniform(0.3, 1.0)),
        "bagging_fraction": float(dice.uniform(0.5, 1.0)), "lambda_l2": float(10 ** dice.uniform(-3, 1.5)),
        "min_data_per_group": int(2 ** dice.uniform(2, 7)), "cat_smooth": float(2 ** dice.uniform(0, 6)),
        "extra_trees": bool(dice.random() < 0.3),
    }  # fmt: skip
    return LightGBM(f"LightGBM, variation {number}", settings)


MOST_RATED = 300_000
LEAST_NAMES = 20  # of each of the two
FACTOR_ROUNDS = 10
EFFECT_RIDGES = (0.5, 2.0, 6.0, 20.0)
FACTOR_SIZES = (2, 6, 16)  # factors
FACTOR_PENALTIES = (3.0, 10.0, 30.0)


class Factors(Member):
    """Effects of all categories by ridge regression, such as how an author rates and how a film is rated, and
    the products of factors of the two that have the most values, by alternating least squares (Koren et al.,
    2009). Of two classes it predicts the chance of the second."""

    name = "categories, factors"

    def applies(self, problem: Problem) -> bool:
        one = problem.width == {"values": 1, "classes": 2}.get(problem.kind)
        squared = problem.loss in ("squared", "absolute", "log_loss")
        return one and squared and len(problem.inputs) <= MOST_RATED and len(pair_of(problem)) == 2

    def price(self, problem: Problem) -> float:
        return 1 + 6e-4 * len(problem.inputs)

    def learn(self, fit: Fit) -> Prediction:
        problem, train_rows, valid_rows, memo = fit.problem, fit.train_rows, fit.valid_rows, fit.memo
        both = pd.concat([problem.inputs, problem.test_inputs], ignore_index=True)
        target = np.asarray(problem.targets, float).reshape(len(problem.inputs))
        asked = np.concatenate([valid_rows, np.arange(len(problem.inputs), len(both))]).astype(int)
        first, second = (numbers_of(both[name], train_rows) for name in pair_of(problem))
        held, n = target[valid_rows], len(valid_rows)

        def loss(found: np.ndarray) -> float:
            return float(np.square(held - found[:n]).mean()) if n else 0.0

        matrix = indicators(problem, both, train_rows)
        ridges = EFFECT_RIDGES if n else (memo["ridge"],)
        tried = [(ridge_effects(matrix, target, train_rows, each), each) for each in ridges]
        effects, ridge = min(tried, key=lambda one: loss(one[0][asked]))
        best = loss(effects[asked])
        answer, size, penalty = effects[asked], 0, 0.0
        rest = target[train_rows] - effects[train_rows]
        known = first[train_rows], second[train_rows]
        sizes: Iterable[tuple[int, float]] = product(FACTOR_SIZES, FACTOR_PENALTIES)
        if not n:
            sizes = [(int(memo["size"]), float(memo["penalty"]))] if memo["size"] else ()
        for each in sizes:
            if n and fit.clock.left() < 1:
                break
            one, other = factors(*known, rest, *each, fit)
            found = effects[asked] + (one[first[asked]] * other[second[asked]]).sum(axis=1)
            if not n or loss(found) < (best if size else 0.99 * best):
                best, answer, (size, penalty) = loss(found), found, each
        if problem.kind == "classes":
            chances = answer.clip(0.01, 0.99)
            answers = np.column_stack([1 - chances, chances])
        else:
            answers = answer[:, None]
        return Prediction(answers[:n], answers[n:], {"ridge": ridge, "size": size, "penalty": penalty})


def numbers_of(column: pd.Series, train_rows: np.ndarray) -> np.ndarray:
    """A number for each category of the rows that train; -1 for others."""
    texts = as_text(column)
    names = pd.Index(texts.iloc[train_rows].unique())
    return np.asarray(names.get_indexer(pd.Index(texts)))


def pair_of(problem: Problem) -> list[str]:
    """The two categories with the most values of which most stand in several rows; less than two: none."""
    kinds = {name for name, kind in problem.columns.items() if kind in ("category", "code")}
    values = {name: problem.inputs[name].nunique() for name in problem.columns if name in kinds}
    some = {name: n for name, n in values.items() if LEAST_NAMES <= n <= len(problem.inputs) / 3}
    return sorted(some, key=lambda name: -some[name])[:2] if len(some) > 1 else []


def indicators(problem: Problem, both: pd.DataFrame, train_rows: np.ndarray) -> Any:
    """(all rows, columns): 1 for each category that a row has, and standardised numbers."""
    from scipy.sparse import csr_matrix, hstack

    parts = []
    for name, kind in problem.columns.items():
        if kind in ("category", "code"):
            codes, values = pd.factorize(as_text(both[name]))
            places = (np.ones(len(both)), (np.arange(len(both)), codes))
            parts.append(csr_matrix(places, (len(both), len(values))))
        if kind in ("number", "code", "date"):
            column = both[name].astype(float)
            center, spread = column.iloc[train_rows].mean(), column.iloc[train_rows].std()
            scaled = ((column - center) / (spread if spread > 0 else 1.0)).fillna(0.0).clip(-4, 4)
            parts.append(csr_matrix(scaled.to_numpy()[:, None]))
    return hstack(parts).tocsr()


def ridge_effects(matrix: Any, target: np.ndarray, rows: np.ndarray, strength: float) -> np.ndarray:
    """Predictions of all rows."""
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=strength, solver="lsqr").fit(matrix[rows], target[rows])
    return np.asarray(model.predict(matrix))


def factors(
    first: np.ndarray, second: np.ndarray, rest: np.ndarray, size: int, penalty: float, fit: Fit
) -> tuple[np.ndarray, np.ndarray]:
    """(names, size) of both sides: of each row the product of its two is near to `rest`. The last of each
    side, that of -1, is 0. It ends early where the clock has no second left."""
    ones, others = first.max() + 1, second.max() + 1
    one, other = np.zeros((ones, size)), 0.1 * np.random.default_rng(fit.seed).normal(size=(others, size))
    for _ in range(FACTOR_ROUNDS):
        if fit.clock.left() < 1:
            break
        one = solved(first, other[second], rest, ones, penalty)
        other = solved(second, one[first], rest, others, penalty)
    nobody = np.zeros((1, size))
    return np.vstack([one, nobody]), np.vstack([other, nobody])


def solved(keys: np.ndarray, known: np.ndarray, rest: np.ndarray, count: int, penalty: float) -> np.ndarray:
    """The factors of each key by least squares on its rows, given those of the other side."""
    size, right = known.shape[1], np.empty((count, known.shape[1]))
    squares = np.empty((count, size, size))
    for a in range(size):
        right[:, a] = np.bincount(keys, known[:, a] * rest, count)
        for b in range(a + 1):
            squares[:, a, b] = squares[:, b, a] = np.bincount(keys, known[:, a] * known[:, b], count)
    return np.asarray(np.linalg.solve(squares + penalty * np.eye(size), right[:, :, None])[:, :, 0])
