"""Who and what: a linear model of all categories, and what two of them say together by latent factors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.features import as_text
from memory_service.train.problem import Clock, Fit, Member, Prediction, Problem

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
        sizes = (
            [(int(memo["size"]), float(memo["penalty"]))]
            if not n
            else product(FACTOR_SIZES, FACTOR_PENALTIES)
        )
        for each in sizes if n or memo["size"] else ():
            if n and fit.clock.left() < 1:
                break
            one, other = factors(*known, rest, *each, fit.seed, fit.clock)
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
    first: np.ndarray,
    second: np.ndarray,
    rest: np.ndarray,
    size: int,
    penalty: float,
    seed: int,
    clock: Clock,
) -> tuple[np.ndarray, np.ndarray]:
    """(names, size) of both sides: of each row the product of its two is near to `rest`. The last of each
    side, that of -1, is 0. It ends early where the clock has no second left."""
    ones, others = first.max() + 1, second.max() + 1
    one, other = np.zeros((ones, size)), 0.1 * np.random.default_rng(seed).normal(size=(others, size))
    for _ in range(FACTOR_ROUNDS):
        if clock.left() < 1:
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
