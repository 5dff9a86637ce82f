"""Effect of a pattern: runs that followed it against comparable runs that did not.

Two runs are comparable in one place (a competition, or a kind of task) on one GPU model with about the same
minutes. The better one left something to score; of two that did, the better test metric, else the better
validation metric, in the metric's direction; between competitions metrics say nothing.

Every run that followed the pattern is compared with every run that did not, and the pairs are counted. They
are not independent: n runs against m are worth 3 n m / (n + m + 1) independent comparisons (the variance of
the Mann-Whitney statistic, 1947), which is what the interval of the share won is made of (Wilson, 1927).

Of one key a few runs on each side count, and what is concluded must hold whichever key is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.units import plural
from memory_service.domain.prediction.trust import is_key
from memory_service.domain.recipe.recipe import Recipe
from memory_service.domain.recipe.votes import Vote

MOST_COMPARED = 200
"""Of one place the latest runs: older ones leave the comparison, so a demoted pattern gets another chance
once newer runs have replaced its bad ones."""

SAME_SHARE = 0.001
"""Metrics closer than a thousandth of the larger are the same."""

SURE = 2.576
"""Standard errors of the 99 % interval: hundreds of patterns are judged, and again after every run."""

MOST_OF_LONE_KEY = 3.0
"""Independent comparisons that runs of one key alone are worth: they show a chance, and demote nothing.
Without keys all runs are the user's own."""

MOST_OF_KEY = 5.0
"""Runs that those of one key are worth on each side of a company."""

EXACT = 2**20
"""Comparisons are counted in such parts: so sums of places, and what is left of one without a place, have no
error of rounding."""

SHOWN = 1.2816
"""Of the central 80 %, as every figure of an answer."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a pattern was served and followed, and what came of it; sums of places are tallies too.

    compared, without    runs that followed it and runs that did not, in comparable company
    better, same, worse  pairs of them, from the side of the run that followed
    weight               independent comparisons that the pairs are worth, whichever key is left out; 0 where
                         they say something else without one. won: of these, ties half
    """

    served: int = 0
    followed: int = 0
    compared: int = 0
    without: int = 0
    better: int = 0
    same: int = 0
    worse: int = 0
    weight: float = 0.0
    won: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))

    @property
    def demoted(self) -> bool:
        """Following it was worse than not, beyond doubt: the 99 % interval lies under one half."""
        return self.weight > 0.0 and _interval(self.weight, self.won, SURE)[1] < 0.5

    @property
    def chance(self) -> tuple[float, float]:
        """(comparisons, of these won) that show a chance: a few where all hangs on one key."""
        pairs = self.better + self.same + self.worse
        if self.weight > 0.0 or not pairs:
            return self.weight, self.won
        worth = min(MOST_OF_LONE_KEY, _worth(self.compared, self.without))
        return worth, worth * (self.better + self.same / 2) / pairs

    @property
    def chance_better(self) -> Estimate | None:
        """That a run which follows it beats one that does not; None where nothing was compared."""
        weight, won = self.chance
        if weight <= 0.0:
            return None
        low, high = _interval(weight, won, SHOWN)
        basis = f"{self.compared} runs that followed it against {self.without} comparable ones that did not"
        value = won / weight
        return Estimate(value, min(low, value), max(high, value), "measured", self.compared, basis)

    @property
    def sentence(self) -> str:
        """What the counts say, in words; "" where nothing was compared."""
        weight, won = self.chance
        if weight <= 0.0:
            return ""
        low, high = _interval(weight, won, SURE)
        pairs = self.better + self.same + self.worse
        with_it, without = (plural(count, "run") for count in (self.compared, self.without))
        return (
            f"followed in {with_it}, it did better than {without} without it in "
            f"{100 * self.better / pairs:.0f} % of comparisons and worse in {100 * self.worse / pairs:.0f} % "
            f"(chance of being better {won / weight:.2f}, 99 % interval {low:.2f} to {high:.2f})"
        )

    def as_dict(self) -> dict[str, Any]:
        """The wire form: counts, `chance_better` as a Number or null, `demoted`."""
        names = ("served", "followed", "compared", "without", "better", "same", "worse")
        counts, chance = {name: getattr(self, name) for name in names}, self.chance_better
        return counts | {"chance_better": chance and chance.as_dict(), "demoted": self.demoted}


def _interval(n: float, won: float, z: float) -> tuple[float, float]:
    p = won / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _worth(n: float, m: float) -> float:
    return 3.0 * n * m / (n + m + 1)


def compare(
    outcomes: Sequence[Mapping[str, Any]], subjects: Iterable[str], *, metrics: bool
) -> dict[str, Tally]:
    """Subject -> what the outcomes of one place say of it (its counts of served and followed left at zero).

    outcomes   wire forms of `domain.runs.advice_outcome.outcome_of_run`; in whatever order
    metrics    whether their metrics mean the same: runs of one competition
    """
    companies: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in outcomes:
        if one.get("succeeded") is not None:
            companies.setdefault(_company(one), []).append(one)
    keys = sorted({one["reporter"] for one in outcomes if is_key(one.get("reporter") or "")})
    place = {key: i for i, key in enumerate(keys, 1)}  # 0: whoever is no key
    found = dict.fromkeys(subjects, Tally())
    without: dict[str, NDArray[np.float64]] = {}
    for members in companies.values():
        versus = _versus(members, metrics)
        told_by = np.array([place.get(one.get("reporter") or "", 0) for one in members])
        for subject in found:
            # A run that was served it, unknown whether it followed, belongs to neither side.
            followed_by = [one["served"].get(subject, False) for one in members]
            mine = [i for i, followed in enumerate(followed_by) if followed]
            others = [i for i, followed in enumerate(followed_by) if followed is False]
            if mine and others:
                pairs = versus[np.ix_(mine, others)]
                better, worse = int((pairs > 0).sum()), int((pairs < 0).sum())
                same = pairs.size - better - worse
                found[subject] += Tally(0, 0, len(mine), len(others), better, same, worse)
                left_out = _left_out(pairs, told_by[mine], told_by[others], len(keys) + 1)
                before = without.get(subject)
                without[subject] = left_out if before is None else before + left_out
    for subject, sums in without.items():
        weight, won = _whoever_is_left_out(sums)
        weight, won = round(weight * EXACT) / EXACT, round(won * EXACT) / EXACT
        found[subject] = replace(found[subject], weight=weight, won=won)
    return found


