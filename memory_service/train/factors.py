"""Who and what: a linear model of all categories, and what two of them say together by latent factors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.features import as_text
from memory_service.train.problem import Fit, Member, Prediction, Problem

MOST_ROWS = 300_000
LEAST_VALUES = 20  # of each of the two
ROUNDS = 10
RIDGES = (0.5, 2.0, 6.0, 20.0)
SIZES = (2, 6, 16)  # factors
PENALTIES = (3.0, 10.0, 30.0)


class Factors(Member):
    """Effects of all categories by ridge regression, such as how an author rates and how a film is rated, and
    the products of factors of the two that have the most values, by alternating least squares (Koren et al.,
    2009). Of two classes it predicts the chance of the second."""

    name = "categories, factors"

    def applies(self, problem: Problem) -> bool:
        one = problem.width == {"values": 1, "classes": 2}.get(problem.kind)
        squared = problem.loss in ("squared", "absolute", "log_loss")
        return one and squared and len(problem.inputs) <= MOST_ROWS and len(pair_of(problem)) == 2

    def price(self, problem: Problem) -> float:
        return 1 + 6e-4 * len(problem.inputs)

    def learn(self, fit: Fit) -> Prediction:
        problem, train_rows, valid_rows, memo = fit.problem, fit.train_rows, fit.valid_rows, fit.memo
        both = pd.concat([problem.inputs, problem.test_inputs], ignore_index=True)
        target = np.asarray(problem.targets, float).reshape(len(problem.inputs))
        asked = np.concatenate([valid_rows, np.arange(len(problem.inputs), len(both))]).astype(int)
        first, second = (pd.factorize(as_text(both[name]))[0] for name in pair_of(problem))
        held, n = target[valid_rows], len(valid_rows)

        def loss(found: np.ndarray) -> float:
            return float(np.square(held - found[:n]).mean()) if n else 0.0

        matrix = indicators(problem, both, train_rows)
        ridges = RIDGES if n else (memo["ridge"],)
        tried = [(ridge_effects(matrix, target, train_rows, each), each) for each in ridges]
        effects, ridge = min(tried, key=lambda one: loss(one[0][asked]))
        best = loss(effects[asked])
        answer, size, penalty = effects[asked], 0, 0.0
        rest = target[train_rows] - effects[train_rows]
        known = first[train_rows], second[train_rows]
        sizes = [(int(memo["size"]), float(memo["penalty"]))] if not n else product(SIZES, PENALTIES)
        for each in sizes if n or memo["size"] else ():
            if n and fit.clock.left() < 1:
                break
            one, other = factors(*known, rest, first.max() + 1, second.max() + 1, *each, fit.seed)
            found = effects[asked] + (one[first[asked]] * other[second[asked]]).sum(axis=1)
            if not n or loss(found) < (best if size else 0.99 * best):
                best, answer, (size, penalty) = loss(found), found, each
        if problem.kind == "classes":
            chances = answer.clip(0.01, 0.99)
            answers = np.column_stack([1 - chances, chances])
        else:
            answers = answer[:, None]
        return Prediction(answers[:n], answers[n:], {"ridge": ridge, "size": size, "penalty": penalty})


def pair_of(problem: Problem) -> list[str]:
    """The two categories with the most values of which most stand in several rows; less than two: none."""
    kinds = {name for name, kind in problem.columns.items() if kind in ("category", "code")}
    values = {name: problem.inputs[name].nunique() for name in problem.columns if name in kinds}
    some = {name: n for name, n in values.items() if LEAST_VALUES <= n <= len(problem.inputs) / 3}
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
    first: np.ndarray, second: np.ndarray, rest: np.ndarray, ones: int, others: int, size: int,
    penalty: float, seed: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(ones, size) and (others, size): of each row the product of its two is near to `rest`."""
    rng = np.random.default_rng(seed)
    one, other = np.zeros((ones, size)), 0.1 * rng.normal(size=(others, size))
    for _ in range(ROUNDS):
        one = solved(first, other[second], rest, ones, penalty)
        other = solved(second, one[first], rest, others, penalty)
    return one, other


def solved(keys: np.ndarray, known: np.ndarray, rest: np.ndarray, count: int, penalty: float) -> np.ndarray:
    """The factors of each key by least squares on its rows, given those of the other side."""
    size, right = known.shape[1], np.empty((count, known.shape[1]))
    squares = np.empty((count, size, size))
    for a in range(size):
        right[:, a] = np.bincount(keys, known[:, a] * rest, count)
        for b in range(a + 1):
            squares[:, a, b] = squares[:, b, a] = np.bincount(keys, known[:, a] * known[:, b], count)
    return np.asarray(np.linalg.solve(squares + penalty * np.eye(size), right[:, :, None])[:, :, 0])
