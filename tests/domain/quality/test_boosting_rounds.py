"""Which laws hold for the round at which boosting is best, whatever the table?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.quality.boosting_rounds import (
    CAP,
    HALVING_POINTS,
    LEARNING_RATES,
    MOST_ROUNDS,
    RATE_POINTS,
    best_round,
    cap_of,
    cut_points,
    patience_rounds,
    points_short,
    rounds_trained,
)

ROWS, FEATURES = st.integers(10, 10_000_000), st.integers(1, 10_000)
RATE, LIBRARY = st.sampled_from(LEARNING_RATES), st.sampled_from(["lightgbm", "xgboost", "catboost"])


@given(RATE, RATE, ROWS, ROWS, FEATURES, FEATURES, LIBRARY)
def test_more_data_or_a_lower_rate_never_need_fewer_rounds(
    rate: float, other: float, rows: int, more: int, features: int, wider: int, library: str
) -> None:
    few = best_round(max(rate, other), min(rows, more), min(features, wider), library)
    many = best_round(min(rate, other), max(rows, more), max(features, wider), library)
    assert few.low <= few.value <= few.high
    assert (few.low, few.value, few.high) <= (many.low, many.value, many.high)
    assert cap_of(few) <= cap_of(many) <= MOST_ROUNDS


@given(RATE, ROWS, FEATURES, LIBRARY)
def test_the_cap_is_far_past_the_best_round_and_a_fold_ends_by_its_patience(
    rate: float, rows: int, features: int, library: str
) -> None:
    best = best_round(rate, rows, features, library)
    cap, patience = cap_of(best), patience_rounds(rate)
    assert cap >= min(MOST_ROUNDS, 0.9 * CAP * best.high)
    low, value, high = rounds_trained(best, patience, cap)
    assert 0 < low <= value <= high <= cap
    assert value <= best.value + patience


def test_patience_grows_as_the_rate_falls_and_is_100_rounds_at_a_twentieth() -> None:
    assert [patience_rounds(rate) for rate in (0.1, 0.05, 0.02)] == [50, 100, 250]


@given(RATE, ROWS, FEATURES, LIBRARY, st.floats(1, 1e5), st.floats(1, 1e5))
def test_rounds_never_cost_quality_and_few_cost_a_fixed_amount_a_halving(
    rate: float, rows: int, features: int, library: str, one: float, two: float
) -> None:
    best = best_round(rate, rows, features, library)
    assert cut_points(best, max(one, two)) <= cut_points(best, min(one, two)) + 1e-9
    assert cut_points(best, cap_of(best)) < 0.05 or cap_of(best) == MOST_ROUNDS
    least = best.value / 4_096
    assert cut_points(best, least / 2) - cut_points(best, least) == pytest.approx(HALVING_POINTS, abs=0.02)


def test_where_the_need_is_known_half_of_it_costs_a_halving() -> None:
    assert points_short(1_000, 500) == HALVING_POINTS
    assert points_short(1_000, 2_000) == 0.0


def test_a_lower_rate_is_never_worse() -> None:
    points = [RATE_POINTS[rate] for rate in sorted(LEARNING_RATES)]
    assert points == sorted(points)
    assert points[0] == 0.0