def _left_out(
    pairs: NDArray[np.int8], mine: NDArray[Any], others: NDArray[Any], reporters: int
) -> NDArray[np.float64]:
    """Rows (comparisons, of these won, 1 where runs of that reporter are on a side): of all runs, then
    without each key in turn. mine, others: who told of each run of a side, 0 for whoever is no key."""
    shares = []
    for side in (mine, others):
        share = (side[:, None] == np.arange(reporters)).astype(float)
        share[:, 1:] *= np.minimum(1.0, MOST_OF_KEY / np.maximum(share[:, 1:].sum(axis=0), 1.0))
        shares.append(share)
    won = shares[0].T @ ((pairs + 1.0) / 2.0) @ shares[1]
    n, m = (share.sum(axis=0) for share in shares)
    told = (n + m > 0.0).astype(float)
    n_left, m_left = n.sum() - n, m.sum() - m
    left = won.sum() - won.sum(axis=0) - won.sum(axis=1) + won.diagonal()
    n_left[0], m_left[0], left[0] = n.sum(), m.sum(), won.sum()
    worth = _worth(n_left, m_left)
    both = n_left * m_left
    share_won = np.divide(left, both, out=np.zeros_like(left), where=both > 0.0)
    return np.array([worth, worth * share_won, told])


def _whoever_is_left_out(sums: NDArray[np.float64]) -> tuple[float, float]:
    """(comparisons, of these won) of the case that says least; nothing where one says the opposite."""
    weight, won, told = sums.tolist()
    keys = [key for key in range(1, len(told)) if told[key]]
    cases = []
    for key in (0, *keys):
        worth, better = weight[key], won[key]
        if len(keys) - (key > 0) == 1 and not told[0] and worth > MOST_OF_LONE_KEY:
            worth, better = MOST_OF_LONE_KEY, better * MOST_OF_LONE_KEY / worth
        cases.append(((better - worth / 2) / sqrt(worth) if worth > 0.0 else 0.0, worth, better))
    if min(cases)[0] < 0.0 < max(cases)[0]:
        return 0.0, 0.0
    return min(cases, key=lambda case: abs(case[0]))[1:]


def _company(one: Mapping[str, Any]) -> tuple[Any, ...]:
    minutes = one.get("budget_minutes")
    return one.get("gpu"), one.get("direction"), round(log2(minutes)) if minutes else None


def _versus(members: Sequence[Mapping[str, Any]], metrics: bool) -> NDArray[np.int8]:
    """[i, j] = 1 where i did better than j, -1 where worse, 0 where the same or not known."""
    succeeded = np.array([bool(one["succeeded"]) for one in members], dtype=np.int8)
    out = succeeded[:, None] - succeeded[None, :]
    direction = members[0].get("direction")
    if not metrics or direction not in ("max", "min"):
        return out
    sign = 1 if direction == "max" else -1
    both = (succeeded[:, None] & succeeded[None, :]).astype(bool)
    test = _differences([one.get("test_metric") for one in members])
    validation = _differences([one.get("metric") for one in members])
    better = np.where(np.isnan(test), validation, test)
    return np.where(both, sign * np.nan_to_num(better), out).astype(np.int8)


def _differences(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Sign of value i - value j, 0 for the same, NaN where one of them is not known."""
    x = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    gap = x[:, None] - x[None, :]
    larger = np.maximum(np.abs(x)[:, None], np.abs(x)[None, :])
    return np.where(np.abs(gap) <= SAME_SHARE * larger, 0.0 * gap, np.sign(gap))


PRIOR_PAIRS = 2.0
"""Comparisons won, and lost, that are supposed before any run was seen."""


def with_runs(recipe: Recipe, tallies: Mapping[str, Tally]) -> Recipe:
    """The recipe with what runs of the very competition say of its families and techniques: a family's share
    moves by the odds that following it was better.

    tallies   "family:<name>", "technique:<name>" -> what runs there say of it
    """

    def judged(kind: str, vote: Vote) -> Vote:
        tally = tallies.get(f"{kind}:{vote.name}")
        weight, won = (0.0, 0.0) if tally is None else tally.chance
        if tally is None or weight <= 0.0:
            return vote
        odds = (won + PRIOR_PAIRS) / (weight - won + PRIOR_PAIRS)
        chance = vote.share * odds / (vote.share * odds + 1.0 - vote.share)
        return replace(vote, share=chance if kind == "family" else vote.share, runs=tally.sentence)

    families = sorted((judged("family", one) for one in recipe.families), key=lambda one: -one.share)
    techniques = tuple(judged("technique", one) for one in recipe.techniques)
    return replace(recipe, families=tuple(families), techniques=techniques)
