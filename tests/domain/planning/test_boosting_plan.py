"""Are boosted trees planned with a low rate, a cap in the thousands and early stopping?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.expected_figures import timetable_of
from memory_service.domain.planning.plan_search import PRICE, PlanGrid
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.portfolio.run_sets import EARLY_WORTH
from memory_service.domain.quality.boosting_rounds import MOST_ROUNDS, patience_rounds
from tests.answers import warnings_of
from tests.domain.planning.test_planner_properties import faster
from tests.planning import case, plan, promises_kept, seed_knowledge

TABLE: dict[str, Any] = {"task": "tabular", "gpu": "cpu", "cpu_count": 16, "n_features": 50}
LIBRARY = st.sampled_from(["lightgbm", "xgboost", "catboost"])
CARD = st.sampled_from(["cpu", "mps", "mi300x", "t4", "a100", "h100", "2xt4", "p100,a100"])
OBJECTIVE = st.sampled_from(["fast", "balanced", "quality"])


def trees(**asked: Any) -> dict[str, Any]:
    return plan(**{**TABLE, "model": "lightgbm", "minutes": 240, **asked})


def is_cut_short(answer: dict[str, Any]) -> bool:
    """By the minutes, or by the rounds that were asked for; not by the most that is ever planned."""
    return any("cut short" in text and "most that" not in text for text in warnings_of(answer))


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


@pytest.mark.parametrize("seeds", [1, 3])
def test_by_time_older_folds_cost_less_and_a_fit_to_all_rows_is_priced_for_each_seed(seeds: int) -> None:
    """200 000 rows, 20 000 to forecast: folds learn from 0.9, 0.8 and 0.7 of them."""
    of = TABLE | {"model": "lightgbm", "n_train": 200_000, "n_test": 20_000, "folds": 3, "epochs": 1000}
    series = price_candidates(case(**of | {"task": "time-series-regression"}), seed_knowledge())
    best = series.best("quality", 1e9)
    assert best is not None
    fits, run = best.fits(seeds), best.run(seeds)
    assert (fits.rows, fits.other_rows, fits.whole_rows) == pytest.approx((180_000, 150_000, 200_000))
    assert (fits.first, fits.other, fits.whole, fits.models) == (1, 2, seeds, 3 + seeds)
    assert run.fold.value < run.first_fold.value
    all_of = run.first_fold.value + 2 * run.fold.value + seeds * run.whole.value
    assert run.training.value == pytest.approx(all_of)
    stages = timetable_of(best, seeds)
    assert sum(stage.stage.startswith("all rows") for stage in stages) == seeds
    assert stages[-1].deadline_minute == pytest.approx(run.total_end.high / 60)


def test_fits_of_several_seeds_are_not_called_folds() -> None:
    of = {"task": "image-classification", "gpu": "a100", "model": "resnet50", "n_train": 20_000, "folds": 3}
    best = price_candidates(case(**of), seed_knowledge()).best("quality", 1e9)
    assert best is not None
    for seeds, called in ((1, "fold"), (2, "fit")):
        named = [each.stage.split(":")[0] for each in timetable_of(best, seeds) if "validate" in each.stage]
        assert named == [f"{called} {n} of {3 * seeds}" for n in range(1, 3 * seeds + 1)]


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
        said = " ".join((*large["rationale"], *warnings_of(large)))
        assert "next lower learning rate" in said or is_cut_short(large)


@settings(max_examples=25, deadline=None)
@given(LIBRARY, st.integers(10_000, 30_000_000), st.floats(2, 300), OBJECTIVE)
def test_rounds_are_cut_short_only_where_no_more_fit_or_are_worth_their_minutes(
    model: str, n_train: int, minutes: float, objective: str
) -> None:
    asked = {"n_train": n_train, "model": model, "minutes": minutes, "objective": objective}
    answer = trees(**asked)
    if not answer["feasible"]:
        return
    assert promises_kept(answer) == []
    if not is_cut_short(answer):
        assert answer["epochs"] >= min(answer["expected"]["best_epoch"]["high"], MOST_ROUNDS)
        return
    grid = price_candidates(case(**{**TABLE, **asked}), seed_knowledge()).sets[-1].grid
    rate, fold = answer["learning_rate"], grid.folds.index(answer["folds"])
    cap = list(zip(grid.learning_rates, grid.epochs, strict=True)).index((rate, answer["epochs"]))
    told = next(text for text in warnings_of(answer) if "cut short" in text)
    assert ("the minutes allow no more" in told) == (grid.minutes[0, cap + 1, fold] > minutes)
    whole = max(place for place, other in enumerate(grid.learning_rates) if other == rate)
    if grid.minutes[0, whole, fold] <= minutes and len(answer["portfolio"]) == answer["seeds"] == 1:
        utility = grid.quality[0, :, fold] - PRICE[objective] * grid.doublings[0, :, fold]
        assert utility[whole] <= utility[cap] + EARLY_WORTH[objective] + 1e-9  # which an early end may cost


@settings(max_examples=25, deadline=None)
@given(LIBRARY, CARD, st.integers(100, 10_000_000), st.floats(1, 300), st.floats(1, 300), OBJECTIVE)
def test_more_minutes_never_lower_the_quality_of_boosting(
    model: str, gpu: str, n_train: int, one: float, other: float, objective: str
) -> None:
    answers = [
        trees(n_train=n_train, model=model, gpu=gpu, minutes=minutes, objective=objective)
        for minutes in sorted((one, other))
    ]
    reached = [a["expected"]["quality_index"]["value"] if a["feasible"] else -1.0 for a in answers]
    assert reached[0] <= reached[1]


def test_asked_rounds_are_the_cap_and_too_few_of_them_are_told() -> None:
    answer = trees(n_train=100_000, epochs=300)
    assert answer["epochs"] == 300
    assert any("were asked for" in text for text in warnings_of(answer))
    assert not is_cut_short(trees(n_train=100_000, epochs=25_000))


def of_table(**asked: Any) -> PlanningProblem:
    return case(**{**TABLE, "minutes": 240, **asked})


def grid_of(problem: PlanningProblem) -> PlanGrid:
    return price_candidates(problem, seed_knowledge()).sets[-1].grid


WIDTH = st.integers(2, 2_000)


@settings(max_examples=25, deadline=None)
@given(
    LIBRARY, CARD, WIDTH, st.integers(100, 30_000_000), st.floats(1, 4), st.floats(1, 80), st.floats(1, 80)
)
def test_a_faster_or_larger_card_never_takes_trees_longer(
    model: str, gpu: str, n_features: int, n_train: int, speed: float, one: float, other: float
) -> None:
    asked = {"model": model, "gpu": gpu, "n_features": n_features, "n_train": n_train}
    small, large = (of_table(**asked, vram_gib=gib) for gib in sorted((one, other)))
    quick = replace(large, cards=tuple(faster(card, 1.0, speed) for card in large.cards))
    first, second, third = (grid_of(problem).minutes for problem in (small, large, quick))
    assert (second <= first).all()
    assert (third <= second * (1 + 1e-9)).all()


@settings(max_examples=25, deadline=None)
@given(LIBRARY, CARD, WIDTH, st.integers(100, 30_000_000), st.floats(1, 4))
def test_more_rows_never_take_trees_less_time(
    model: str, gpu: str, n_features: int, n_train: int, more: float
) -> None:
    asked = {"model": model, "gpu": gpu, "n_features": n_features, "epochs": 1000, "folds": 1}
    few, many = (grid_of(of_table(**asked, n_train=int(n))) for n in (n_train, more * n_train))
    both = np.isfinite(few.minutes) & np.isfinite(many.minutes)
    assert (many.minutes[both] >= few.minutes[both] * (1 - 1e-3)).all()  # a cap stretches binning, too


@settings(max_examples=25, deadline=None)
@given(LIBRARY, CARD, WIDTH, st.integers(100, 3_000_000))
def test_a_library_asked_for_by_name_grows_where_it_does_among_others(
    model: str, gpu: str, n_features: int, n_train: int
) -> None:
    asked = {"gpu": gpu, "n_features": n_features, "n_train": n_train}
    among = price_candidates(of_table(**asked), seed_knowledge()).sets[-1]
    row = [option.model.name for option in among.table.options].index(model)
    alone, together = grid_of(of_table(**asked, model=model)), among.grid
    assert alone.minutes_on is not None
    assert together.minutes_on is not None
    assert np.array_equal(alone.minutes_on[:, 0], together.minutes_on[:, row])


ELSEWHERE: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"gpu": "cpu"}, ""),
    ({"gpu": "cpu,t4"}, "a processor was"),
    ({"gpu": "mi300x"}, "mi300x is not NVIDIA's"),
    ({"model": "lightgbm"}, "no CUDA"),
    ({"vram_gib": 1.0}, "do not fit"),
    ({"n_train": 3_000, "n_features": 10}, "grow on the processor"),
]


@pytest.mark.parametrize(("changed", "why"), ELSEWHERE)
@pytest.mark.parametrize("model", ["xgboost", "catboost"])
def test_trees_grow_on_the_card_where_that_is_quicker_and_says_so(
    model: str, changed: dict[str, Any], why: str | None
) -> None:
    answer = trees(**{"model": model, "gpu": "t4", "n_features": 430, "n_train": 590_000, **changed})
    said, peak = " ".join(answer["rationale"]), answer["expected"]["peak_memory_gib"]["high"]
    assert promises_kept(answer) == []
    if why is None:
        assert answer["tree_device"] == "cuda"
        assert "trees grow on the card" in said
        assert ("no card from another" in said) == (model == "xgboost")  # its law has no bandwidth
        assert answer["expected"]["bound"] == "gpu"
        assert peak > 0.95 * 14 if model == "catboost" else 1.0 < peak < 3.0
        assert not any("card idles" in text for text in warnings_of(answer))
        assert all(run["tree_device"] == "cuda" for run in answer["portfolio"])
    else:
        assert answer["tree_device"] == "cpu"
        assert why in said
        assert (peak, answer["expected"]["bound"]) == (0.0, "host")
        idle = any("card idles" in text for text in warnings_of(answer))
        assert idle == ("cpu" not in changed.get("gpu", "t4"))


@pytest.mark.parametrize("model", [None, "lightgbm", "realmlp"])
def test_a_table_that_the_host_cannot_hold_is_refused_there_and_told_of_every_run_elsewhere(
    model: str | None,
) -> None:
    asked = {"task": "tabular", "n_train": 50_000_000, "n_features": 1_000, "minutes": 600, "model": model}
    refused = plan(**asked, gpu="cpu")
    assert not refused["feasible"]
    assert "GiB of the host" in refused["why"]
    assert promises_kept(plan(**{**asked, **refused["closest"]["set"]}, gpu="cpu")) == []
    roomy = plan(**asked, gpu="cpu", vram_gib=4_000)  # of a processor: the memory of its machine
    for answer in (roomy, plan(**asked, gpu="a100")):
        if answer["feasible"]:
            told = [text for text in warnings_of(answer) if "host memory" in text]
            assert len(told) == len(answer["portfolio"])


def test_a_forest_that_the_host_cannot_hold_is_refused_and_one_on_fewer_rows_is_not() -> None:
    asked = {"task": "tabular-regression", "model": "random-forest"}
    refused = trees(**asked, n_train=1_000_000, minutes=6_000)
    assert not refused["feasible"]
    assert "GiB of the host at p90" in refused["why"]
    fewer = trees(**asked, n_train=100_000)
    assert fewer["feasible"]
    memory = fewer["expected"]["host_memory_gib"]
    assert 4 < memory["value"] < memory["high"] < 8
    beside_a_card = trees(**asked, n_train=1_000_000, gpu="a100", minutes=6_000)
    assert any("GiB of host memory" in text for text in warnings_of(beside_a_card))
