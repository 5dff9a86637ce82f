"""At which round is validation best? Boosts generated and shipped tables at several learning rates with early
stopping, for the law of `domain/quality/boosting_rounds.py`.

    python benchmarks/boosting_rounds.py run ROWS.csv [--minutes 25]     about 25 minutes on one core
    python benchmarks/boosting_rounds.py fit                             benchmarks/data/boosting_rounds.csv

Each fit runs on one thread with the settings of the generated scripts (`scripts/tree_*.py.txt`), patience
5 / learning rate, and at most two minutes of processor time; one that met that limit is told apart (`ended`).
Tables: clusters (scikit-learn's `make_classification`), a random network and a random forest as teachers, all
with noise, and the small real ones that ship with scikit-learn. `fit` also reads the best iterations that
yandex-research/tabular-dl-tabr publishes (exp/*/report.json), rows `real` of the same file.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.tree import DecisionTreeRegressor

Array = NDArray[np.float64]
DATA = Path(__file__).parent / "data" / "boosting_rounds.csv"
FIELDS = (
    "table", "library", "n_train", "n_features", "n_classes", "learning_rate", "seed", "best_round", "rounds",
    "ended", "seconds", "log_error", "at_quarter", "at_half", "metric",
)  # fmt: skip
KEY = ("table", "library", "n_train", "n_features", "n_classes", "learning_rate")
SECONDS, MOST_ROUNDS = 120.0, 20_000


def table_of(kind: str, rows: int, columns: int, classes: int, seed: int) -> tuple[Array, Array]:
    """(inputs, target) of a table; classes 1 = regression. "-quiet": with a twentieth of the noise's power."""
    rng = np.random.default_rng(seed)
    kind, _, quiet = kind.partition("-")
    if kind == "clusters":
        return datasets.make_classification(
            rows, columns, n_informative=max(5, columns // 3), n_redundant=columns // 5, n_classes=classes,
            n_clusters_per_class=8, flip_y=0.005 if quiet else 0.1, class_sep=0.7, random_state=seed,
        )  # fmt: skip
    inputs = rng.normal(size=(rows, columns))
    used = inputs[:, : max(5, columns // 2)] * rng.gamma(1.0, 1.0, max(5, columns // 2))
    signal = np.zeros(rows)
    if kind == "network":
        hidden = np.tanh(used @ rng.normal(size=(used.shape[1], 24)) / used.shape[1] ** 0.5)
        signal = np.tanh(hidden @ rng.normal(size=(24, 12))) @ rng.normal(size=12)
    else:
        for _ in range(30):
            some = rng.choice(used.shape[1], 4, replace=False)
            points = rng.normal(size=(200, 4)) * used[:, some].std(axis=0)
            teacher = DecisionTreeRegressor(max_depth=5, random_state=0).fit(points, rng.normal(size=200))
            signal += teacher.predict(used[:, some])
    signal = (signal - signal.mean()) / signal.std()
    if classes == 1:
        return inputs, signal + rng.normal(size=rows) * (0.13 if quiet else 0.58)
    noisy = (7.6 if quiet else 1.7) * signal + rng.logistic(size=rows)
    return inputs, np.digitize(noisy, np.quantile(noisy, np.linspace(0, 1, classes + 1)[1:-1])).astype(float)


def boost(library: str, table: tuple[Array, Array], classes: int, rate: float, seed: int) -> dict[str, Any]:
    """One fit on four fifths, stopped by the rest: the best round, and the log of its error there and at a
    quarter and half of it (1 - AUC, error rate of several classes, RMSE)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table[1]))
    cut = len(order) // 5
    valid, train = ([part[rows] for part in table] for rows in (order[:cut], order[cut:]))
    patience, until = round(5 / rate), time.process_time() + SECONDS
    began, history = time.process_time(), []
    errors = _lightgbm if library == "lightgbm" else _xgboost if library == "xgboost" else _catboost
    history, losses = errors(train, valid, classes, rate, seed, patience, until)
    best = int(np.argmin(losses)) + 1
    spent = time.process_time() - began
    ended = "time" if spent >= SECONDS else "cap" if len(losses) >= MOST_ROUNDS else "early"

    def log_error(at: int) -> float:
        return float(np.log(max(history[max(0, at - 1)], 1e-4)))

    return {
        "library": library, "n_train": len(order) - cut, "n_features": table[0].shape[1],
        "n_classes": classes, "learning_rate": rate, "seed": seed, "best_round": best, "rounds": len(losses),
        "ended": ended, "seconds": round(spent, 2), "log_error": round(log_error(best), 5),
        "at_quarter": round(log_error(best // 4), 5), "at_half": round(log_error(best // 2), 5),
        "metric": "rmse" if classes == 1 else "1-auc" if classes == 2 else "error",
    }  # fmt: skip


def _lightgbm(
    train: Any, valid: Any, classes: int, rate: float, seed: int, patience: int, until: float
) -> tuple[list[float], list[float]]:
    objective: dict[str, Any] = {"objective": "regression", "metric": ["rmse"]}
    if classes == 2:
        objective = {"objective": "binary", "metric": ["binary_logloss", "auc"]}
    if classes > 2:
        objective = {"objective": "multiclass", "num_class": classes, "metric": ["multi_logloss", "multi_error"]}
    settings = {
        "learning_rate": rate, "num_leaves": 63, "feature_fraction": 0.8, "bagging_fraction": 0.8,
        "bagging_freq": 1, "seed": seed, "num_threads": 1, "verbosity": -1, "first_metric_only": True,
        **objective,
    }  # fmt: skip
    kept: dict[str, Any] = {}

    def in_time(env: Any) -> None:
        if time.process_time() > until:
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    data = lightgbm.Dataset(*train)
    lightgbm.train(
        settings, data, MOST_ROUNDS, valid_sets=[lightgbm.Dataset(*valid, reference=data)],
        callbacks=[
            lightgbm.early_stopping(patience, first_metric_only=True, verbose=False),
            lightgbm.record_evaluation(kept), in_time,
        ],
    )  # fmt: skip
    return _both(kept["valid_0"], classes)


def _xgboost(
    train: Any, valid: Any, classes: int, rate: float, seed: int, patience: int, until: float
) -> tuple[list[float], list[float]]:
    import xgboost

    objective: dict[str, Any] = {"objective": "reg:squarederror", "eval_metric": ["rmse"]}
    if classes == 2:
        objective = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}
    if classes > 2:
        objective = {"objective": "multi:softprob", "num_class": classes, "eval_metric": ["merror", "mlogloss"]}
    settings = {
        "learning_rate": rate, "max_depth": 6, "subsample": 0.8, "colsample_bytree": 0.8,
        "tree_method": "hist", "seed": seed, "nthread": 1, **objective,
    }  # fmt: skip

    class InTime(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return time.process_time() > until

    kept: dict[str, Any] = {}
    xgboost.train(
        settings, xgboost.DMatrix(*train), MOST_ROUNDS, evals=[(xgboost.DMatrix(*valid), "valid")],
        early_stopping_rounds=patience, evals_result=kept, verbose_eval=False, callbacks=[InTime()],
    )  # fmt: skip
    return _both(kept["valid"], classes)


def _catboost(
    train: Any, valid: Any, classes: int, rate: float, seed: int, patience: int, until: float
) -> tuple[list[float], list[float]]:
    import catboost

    objective: dict[str, Any] = {"loss_function": "RMSE"}
    if classes == 2:
        objective = {"loss_function": "Logloss", "custom_metric": ["AUC:hints=skip_train~true"]}
    if classes > 2:
        objective = {"loss_function": "MultiClass", "custom_metric": ["Accuracy"]}
    model = catboost.CatBoost({
        "learning_rate": rate, "iterations": MOST_ROUNDS, "depth": 6, "random_seed": seed, "thread_count": 1,
        "allow_writing_files": False, "logging_level": "Silent", **objective,
    })  # fmt: skip

    class InTime:
        def after_iteration(self, info: Any) -> bool:
            return time.process_time() <= until

    model.fit(*train, eval_set=tuple(valid), early_stopping_rounds=patience, callbacks=[InTime()])
    return _both(model.get_evals_result()["validation"], classes)


def _both(kept: dict[str, list[float]], classes: int) -> tuple[list[float], list[float]]:
    """(error, loss) after each round, whatever the library calls them."""
    names = {name.lower(): values for name, values in kept.items()}
    loss = next(names[n] for n in ("binary_logloss", "multi_logloss", "logloss", "mlogloss", "multiclass", "rmse")
                if n in names)  # fmt: skip
    if classes == 1:
        return loss, loss
    if classes == 2:
        return [1.0 - value for value in names["auc"]], loss
    wrong = next((names[n] for n in ("multi_error", "merror") if n in names), None)
    return (wrong if wrong is not None else [1.0 - value for value in names["accuracy"]]), loss


def cases() -> Iterator[tuple[str, int, int, int, tuple[str, ...], tuple[float, ...]]]:
    """(kind, rows, columns, classes, libraries, rates), the most informative first."""
    every, most = (0.2, 0.1, 0.05, 0.03, 0.02), (0.2, 0.1, 0.05)
    both, one = ("lightgbm", "xgboost", "catboost"), ("lightgbm",)
    kinds = ("network", "forest", "clusters", "network-quiet", "forest-quiet", "clusters-quiet")
    for kind in kinds:
        yield kind, 5_000, 20, 2, one, every
    for name, classes in (("digits", 10), ("breast_cancer", 2), ("diabetes", 1), ("wine", 3)):
        yield name, 0, 0, classes, both, most
    for kind in kinds:
        yield kind, 20_000, 30, 2, one, (0.2, 0.1, 0.05)
    for kind in ("network-quiet", "forest", "forest-quiet"):
        yield kind, 5_000, 20, 1, one, every
        yield kind, 20_000, 30, 1, one, (0.2, 0.1)
    for kind in kinds:
        yield kind, 1_250, 10, 2, both, (0.1, 0.05)
        yield kind, 5_000, 60, 2, both, (0.1,)
    for kind in ("forest-quiet", "clusters-quiet", "network"):
        yield kind, 125_000, 50, 2, one, (0.2, 0.1)
        yield kind, 20_000, 30, 2, both[1:], (0.1,)
        yield kind, 10_000, 20, 7, one, (0.2, 0.1)
    yield "forest-quiet", 250_000, 20, 1, one, (0.2,)
    for kind in kinds[:3]:
        yield kind, 60_000, 100, 2, one, (0.2, 0.1)


def run(out: Path, minutes: float) -> None:
    """Adds a row for each fit that the file has not, until `minutes` are over."""
    until, done = time.monotonic() + 60 * minutes, set()
    if out.exists():
        done = {tuple(row[name] for name in KEY) for row in csv.DictReader(out.open())}
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not done:
            writer.writeheader()
        for kind, rows, columns, classes, libraries, rates in cases():
            shipped = getattr(datasets, f"load_{kind}", None)
            table = shipped(return_X_y=True) if shipped else table_of(kind, rows, columns, classes, seed=1)
            for library in libraries:
                for rate in rates:
                    if time.monotonic() > until:
                        return
                    size = len(table[1]) - len(table[1]) // 5, table[0].shape[1]
                    if tuple(map(str, (kind, library, *size, classes, rate))) in done:
                        continue
                    row = boost(library, table, classes, rate, seed=1)
                    writer.writerow({"table": kind, **row})
                    file.flush()
                    print(kind, *row.values(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--minutes", type=float, default=25.0)
    commands.add_parser("fit")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.out, arguments.minutes)
    else:
        fit(DATA)


if __name__ == "__main__":
    sys.exit(main())
