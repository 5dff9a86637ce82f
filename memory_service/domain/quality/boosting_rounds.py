"""At which round of boosting validation is best, and what a learning rate or too few rounds cost.

The best round follows a power law of learning rate, rows, features and classes around which tables differ
widely (10th-90th percentile: a quarter to four times). So no plan buys a number of rounds: it buys a cap
well above the 90th percentile and lets early stopping end the fold. Constants: `make`-free, one core, 25
minutes: benchmarks/boosting_rounds.py (docs/boosting_rounds.md has the figures).
"""

from __future__ import annotations

from math import ceil, erf, exp, log, log2, pi, sqrt

from memory_service.domain.common.estimate import SD_OF_P90, Estimate

LEARNING_RATES = (0.2, 0.1, 0.05, 0.03, 0.02)
"""The highest first. Lower ones gained nothing that 24 fits could tell from noise."""

ROUNDS = 280.0
"""Median best round at learning rate 0.1, 10 000 rows, 20 features, one tree a round."""

ROWS_EXPONENT, FEATURES_EXPONENT, CLASSES_EXPONENT = 0.33, 0.2, 0.2
LIBRARY = {"xgboost": 1.5, "catboost": 3.0}
"""Rounds against LightGBM's: trees of depth 6, and symmetric ones, say less each than 63 leaves."""

SPREAD = 1.05
"""Standard deviation of log(best round) between tables."""

TABLES = 45

PATIENCE = 5.0
"""Rounds without a gain before a fold ends, times the learning rate: 50 at 0.1, 100 at 0.05, 250 at 0.02."""

CAP, MOST_ROUNDS = 3.0, 20_000
"""The cap is three times the 90th percentile of the best round: early stopping, not the cap, ends a fold."""

RATE_POINTS = {0.2: 3.0, 0.1: 1.2, 0.05: 0.4, 0.03: 0.1, 0.02: 0.0}
"""Index points that a learning rate costs, with early stopping."""

HALVING_POINTS = 2.5
"""Index points lost where boosting ends at half of its best round; again as much for each further halving."""


def best_round(
    learning_rate: float, n_train: float, n_features: int, n_classes: int, library: str
) -> Estimate:
    """The round at which validation is best, 10th-90th percentile over tables.

    n_train   rows a fold learns from; n_classes: 1 for regression
    It never falls when the learning rate falls or when rows, features or classes grow.
    """
    value = ROUNDS * LIBRARY.get(library, 1.0) * 0.1 / learning_rate
    value *= (max(n_train, 1.0) / 1e4) ** ROWS_EXPONENT * (max(n_features, 1) / 20.0) ** FEATURES_EXPONENT
    value *= max(1.0, n_classes / 2.0) ** CLASSES_EXPONENT
    wide = exp(SD_OF_P90 * SPREAD)
    value = max(1.0, value)
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


def rate_points(learning_rate: float) -> float:
    """Index points that a learning rate is expected to lose against the lowest one."""
    return RATE_POINTS[learning_rate]


def cut_points(best: Estimate, rounds: float) -> float:
    """Index points expected to be lost because boosting ends at `rounds`: the mean of `HALVING_POINTS` a
    halving over the best rounds that are possible; it never rises with rounds."""
    spread = max(log(best.high / best.value) / SD_OF_P90, 1e-6)
    over = log(best.value / rounds) / spread
    beyond = spread * (exp(-over * over / 2.0) / sqrt(2.0 * pi) + over * (1.0 + erf(over / sqrt(2.0))) / 2.0)
    return HALVING_POINTS * beyond / log(2.0)


def points_short(needed: float, rounds: float) -> float:
    """Index points lost by `rounds` where `needed` are known to be needed."""
    return HALVING_POINTS * max(0.0, log2(needed / max(rounds, 1.0)))
