"""At which round is validation best? Boosts generated and shipped tables at several learning rates with early
stopping, for the law of `domain/quality/boosting_rounds.py`.

    python benchmarks/boosting_rounds.py run ROWS.csv [--minutes 25]     about 25 minutes on one core
    python benchmarks/boosting_rounds.py fit       the constants, from benchmarks/data/boosting_rounds.csv
    python benchmarks/boosting_rounds.py check     what is planned against 5 000 rounds, on 100 000 x 50

Each fit runs on one thread with the settings of the generated scripts (`scripts/tree_*.py.txt`), patience
5 / learning rate, and at most two minutes of processor time; one that met that limit is told apart (`ended`).
Tables: clusters (scikit-learn's `make_classification`), a random network and a random forest as teachers, all
with noise, and the small real ones that ship with scikit-learn. `fit` also reads the best iterations that
yandex-research/tabular-dl-tabr publishes (exp/*/report.json), rows `real` of the same file.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeRegressor

Array = NDArray[np.float64]
DATA = Path(__file__).parent / "data" / "boosting_rounds.csv"
FIELDS = (
    "table", "library", "n_train", "n_features", "n_classes", "learning_rate", "seed", "best_round", "rounds",
    "ended", "seconds", "log_error", "at_quarter", "at_half", "metric",
)  # fmt: skip
KEY = ("table", "library", "n_train", "n_features", "n_classes", "learning_rate")
SECONDS, MOST_ROUNDS = 120.0, 20_000
POINT = 0.024
"""Log error of an index point on tables."""


def table_of(kind: str, rows: int, columns: int, classes: int, seed: int) -> tuple[Array, Array]:
    """(inputs, target) of a table; classes 1 = regression; "-quiet": a twentieth of the noise's power."""
    rng = np.random.default_rng(seed)
    kind, _, quiet = kind.partition("-")
    if kind == "clusters":
        made: tuple[Array, Array] = datasets.make_classification(
            rows, columns, n_informative=max(5, columns // 3), n_redundant=columns // 5, n_classes=classes,
            n_clusters_per_class=8, flip_y=0.005 if quiet else 0.1, class_sep=0.7, random_state=seed,
        )  # fmt: skip
        return made
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
    began = time.process_time()
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
        objective = {
            "objective": "multiclass",
            "num_class": classes,
            "metric": ["multi_logloss", "multi_error"],
        }
    settings = {
        "learning_rate": rate, "num_leaves": 63, "feature_fraction": 0.8, "bagging_fraction": 0.8,
        "bagging_freq": 1, "seed": seed, "num_threads": 1, "verbosity": -1, "first_metric_only": True,
        **objective,
    }  # fmt: skip
    kept: dict[str, Any] = {}

    def in_time(env: Any) -> None:
        if time.process_time() > until:
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    data = lightgbm.Dataset(train[0], train[1])
    lightgbm.train(
        settings, data, MOST_ROUNDS, valid_sets=[lightgbm.Dataset(valid[0], valid[1], reference=data)],
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
        objective = {
            "objective": "multi:softprob",
            "num_class": classes,
            "eval_metric": ["merror", "mlogloss"],
        }
    settings = {
        "learning_rate": rate, "max_depth": 6, "subsample": 0.8, "colsample_bytree": 0.8,
        "tree_method": "hist", "seed": seed, "nthread": 1, **objective,
    }  # fmt: skip

    class InTime(xgboost.callback.TrainingCallback):
        def after_iteration(self, *_: Any) -> bool:
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
        def after_iteration(self, _: Any) -> bool:
            return time.process_time() <= until

    model.fit(*train, eval_set=tuple(valid), early_stopping_rounds=patience, callbacks=[InTime()])
    return _both(model.get_evals_result()["validation"], classes)


def _both(kept: dict[str, list[float]], classes: int) -> tuple[list[float], list[float]]:
    """(error, loss) after each round, whatever the library calls them."""
    names = {name.lower(): values for name, values in kept.items()}
    losses = ("binary_logloss", "multi_logloss", "logloss", "mlogloss", "multiclass", "rmse")
    loss = next(names[name] for name in losses if name in names)
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


def fit(path: Path) -> dict[str, float]:
    """The constants of the law, printed with what they stand on.

    Slope in the learning rate: within a table and library. Libraries: ratio to LightGBM on the same table and
    rate. Rows, features and classes: least squares over tables, generated and real ones with a level each.
    Level and spread: the real ones alone.
    """
    rows = [row for row in csv.DictReader(path.open()) if row["ended"] != "time"]
    rows = [row for row in rows if float(row["best_round"]) < 0.97 * float(row["rounds"])]
    for row in rows:
        row["log"] = float(np.log(float(row["best_round"])))
        row["slow"] = float(np.log(0.1 / float(row["learning_rate"])))
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        name = tuple(row[key] for key in ("table", "library", "n_train", "n_features", "n_classes"))
        groups.setdefault(name, []).append(row)
    several = [group for group in groups.values() if len(group) > 1]
    x, y = (
        np.concatenate([[r[name] - np.mean([q[name] for q in group]) for r in group] for group in several])
        for name in ("slow", "log")
    )
    found = {"RATE_EXPONENT": float(x @ y / (x @ x))}
    at_tenth = {
        name: float(np.mean([r["log"] - found["RATE_EXPONENT"] * r["slow"] for r in group]))
        for name, group in groups.items()
    }
    for library in ("xgboost", "catboost"):
        ratios = [
            at_tenth[name] - at_tenth[(name[0], "lightgbm", *name[2:])]
            for name in at_tenth
            if name[1] == library and (name[0], "lightgbm", *name[2:]) in at_tenth
        ]
        found[library], found[f"tables of {library}"] = float(np.exp(np.mean(ratios))), len(ratios)
    names = [name for name in at_tenth if name[1] == "lightgbm"]
    real = np.array([name[0].startswith("real:") for name in names])
    size = np.array([[float(value) for value in name[2:]] for name in names])
    design = np.column_stack([
        real, ~real, np.log(size[:, 0] / 1e4), np.log(size[:, 1] / 20), np.log(np.maximum(size[:, 2], 2) / 2),
    ])  # fmt: skip
    target = np.array([at_tenth[name] for name in names])
    solved = np.linalg.lstsq(design, target, rcond=None)[0]
    rest = target - design @ solved
    found |= {"ROUNDS": float(np.exp(solved[0])), "rounds, generated": float(np.exp(solved[1]))}
    found |= dict(zip(("ROWS", "FEATURES", "CLASSES"), map(float, solved[2:]), strict=True))
    found |= {"SPREAD": float(rest[real].std(ddof=1)), "spread, generated": float(rest[~real].std(ddof=1))}
    found |= {"real tables": int(real.sum()), "generated tables": int((~real).sum()), "fits": len(rows)}
    timed = [row for row in rows if row["log_error"]]
    by = {(*(row[name] for name in KEY[:-1]), float(row["learning_rate"])): row for row in timed}
    for slow, fast in ((0.2, 0.1), (0.1, 0.05), (0.05, 0.03), (0.05, 0.02)):
        gains = [
            (float(row["log_error"]) - float(by[(*name[:-1], fast)]["log_error"])) / POINT
            for name, row in by.items()
            if name[-1] == slow and (*name[:-1], fast) in by
        ]
        error = np.std(gains, ddof=1) / len(gains) ** 0.5
        print(f"{slow:g} -> {fast:g}: {np.mean(gains):+.2f} +- {error:.2f} points over {len(gains)} pairs")
    for end in ("at_half", "at_quarter"):
        lost = [(float(row[end]) - float(row["log_error"])) / POINT for row in timed]
        print(f"ended {end}: {np.mean(lost):.2f} points lost (median {np.median(lost):.2f}, n {len(lost)})")
    for what, value in found.items():
        print(f"{what} {value:.3g}")
    return found


SCHEDULES = (
    ("500 rounds (planned before)", 0.05, 500, 50),
    ("5 000 rounds at 0.05, early stopping", 0.05, 5_000, 100),
    ("planned, balanced", 0.03, 20_000, 167),
    ("learning rate 0.1, early stopping", 0.1, 20_000, 50),
    ("5 000 rounds at 0.05 to the end", 0.05, 5_000, 5_000),
)
"""Learning rate, cap and patience; `planned` as answered for 100 000 x 50 on 16 cores."""


def check(kinds: tuple[str, ...] = ("forest-quiet", "network")) -> None:
    """AUC on 40 000 rows kept apart of what is planned for 100 000 x 50 against 5 000 rounds."""
    for kind in kinds:
        inputs, target = table_of(kind, 140_000, 50, 2, seed=2)
        parts = (slice(80_000), slice(80_000, 100_000), slice(100_000, None))
        train, valid, test = ((inputs[rows], target[rows]) for rows in parts)
        for name, rate, rounds, patience in SCHEDULES:
            settings = {
                "objective": "binary", "metric": "auc", "learning_rate": rate, "num_leaves": 63,
                "feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1, "seed": 42,
                "num_threads": 1, "verbosity": -1,
            }  # fmt: skip
            began, data = time.process_time(), lightgbm.Dataset(*train)
            model = lightgbm.train(
                settings, data, rounds, valid_sets=[lightgbm.Dataset(*valid, reference=data)],
                callbacks=[lightgbm.early_stopping(patience, verbose=False)],
            )  # fmt: skip
            seconds, best = time.process_time() - began, model.best_iteration
            auc = roc_auc_score(test[1], model.predict(test[0], num_iteration=best))
            print(f"{kind}: {name}: AUC {auc:.4f}, best round {best}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--minutes", type=float, default=25.0)
    commands.add_parser("fit")
    commands.add_parser("check")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.out, arguments.minutes)
    elif arguments.command == "fit":
        fit(DATA)
    else:
        check()


if __name__ == "__main__":
    main()
