"""Which offer, which plan on it: the highest worth of all plans on all offers that the limits allow.

    worth = expected quality - TIME_PRICE * log2(minutes) - MONEY_PRICE * log2(cost)

Neither worth nor what a plan needs depends on deadline or budget: these only decide what is allowed. So more
money or time only adds plans, and what is chosen is never worth less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, log
from typing import Any, Self

import numpy as np

from memory_service.domain.choice.offer import Aim, Offer, WhyNot, p95
from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.planning.option import Array, Flags, Integers
from memory_service.domain.planning.plan_search import PRICE, evenly, front
from memory_service.domain.quality.quality_model import QualityModel
from memory_service.domain.quality.ranking import Candidate, difference_variance, probability_better

TIME_PRICE = {"cheapest": 0.0, "fastest": PRICE["fast"], "balanced": PRICE["balanced"], "best": 0.0}
MONEY_PRICE = {"cheapest": PRICE["fast"], "fastest": 0.0, "balanced": 0.5, "best": 0.0}
"""Index points that a doubling of minutes, or of cost, must buy.

balanced: a doubled bill must buy half a point, a fifth of an index's usual interval to one side; by 0.1, as
minutes are weighed, every dear card would win by what nobody can see."""

LEAST_COST = 0.01
"""What is free or nearly so costs alike."""

MOST_POINTS = 12


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may take: minutes from the order of the box to its end, and money; None = whatever."""

    minutes: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class PricedOffer:
    """An offer with the plans on it that may be chosen: those that no shorter one equals in quality.

    start_up   minutes before the script begins
    minutes    the smallest budget that holds each plan (p90 and reserve included), rising
    quality    expected index of each, rising
    plans      the place of each among all that were priced
    """

    offer: Offer
    start_up: Estimate
    minutes: Array
    quality: Array
    plans: Integers

    @classmethod
    def of(cls, offer: Offer, start_up: Estimate, minutes: Array, quality: Array) -> Self:
        """Of all plans on it; minutes are infinite where memory does not allow one."""
        able = np.flatnonzero(np.isfinite(minutes))
        plans = able[front(minutes[able], quality[able], 1e-9)]
        return cls(offer, start_up, minutes[plans], quality[plans], plans)

    @property
    def usual_minutes(self) -> Array:
        return self.minutes + self.start_up.value

    @property
    def limit_minutes(self) -> Array:
        """The time limit to ask for: what the plan's script keeps, behind a start-up at its 95th
        percentile."""
        return self.minutes + p95(self.start_up)

    def most_minutes(self, limits: Limits) -> float:
        """The longest job, start-up included, by the offer's own limit, the deadline and the money."""
        by_money = inf
        if limits.cost is not None and self.offer.price_per_hour:
            by_money = 60.0 * limits.cost / self.offer.price_per_hour
        return min(self.offer.minutes_max or inf, limits.minutes or inf, by_money)

    def allowed(self, limits: Limits) -> Flags:
        """The plans that fit. The money is held against the whole time limit: a job that meets it costs no
        more."""
        found: Flags = self.limit_minutes <= self.most_minutes(limits) + 1e-9
        return found if limits.cost is None or self.offer.price_per_hour is not None else found & False

    def why_not(self, limits: Limits) -> WhyNot | None:
        """Why no plan fits; None where one does."""
        if self.allowed(limits).any():
            return None
        if not len(self.minutes):
            return "memory"
        if not self.allowed(Limits(limits.minutes)).any():
            return "time"
        return "price-unknown" if self.offer.price_per_hour is None else "budget"


@dataclass(frozen=True, slots=True)
class Pick:
    """A plan on an offer: places of the offer and of its plan; cost: usual, None where no price is known."""

    place: int
    plan: int
    worth: float
    quality: float
    minutes: float
    limit_minutes: float
    cost: float | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best plan of each offer, None where none fits; able: those that may be recommended.

    frontier   plans that none costing no more equals in quality, by rising cost, whatever the budget
    more       the best that one unit of money more than the recommended one buys: one of `picks`, unless the
               budget bounds these; None where that is nothing
    """

    picks: tuple[Pick | None, ...]
    able: tuple[Pick, ...]
    recommended: Pick | None
    frontier: tuple[Pick, ...]
    more: Pick | None

    @property
    def next(self) -> Pick | None:
        """The best of the other offers' picks that were weighed alike."""
        return min((pick for pick in self.able if pick is not self.recommended), key=_order, default=None)


def choose(offers: Sequence[PricedOffer], aim: Aim, limits: Limits) -> Chosen:
    """The plan on each offer and the offer. Where money is weighed and some offers have a price, those alone
    are recommended; where none has, minutes stand for money."""
    priced = [each.offer.price_per_hour is not None for each in offers]
    counts = MONEY_PRICE[aim] > 0.0 and any(priced)
    picks = tuple(_pick(offers, place, aim, limits, counts) for place in range(len(offers)))
    able = tuple(p for p in picks if p is not None and (not counts or p.cost is not None))
    best = min(able, key=_order, default=None)
    frontier = _frontier(offers, Limits(limits.minutes)) if any(priced) else ()
    more = None
    if best is not None and best.cost is not None:
        within = picks if limits.cost is None else frontier
        reach = [p for p in within if p is not None and p.cost is not None and p.cost <= best.cost + 1.0]
        top = max(reach, key=lambda pick: pick.quality, default=None)
        more = top if top is not None and top.quality > best.quality + 0.05 else None
    return Chosen(
        picks, able, best, tuple(frontier[i] for i in evenly(np.arange(len(frontier)), MOST_POINTS)), more
    )


