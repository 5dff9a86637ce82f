"""Are boosted trees planned with a low rate, a cap in the thousands and early stopping?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.quality.boosting_rounds import LEARNING_RATES, MOST_ROUNDS, patience_rounds
from tests.planning import case, plan, promises_kept, seed_knowledge

TABLE: dict[str, Any] = {"task": "tabular", "gpu": "cpu", "cpu_count": 16, "n_features": 50}
LIBRARY = st.sampled_from(["lightgbm", "xgboost", "catboost"])
OBJECTIVE = st.sampled_from(["fast", "balanced", "quality"])


def trees(**asked: Any) -> dict[str, Any]:
    return plan(**{**TABLE, "model": "lightgbm", "minutes": 240, **asked})


def is_cut_short(answer: dict[str, Any]) -> bool:
    """By the minutes, or by the rounds that were asked for; not by the most that is ever planned."""
    return any("cut short" in text and "most that" not in text for text in answer["warnings"])


@pytest.mark.parametrize("n_train", [2_000, 20_000, 100_000, 1_000_000, 5_000_000])
def test_a_cap_of_thousands_of_rounds_ends_by_early_stopping(n_train: int) -> None:
    answer = trees(n_train=n_train)
    best = answer["expected"]["best_epoch"]
    assert answer["epochs"] >= max(3_000, min(best["high"], MOST_ROUNDS))
    assert answer["early_stopping_patience"] == patience_rounds(answer["learning_rate"])
    assert best["low"] < best["value"] < best["high"]
    assert not is_cut_short(answer)
    assert promises_kept(answer) == []


def test_minutes_are_those_of_the_expected_best_round_and_not_of_the_cap() -> None:
    answer = trees(n_train=200_000, folds=1)
    expected = answer["expected"]
    training = expected["epoch_seconds"]["value"] * (expected["best_epoch"]["value"] + 200) / 60
    assert expected["total_minutes"]["value"] < training + 1
    assert expected["total_minutes"]["value"] * 2 < expected["total_minutes"]["high"]
    whole = expected["epoch_seconds"]["value"] * answer["epochs"] / 60
    assert whole > 1.5 * expected["total_minutes"]["value"]


def test_the_learning_rate_falls_as_minutes_allow() -> None:
    rates = [
        trees(n_train=1_000_000, minutes=minutes, folds=1, objective="quality")["learning_rate"]
        for minutes in (3, 5, 8, 15, 60)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


@settings(max_examples=25, deadline=None)
@given(LIBRARY, st.integers(100, 3_000_000), st.integers(100, 3_000_000), st.floats(2, 300))
def test_larger_data_get_no_fewer_rounds_unless_time_forces_a_higher_rate(
    model: str, one: int, other: int, minutes: float
) -> None:
    small, large = (
        trees(n_train=n, model=model, minutes=minutes, folds=1, objective="quality")
        for n in sorted((one, other))
    )
    if not (small["feasible"] and large["feasible"]):
        return
    if large["learning_rate"] <= small["learning_rate"] and not is_cut_short(large):
        assert large["epochs"] >= small["epochs"]
        assert large["expected"]["best_epoch"]["value"] >= small["expected"]["best_epoch"]["value"]
    else:
        said = " ".join((*large["rationale"], *large["warnings"]))
        assert "next lower learning rate" in said or is_cut_short(large)


@settings(max_examples=25, deadline=None)
@given(LIBRARY, st.integers(10_000, 30_000_000), st.floats(2, 300), OBJECTIVE)
def test_rounds_are_cut_short_only_where_the_highest_rate_does_not_fit(
    model: str, n_train: int, minutes: float, objective: str
) -> None:
    asked = {"n_train": n_train, "model": model, "minutes": minutes, "objective": objective}
    answer = trees(**asked)
    if not answer["feasible"]:
        return
    assert promises_kept(answer) == []
    grid = price_candidates(case(**{**TABLE, **asked}), seed_knowledge()).sets[-1].grid
    highest = len(grid.epochs) - len(LEARNING_RATES)
    if is_cut_short(answer):
        assert grid.minutes[0, highest, 0] > 0.5 * minutes  # beside an early submission it may not fit
        assert answer["learning_rate"] == LEARNING_RATES[0]
    else:
        assert answer["epochs"] >= min(answer["expected"]["best_epoch"]["high"], MOST_ROUNDS)


@settings(max_examples=25, deadline=None)
@given(LIBRARY, st.integers(100, 10_000_000), st.floats(1, 300), st.floats(1, 300), OBJECTIVE)
def test_more_minutes_never_lower_the_quality_of_boosting(
    model: str, n_train: int, one: float, other: float, objective: str
) -> None:
    answers = [
        trees(n_train=n_train, model=model, minutes=minutes, objective=objective)
        for minutes in sorted((one, other))
    ]
    reached = [a["expected"]["quality_index"]["value"] if a["feasible"] else -1.0 for a in answers]
    assert reached[0] <= reached[1]


def test_asked_rounds_are_the_cap_and_too_few_of_them_are_told() -> None:
    answer = trees(n_train=100_000, epochs=300)
    assert answer["epochs"] == 300
    assert any("were asked for" in text for text in answer["warnings"])
    assert not is_cut_short(trees(n_train=100_000, epochs=25_000))
