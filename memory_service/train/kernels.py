"""Members that learn from files, and what is cheap of their features: kernel least squares, random trees."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.columns import column_kind, typed
from memory_service.train.problem import Fit, Member, Prediction, Problem, answers_of, installed
from memory_service.train.words import softmax

LANDMARKS = 2000
ROWS = 20_000
WIDTHS = (0.5, 1.5, 4.0)
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
MOST_TREES, TREES_AT_ONCE = 500, 25
SHARPNESS = (3.0, 5.0, 8.0, 12.0, 18.0, 27.0)


def kernel_regression(fit: Fit, blocks: Sequence[np.ndarray], widths: Sequence[float] = WIDTHS) -> Prediction:
    """Fit on blocks of features that count alike: (rows and then test rows, features) each. Of width 0 the
    kernel is linear.

    Width of the kernel, ridge and sharpness of the probabilities are those with the least loss on
    `valid_rows`; where there are none, those of `memo`. At most 20 000 rows are learned from, and 2000
    are centres of the kernel.
    """
    from scipy.linalg import cholesky, eigh, solve_triangular

    problem, valid_rows, memo = fit.problem, fit.valid_rows, fit.memo
    rng = np.random.default_rng(fit.seed)
    train_rows = rng.permutation(fit.train_rows)[:ROWS]
    x = np.hstack([_scaled(block, train_rows, valid_rows, len(problem.inputs)) for block in blocks])
    y = targets_of(problem)[train_rows]
    centre, spread = y.mean(0), (y.std(0) + 1e-9 if problem.kind == "values" else np.ones(y.shape[1]))
    n, v = len(train_rows), len(valid_rows)
    centres = np.sort(rng.permutation(n)[:LANDMARKS])
    products = x @ x[centres].T
    distances = np.maximum((x**2).sum(1)[:, None] + (x[centres] ** 2).sum(1) - 2 * products, 0)
    best = float("inf")
    for width in widths if v else (float(memo.get("width", 1.5)),):
        kernel = np.exp(-width / (2 * len(blocks)) * distances) if width else products / len(blocks)
        lower = cholesky(kernel[centres].astype(float) + 1e-5 * np.eye(len(centres)), lower=True)
        features = solve_triangular(lower, kernel[:n].T, lower=True).T
        values, vectors = eigh(features.T @ features)
        answer = vectors.T @ (features.T @ (y - centre)) / spread
        for ridge in RIDGES if v else (float(memo.get("ridge", 0.01)),):
            weights = vectors @ (answer / (np.maximum(values, 0) + ridge)[:, None])
            raw = kernel[n:] @ solve_triangular(lower, weights, lower=True, trans=1) * spread + centre
            known = (1.0 if problem.kind == "values" else float(memo.get("sharpness", 8.0)),)
            for sharpness in SHARPNESS if v and problem.kind != "values" else known:
                given = _given(problem, raw, sharpness)
                loss = fit.loss(given[:v]) if v else 0.0
                if loss < best:
                    chosen = {"width": width, "ridge": ridge, "sharpness": sharpness}
                    best, result = loss, Prediction(given[:v], given[v:], chosen)
    return result


linear_regression = functools.partial(kernel_regression, widths=(0.0,))


def random_trees(fit: Fit, blocks: Sequence[np.ndarray]) -> Prediction:
    """Up to 500 extremely random trees on the same blocks, which may be of other scales: as many as grow in
    two thirds of the time."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    problem, x, given = fit.problem, np.hstack(blocks), fit.clock.left()
    kind = ExtraTreesRegressor if problem.kind == "values" else ExtraTreesClassifier
    model = kind(max_features=0.15, n_jobs=problem.cores, random_state=fit.seed, warm_start=True)
    targets = problem.targets[:, 0] if problem.kind == "values" and problem.width == 1 else problem.targets
    for trees in range(TREES_AT_ONCE, MOST_TREES + 1, TREES_AT_ONCE):
        model.set_params(n_estimators=trees).fit(x[fit.train_rows], targets[fit.train_rows])
        if fit.clock.left() < given * (1 - 0.65 * trees / (trees + TREES_AT_ONCE)):
            break
    valid = answers_of(model, problem, x[fit.valid_rows]) if len(fit.valid_rows) else fit.nothing
    return Prediction(valid, answers_of(model, problem, x[len(problem.inputs) :]))


