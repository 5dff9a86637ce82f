"""Is a second run of another family worth more than one that errs alike? And are the minutes used?"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import median
from typing import Any

import pytest

from memory_service.domain.common import units
from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.problem import DoneRun
from memory_service.domain.portfolio import portfolio_plan
from memory_service.domain.portfolio.portfolio import Portfolio, choose_portfolio
from memory_service.domain.portfolio.portfolio_plan import NOTHING_MORE
from memory_service.domain.portfolio.run_sets import NOISE, RunSets, blend_quality, run_sets
from tests.planning import case, plan, seed_knowledge

ASKED: tuple[dict[str, Any], ...] = (
    {"task": "image-classification", "n_train": 24_000, "gpu": "a100"},
    {"task": "image-segmentation", "n_train": 4_000, "gpu": "t4"},
    {"task": "object-detection", "n_train": 9_000, "gpu": "a10"},
    {"task": "text-classification", "n_train": 17_000, "gpu": "l4"},
    {"task": "tabular-regression", "n_train": 60_000, "gpu": "cpu"},
    {"task": "audio-classification", "n_train": 12_000, "gpu": "rtx3090"},
)
BUDGETS = (30, 120, 480)


def apart(first: str, second: str) -> float:
    """Index points by which two models differ on one data set: of one family they err alike."""
    return 1.5 if first[0] == second[0] else 3.5


def test_a_run_of_another_family_adds_more_than_one_that_errs_alike() -> None:
    alike = blend_quality([("resnet50", 80.0), ("resnet101", 80.0)], apart)
    other = blend_quality([("resnet50", 80.0), ("convnext_tiny", 80.0)], apart)
    assert 80.0 < alike < other


def test_a_third_run_adds_less_than_the_second_and_a_poor_one_next_to_nothing() -> None:
    runs = [("a", 80.0), ("b", 80.0), ("c", 80.0)]
    values = [blend_quality(runs[:n], apart) for n in (1, 2, 3)]
    assert values[1] - values[0] > values[2] - values[1] > 0
    assert blend_quality([("a", 80.0), ("b", 65.0)], apart) - 80.0 < 0.001


def test_a_budget_too_short_for_two_runs_has_one_and_blends_nothing() -> None:
    answer = plan(task="image", n_train=24_000, gpu="t4", minutes=4, objective="fast")
    assert len(answer["portfolio"]) == 1
    assert answer["blend"] == {"method": "none", "runs": [1]}


def test_where_the_main_run_is_late_one_split_comes_first_and_is_not_blended() -> None:
    answer = plan(task="segmentation", n_train=5_000, gpu="t4", minutes=30)
    first = answer["portfolio"][0]
    assert first["folds"] == 1
    assert first["deadline_minute"] <= 0.2 * 30
    assert "first submission" in first["why"]
    assert first["run"] not in answer["blend"]["runs"]


@pytest.mark.parametrize(("points", "stops"), [(0.0, True), (1.0, False)])
def test_one_stops_where_all_that_is_left_adds_nothing_to_what_is_done(
    monkeypatch: pytest.MonkeyPatch, points: float, stops: bool
) -> None:
    """Whatever the runs add to one another: of two that stand for each other none is missed alone."""
    done = DoneRun(1, "resnet50", "resnet", 75.0)

    def chosen(sets: RunSets, objective: str, minutes: float) -> Portfolio | None:
        found = choose_portfolio(sets, objective, minutes)
        assert found is not None
        runs = tuple(replace(run, gain=1.0 - points) for run in found.runs)
        return replace(found, runs=runs, quality=done.quality + points)

    monkeypatch.setattr(portfolio_plan, "choose_portfolio", chosen)
    problem = replace(case(**ASKED[0], minutes=60), done=(done,))
    answer = portfolio_plan.plan_portfolio(problem, seed_knowledge()).as_dict()
    assert ("stop-here" in {each["code"] for each in answer["warnings"]}) is stops


def test_minutes_that_no_run_uses_are_said() -> None:
    answer = plan(task="tabular", n_train=3_000_000, gpu="cpu", minutes=120, objective="fast")
    left = 120 - answer["portfolio"][-1]["deadline_minute"]
    assert left > 20
    assert any(f"p90, all but {units.minutes(left)}" in text for text in answer["rationale"])


def test_two_hundred_rows_get_five_folds_and_repeats_and_many_rows_do_not() -> None:
    few, many = (
        plan(task="tabular", n_train=n, gpu="cpu", minutes=60)["portfolio"][0] for n in (200, 200_000)
    )
    assert (few["folds"], few["seeds"] > 1) == (5, True)
    assert many["folds"] < 5


def test_pinned_folds_are_not_repeated_and_a_pinned_model_is_the_only_one() -> None:
    answer = plan(task="tabular", n_train=2_000, gpu="cpu", minutes=60, folds=3)
    assert {run["seeds"] for run in answer["portfolio"]} == {1}
    pinned = plan(task="image", n_train=2_000, gpu="t4", minutes=60, model="resnet18")
    assert {run["model"] for run in pinned["portfolio"]} == {"resnet18.a1_in1k"}


def used(objective: str, least: float) -> list[float]:
    """Shares of the budgets that are used; what is under the least says why it stops there."""
    shares = []
    for asked, minutes in product(ASKED, BUDGETS):
        answer = plan(**asked, minutes=minutes, objective=objective)
        if not answer["feasible"]:
            continue
        shares.append(answer["used_percent"])
        if answer["used_percent"] < least:
            told = [text for text in answer["rationale"] if "othing more to gain" in text]
            assert told, (asked, answer["rationale"])
    return shares


@pytest.mark.parametrize(("objective", "least"), [("balanced", 50.0), ("quality", 75.0)])
def test_plans_use_their_minutes_or_say_what_more_would_buy(objective: str, least: float) -> None:
    shares = used(objective, least)
    assert len(shares) > 15
    assert median(shares) >= least
    assert NOTHING_MORE <= 0.3


def test_balanced_takes_no_run_within_the_noise_of_another_seed() -> None:
    asked: dict[str, Any] = {"task": "image", "n_train": 24_000, "gpu": "a100", "minutes": 240}
    runs = {name: plan(**asked, objective=name)["portfolio"] for name in ("balanced", "quality")}
    blended = runs["balanced"][1:]
    assert all(run["expected_gain"] >= NOISE - 0.01 for run in blended)
    assert len(runs["quality"]) >= len(runs["balanced"])


@pytest.mark.parametrize("n_train", [150_000, 4_000_000])
def test_a_large_table_is_planned_with_boosted_trees(n_train: int) -> None:
    asked = {"task": "tabular-classification", "n_train": n_train, "n_features": 200, "n_classes": 2}
    answer = plan(**asked, gpu="a100", minutes=120, cpu_count=16)
    assert {"lightgbm", "xgboost", "catboost"} & {run["model"] for run in answer["portfolio"]}


def test_two_tuned_encoders_add_about_a_point_to_one() -> None:
    problem = case(task="text", n_train=17_000, gpu="a100", minutes=240)
    sets = run_sets(price_candidates(problem, seed_knowledge()), 240.0)
    runs = [("deberta-v3-large", 90.0), ("roberta-large", 90.0)]
    assert 0.5 < blend_quality(runs, sets.difference) - 90.0 < 1.5