def _order(pick: Pick) -> tuple[float, float, float]:
    return -pick.worth, pick.cost or 0.0, pick.minutes


def _pick(offers: Sequence[PricedOffer], place: int, aim: Aim, limits: Limits, counts: bool) -> Pick | None:
    each = offers[place]
    allowed = each.allowed(limits)
    if not allowed.any():
        return None
    minutes, price = each.usual_minutes, each.offer.price_per_hour
    money, time = MONEY_PRICE[aim], TIME_PRICE[aim]
    if not counts or price is None:  # minutes are all the money that there is to save
        time, money = time + (money if aim == "cheapest" else 0.0), 0.0
    worth = each.quality - time * np.log2(np.maximum(minutes, 1e-3))
    if money and price is not None:
        worth = worth - money * np.log2(np.maximum(price * minutes / 60.0, LEAST_COST))
    at = int(np.argmax(np.where(allowed, worth, -inf)))
    return _made(each, place, at, float(worth[at]))


def _made(each: PricedOffer, place: int, at: int, worth: float) -> Pick:
    minutes, limit = float(each.usual_minutes[at]), float(each.limit_minutes[at])
    quality, cost = float(each.quality[at]), each.offer.cost(minutes)
    return Pick(place, int(each.plans[at]), worth, quality, minutes, limit, cost)


def _frontier(offers: Sequence[PricedOffer], limits: Limits) -> tuple[Pick, ...]:
    made = [
        _made(each, place, int(at), 0.0)
        for place, each in enumerate(offers)
        for at in (np.flatnonzero(each.allowed(limits)) if each.offer.price_per_hour is not None else ())
    ]
    made.sort(key=lambda pick: pick.minutes)
    best = front(np.array([pick.cost for pick in made]), np.array([pick.quality for pick in made]), 1e-9)
    return tuple(made[place] for place in best)


def interruption(start: Estimate, minutes: float, saved_every: float) -> Mapping[str, Any]:
    """What one interruption halfway costs, in minutes: all that was done and a start-up anew; with
    checkpoints half of what lies between two of them. How often a box is taken away nobody knows here."""
    without, kept = start.value + minutes / 2.0, start.value + min(saved_every, minutes) / 2.0
    names = ("lost_minutes", "lost_minutes_with_checkpoint", "checkpoint_saves_minutes")
    return dict(zip(names, (round(m, 2) for m in (without, kept, without - kept)), strict=True))


def next_offers(offers: Sequence[PricedOffer], limits: Limits) -> list[tuple[int, int]]:
    """(offer, its shortest plan) of those that hold one, the cheapest first, unpriced ones last."""
    found = []
    for place, each in enumerate(offers):
        if each.allowed(limits).any():
            cost = each.offer.cost(float(each.usual_minutes[0]))
            found.append((cost is None, cost or 0.0, float(each.minutes[0]), place, int(each.plans[0])))
    return [(place, plan) for *_, place, plan in sorted(found)]


@dataclass(frozen=True, slots=True)
class Side:
    """One training: what is expected of its quality and its minutes; None where that cannot be told."""

    name: str
    quality: Candidate | None
    minutes: Estimate | None


def compare(sides: Sequence[Side], model: QualityModel, table: str) -> list[dict[str, Any]]:
    """Of each two sides: `{first, second, better, p_better, points, sooner, p_sooner}`. `better` and `sooner`
    name the likelier one, None where it cannot be told. table: the kind of data (`Kind.table`). By
    the quality model and the timetables alone: nothing is executed."""
    known = [side.quality for side in sides if side.quality is not None]
    variance = difference_variance(known, model, table) if known else np.zeros((0, 0))
    at = {id(candidate): place for place, candidate in enumerate(known)}
    out = []
    for first, second in combinations(sides, 2):
        row: dict[str, Any] = {"first": first.name, "second": second.name}
        row |= dict.fromkeys(("better", "p_better", "points", "sooner", "p_sooner"))
        a, b = first.quality, second.quality
        if a is not None and b is not None:
            sd = float(variance[at[id(a)], at[id(b)]]) ** 0.5
            ahead = float(probability_better(a.index, b.index, sd))
            row |= {"points": round(a.index - b.index, 2)} | _likelier(row, ahead, "better")
        if first.minutes is not None and second.minutes is not None:
            row |= _likelier(row, _sooner(first.minutes, second.minutes), "sooner")
        out.append(row)
    return out


def _likelier(row: dict[str, Any], of_first: float, what: str) -> dict[str, Any]:
    name = row["first" if of_first >= 0.5 else "second"]
    return {what: name, f"p_{what}": round(max(of_first, 1.0 - of_first), 4)}


def _sooner(first: Estimate, second: Estimate) -> float:
    """Probability that the first of two independent times, normal in their logarithms, is the shorter."""
    sds = [log(max(t.high / t.value, 1.001)) / SD_OF_P90 for t in (first, second)]
    return float(probability_better(log(second.value), log(first.value), (sds[0] ** 2 + sds[1] ** 2) ** 0.5))