def _scaled(block: np.ndarray, train_rows: np.ndarray, valid_rows: np.ndarray, rows: int) -> np.ndarray:
    """Rows that train, that validate and of the test set, with unit mean square distance from the mean."""
    train = block[train_rows]
    scale = np.sqrt(((train - train.mean(0)) ** 2).sum(1).mean()) + 1e-9
    whole = np.concatenate([train, block[valid_rows], block[rows:]])
    return np.asarray((whole - train.mean(0)) / scale, np.float32)


def targets_of(problem: Problem) -> np.ndarray:
    """What least squares fits, (rows, outputs): of a class 0 and 1."""
    if problem.kind == "classes":
        return np.asarray(np.eye(problem.width)[problem.targets])
    return np.asarray(problem.targets, np.float64).reshape(len(problem.targets), -1)


def _given(problem: Problem, raw: np.ndarray, sharpness: float) -> np.ndarray:
    """Probabilities of what least squares gave for 0 and 1."""
    if problem.kind == "values":
        return np.asarray(raw)
    if problem.kind == "labels":
        return np.asarray(1 / (1 + np.exp(-sharpness * (raw - 0.5))))
    return softmax(sharpness * raw)


MOST_VALUES = 40  # of a category


@dataclass
class FileMember(Member):
    """A member of files that end in one of `endings`; without endings of blocks of features.

    needs   package without which it does not apply
    read    what the fits need of all files, given the problem and the rows of the first fit that train
    cost    seconds of a fit, given the number of files that train and of all files
    alike   numbers of files that belong together, given those that train and those to predict
    """

    name: str
    endings: tuple[str, ...]
    needs: str
    read: Callable[[Problem, np.ndarray], Any]
    learn_from: Callable[[Fit, Any], Prediction]
    cost: Callable[[int, int], float]
    anytime: bool = False
    seeded: bool = False
    alike: Callable[[Sequence[Any], Sequence[Any]], np.ndarray | None] | None = None
    of: Problem | None = None
    known: Any = None

    def applies(self, problem: Problem) -> bool:
        files = problem.inputs
        if not self.endings:
            return bool(problem.blocks)
        named = isinstance(files, list) and all(str(p).lower().endswith(self.endings) for p in files[:20])
        return named and installed(self.needs)

    def price(self, problem: Problem) -> float:
        return self.cost(len(problem.inputs), len(problem.inputs) + len(problem.test_inputs))

    def learn(self, fit: Fit) -> Prediction:
        if self.of is not fit.problem:
            self.known, self.of = self.read(fit.problem, fit.train_rows), fit.problem
            if isinstance(self.known, list) and fit.problem.beside is not None:  # blocks of features
                self.known += columns_beside(fit.problem.beside)
        return self.learn_from(fit, self.known)


def columns_beside(table: pd.DataFrame) -> list[np.ndarray]:
    """A block of standardised numbers and of 0 and 1 for each frequent category; texts are left out."""
    parts: list[pd.Series] = []
    for name in table.columns:
        kind = column_kind(table[name])
        column = typed(table[name], kind)
        if kind in ("number", "code", "date"):
            known = (column - column.mean()) / (column.std() + 1e-9)
            parts += [known.fillna(0.0).clip(-4, 4), *([column.isna()] if column.isna().any() else [])]
        elif kind == "category":
            parts += [column == value for value in column.value_counts().index[:MOST_VALUES]]
    return [np.column_stack(parts).astype(np.float32)] if parts else []
