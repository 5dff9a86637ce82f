"""At which round of boosting validation is best, and what a learning rate or too few rounds cost.

The best round follows a power law of learning rate, rows and features around which tables differ widely
(10th-90th percentile: a quarter to four times). So no plan buys a number of rounds: it buys a cap well above
the 90th percentile, and early stopping ends the fold. Constants by `python benchmarks/boosting_rounds.py fit`
from its own fits and from published best iterations (docs/methods/boosting_rounds.md).
"""

from math import ceil, erf, exp, log, log2, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.domain.common.estimate import SD_OF_P90, Estimate

RATE_POINTS = {0.2: 3.7, 0.1: 1.15, 0.05: 0.7, 0.03: 0.1, 0.02: 0.0}
"""Learning rate -> index points it costs with early stopping. Measured: 0.2 to 0.1 gains 2.6 +- 0.7, 0.1 to
0.05 0.5 +- 0.5, 0.05 to 0.02 0.7 +- 0.4; under 0.03 nothing that could be told from noise."""

LEARNING_RATES = tuple(RATE_POINTS)
"""The highest first."""

ROUNDS = 270.0
"""Median best round at learning rate 0.1, 10 000 rows, 20 features; LightGBM."""

RATE_EXPONENT, ROWS_EXPONENT, FEATURES_EXPONENT = 1.17, 0.44, 0.175
"""The number of classes (2 to 10) had no effect that could be seen: each round has a tree for each."""

LIBRARY = {"xgboost": 1.5, "catboost": 2.9}
"""Rounds against LightGBM's on the same table: trees of depth 6, and symmetric ones, say less each than 63
leaves."""

SLOWEST = max(LIBRARY, key=LIBRARY.__getitem__)

SPREAD = 1.05
"""Standard deviation of log(best round) between real tables."""

TABLES = 56

PATIENCE = 5.0
"""Rounds without a gain before a fold ends, times the learning rate: 50 at 0.1, 100 at 0.05, 250 at 0.02."""

CAP, MOST_ROUNDS = 3.0, 20_000
"""The cap is three times the 90th percentile of the best round: early stopping, not the cap, ends a fold."""

HALVING_POINTS = 2.3
"""Index points lost by ending at half of the best round (2.0 measured), and again as much for each further
halving (5.0 at a quarter)."""


def best_round(learning_rate: float, n_train: float, n_features: int, library: str) -> Estimate:
    """The round at which validation is best, 10th-90th percentile over tables.

    n_train   rows that a fold learns from
    It never falls when the learning rate falls or when rows or features grow.
    """
    value = ROUNDS * LIBRARY.get(library, 1.0) * (0.1 / learning_rate) ** RATE_EXPONENT
    value *= (max(n_train, 1.0) / 1e4) ** ROWS_EXPONENT * (max(n_features, 1) / 20.0) ** FEATURES_EXPONENT
    value, wide = max(1.0, value), exp(SD_OF_P90 * SPREAD)
    basis = f"law of learning rate, rows and features over {TABLES} tables; early stopping finds the round"
    return Estimate(value, max(1.0, value / wide), value * wide, "estimated", TABLES, basis)


def patience_rounds(learning_rate: float) -> int:
    """Rounds without a gain before a fold ends: a lower rate moves slower."""
    return ceil(PATIENCE / learning_rate - 1e-9)


def cap_of(best: Estimate) -> int:
    """Most rounds of a fold, two digits: three times the 90th percentile of the best round."""
    return max(100, min(MOST_ROUNDS, ceil(float(f"{CAP * best.high:.2g}"))))


def rounds_trained(best: Estimate, patience: int, cap: int) -> tuple[float, float, float]:
    """(low, value, high) rounds that a fold trains: to its best round, the patience after it, and no more
    than the cap."""
    low, value, high = (min(float(cap), part + patience) for part in (best.low, best.value, best.high))
    return low, value, high


def cut_points(best: Estimate, rounds: Any) -> Any:
    """Index points expected to be lost because boosting ends at `rounds` (numbers, or arrays of them): the
    mean of `HALVING_POINTS` a halving over the best rounds that are possible; it never rises with rounds."""
    spread = np.maximum(np.log(best.high / best.value) / SD_OF_P90, 1e-6)
    over = np.log(best.value / np.asarray(rounds, dtype=np.float64)) / spread
    below = (1.0 + _erf(over / sqrt(2.0))) / 2.0
    beyond = spread * (np.exp(-over * over / 2.0) / sqrt(2.0 * pi) + over * below)
    return HALVING_POINTS * beyond / log(2.0)


def _erf(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([erf(value) for value in values.ravel().tolist()]).reshape(values.shape)


def points_short(needed: float, rounds: float) -> float:
    """Index points lost by `rounds` where `needed` are known to be needed."""
    return HALVING_POINTS * max(0.0, log2(needed / max(rounds, 1.0)))
