"""Which promises hold for all questions and offers? Limits are kept, more money or time never hurts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.choice.choice import (
    Limits,
    PricedOffer,
    choose,
    interruption,
    next_offers,
)
from memory_service.domain.choice.offer import AIMS, Aim, Offer, common_boxes, p95, start_up
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.planning.candidates import Candidate, CandidateSets, price_candidates
from memory_service.domain.planning.plan_search import GridIndex
from memory_service.services.choice.choose import wall_minutes
from tests.planning import case, seed_knowledge

CARDS = ("t4", "l4", "a100", "h100", "cpu", "2xt4")
TASKS = ("image", "text", "tabular-classification", "image-segmentation")


@lru_cache(maxsize=64)
def candidates(task: str, gpu: str, n_train: int, model: str | None) -> CandidateSets:
    asked: dict[str, Any] = {"task": task, "gpu": gpu, "n_train": n_train, "minutes": 600.0}
    return price_candidates(case(**asked, **({"model": model} if model else {})), seed_knowledge())


def priced(sets: CandidateSets, offer: Offer) -> PricedOffer:
    grids = [each.grid for each in sets.sets]
    arrays = (np.concatenate([getattr(g, name).ravel() for g in grids]) for name in ("minutes", "quality"))
    return PricedOffer.of(offer, start_up(offer), *arrays)


def candidate(sets: CandidateSets, plan: int) -> Candidate:
    for each in sets.sets:
        if plan < each.grid.minutes.size:
            row, epoch, fold = map(int, np.unravel_index(plan, each.grid.minutes.shape))
            return Candidate(each, GridIndex(row, epoch, fold))
        plan -= each.grid.minutes.size
    raise IndexError(plan)


QUESTION = st.tuples(st.sampled_from(TASKS), st.sampled_from([500, 8_000, 60_000, 900_000]), st.booleans())
OFFER = st.builds(
    Offer,
    name=st.just("offer"),
    gpu=st.sampled_from(CARDS),
    price_per_hour=st.sampled_from([None, 0.0, 0.03, 0.4, 1.5, 4.0]),
    minutes_max=st.sampled_from([None, 30.0, 120.0, 720.0]),
    start_up_minutes=st.sampled_from([None, 0.0, 2.0, 15.0]),
)


@settings(max_examples=200, deadline=None)
@given(
    question=QUESTION,
    offers=st.lists(OFFER, min_size=1, max_size=6),
    aim=st.sampled_from(AIMS),
    deadline=st.sampled_from([None, 12.0, 60.0, 600.0]),
    budget=st.sampled_from([0.0, 0.2, 1.0, 20.0]),
    more=st.floats(1.0, 5.0),
)
def test_every_promise_of_a_choice_holds(
    question: tuple[str, int, bool], offers: list[Offer], aim: Aim, deadline: float | None,
    budget: float, more: float,
) -> None:  # fmt: skip
    task, n_train, pinned = question
    model = "resnet50" if pinned and task == "image" else None
    sets = [candidates(task, offer.gpu, n_train, model) for offer in offers]
    priced_offers = [priced(s, o) for s, o in zip(sets, offers, strict=True)]
    limits = Limits(deadline, budget)
    chosen = choose(priced_offers, aim, limits)
    for place, pick in enumerate(chosen.picks):
        each = priced_offers[place]
        assert (pick is None) == (each.why_not(limits) is not None)
        if pick is None:
            continue
        assert pick.limit_minutes <= (deadline or np.inf) + 1e-6
        assert pick.limit_minutes <= (each.offer.minutes_max or np.inf) + 1e-6
        most = each.offer.cost(pick.limit_minutes)
        assert most is not None, "where there is a budget nothing is taken whose price nobody knows"
        assert most <= budget + 1e-6
        whole = wall_minutes(sets[place], candidate(sets[place], pick.plan), each.start_up)
        assert whole.high <= pick.limit_minutes + 1e-6, "p90 under the limit"
    best = chosen.recommended
    assert (best is None) == (not chosen.able)
    wider = (Limits(deadline, budget * more), Limits(deadline and deadline * more, budget))
    for other in (choose(priced_offers, aim, each) for each in wider):
        if best is not None:
            assert other.recommended is not None
            assert other.recommended.worth >= best.worth - 1e-9
            assert aim != "best" or other.recommended.quality >= best.quality - 1e-9
    unfit = PricedOffer.of(
        Offer("unfit", "t4", price_per_hour=0.001, minutes_max=1.0),
        Estimate(2.0, 1.0, 4.0), np.array([10.0]), np.array([99.0]),
    )  # fmt: skip
    again = choose([*priced_offers, unfit], aim, limits).recommended
    if best is not None:
        assert again is not None
        assert (again.place, again.plan) == (best.place, best.plan), "a cheaper offer that does not fit"
    for low, high in pairwise(chosen.frontier):
        assert low.quality < high.quality
        assert (low.cost or 0.0) <= (high.cost or 0.0)
    if chosen.more is not None and best is not None:
        assert chosen.more.quality > best.quality


FLAT = Estimate(1.0, 0.8, 1.2)


def offer_of(name: str, price: float | None, *plans: tuple[float, float]) -> PricedOffer:
    minutes, quality = np.array(plans).T
    return PricedOffer.of(Offer(name, "t4", price_per_hour=price), FLAT, minutes, quality)


SLOW = offer_of("slow", 0.5, (20.0, 70.0), (200.0, 78.0))
FAST = offer_of("fast", 4.0, (4.0, 70.0), (40.0, 78.1))


@pytest.mark.parametrize(
    ("aim", "name"), [("cheapest", "slow"), ("fastest", "fast"), ("best", "fast"), ("balanced", "slow")]
)
def test_each_objective_weighs_what_it_says(aim: Aim, name: str) -> None:
    best = choose([SLOW, FAST], aim, Limits()).recommended
    assert best is not None
    assert (SLOW, FAST)[best.place].offer.name == name


def test_a_unit_of_money_more_buys_the_best_plan_within_it() -> None:
    chosen = choose([SLOW, FAST], "balanced", Limits(60.0, 0.5))
    assert chosen.recommended is not None
    assert chosen.recommended.quality == 70.0
    assert chosen.more is None, "the next better plan costs more than one unit"
    near = choose(
        [replace(SLOW, offer=replace(SLOW.offer, price_per_hour=0.2)), FAST], "balanced", Limits(None, 0.5)
    )
    assert near.more is not None
    assert near.more.quality == 78.0


def test_without_a_budget_what_more_buys_is_the_pick_of_an_offer() -> None:
    """The reader compares it with the row of that offer."""
    dear = offer_of("dear", 2.0, (25.0, 72.0), (28.0, 72.3))
    near = offer_of("near", 0.5, (40.0, 70.6))
    chosen = choose([offer_of("free", 0.0, (20.0, 70.0)), near, dear], "cheapest", Limits())
    assert chosen.recommended == chosen.picks[0]
    assert chosen.more is not None
    assert chosen.more in chosen.picks


def test_what_does_not_fit_is_named_with_the_next_offer_that_holds_it() -> None:
    small = PricedOffer.of(Offer("small", "t4"), FLAT, np.array([np.inf]), np.array([80.0]))
    assert small.why_not(Limits()) == "memory"
    assert SLOW.why_not(Limits(10.0)) == "time"
    assert SLOW.why_not(Limits(None, 0.01)) == "budget"
    unknown = offer_of("unknown", None, (20.0, 70.0))
    assert unknown.why_not(Limits(None, 1.0)) == "price-unknown"
    assert [place for place, _ in next_offers([small, FAST, SLOW, unknown], Limits())] == [2, 1, 3]


def test_start_up_is_as_said_else_learned_else_assumed() -> None:
    offer = Offer("x", "t4")
    assumed = start_up(offer)
    assert assumed.value == pytest.approx(3.0)
    assert assumed.grade == "claimed"
    few, many = start_up(offer, [20.0] * 2, "x"), start_up(offer, [20.0] * 40, "x")
    assert assumed.value < few.value < many.value < 20.0
    assert many.high < few.high, "more runs, less doubt"
    assert (many.grade, many.n) == ("measured", 40)
    assert start_up(replace(offer, start_up_minutes=7.0), [20.0]).value == 7.0


def test_nineteen_of_twenty_start_ups_end_within_the_limit_once_hosts_are_known() -> None:
    """Hosts whose start-ups differ fourfold, each told 30 times, the next 40 held against the limit."""
    draw, kept = np.random.default_rng(3), list[bool]()
    for _ in range(60):
        middle, spread = draw.uniform(np.log(1.0), np.log(25.0)), draw.uniform(0.1, 0.6)
        told, later = np.exp(draw.normal(middle, spread, (2, 40)))
        limit = p95(start_up(Offer("x", "t4"), told[:30].tolist(), "x"))
        kept += (later <= limit).tolist()
    assert np.mean(kept) >= 0.93


def test_a_checkpoint_saves_what_lies_behind_it() -> None:
    lost = interruption(FLAT, 100.0, 10.0)
    assert lost["lost_minutes"] == 51.0
    assert lost["lost_minutes_with_checkpoint"] == 6.0
    assert lost["checkpoint_saves_minutes"] == 45.0


def test_common_boxes_state_the_source_of_every_price() -> None:
    boxes = common_boxes()
    assert len({box.name for box in boxes}) == len(boxes) >= 10
    assert all((box.price_per_hour is None) == (box.price_source is None) for box in boxes)
    assert all(seed_knowledge().gpu(box.gpu) for box in boxes)
