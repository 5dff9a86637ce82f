"""Effect of a pattern: runs that followed it against comparable runs that did not.

Two runs are comparable in one place (a competition, or a kind of task) on one GPU model with about the same
minutes. The better one left something to score; of two that did, the better test metric, else the better
validation metric, in the metric's direction; between competitions metrics say nothing.

Every run that followed the pattern is compared with every run that did not, and the pairs are counted. They
are not independent: n runs against m are worth 3 n m / (n + m + 1) independent comparisons (the variance of
the Mann-Whitney statistic, 1947), which is what the interval of the share won is made of (Wilson, 1927).

Reporters count, not runs: a key's own runs are compared with each other, and the keys' shares won are
summed, none of them worth more than the second largest. Keys whose runs are all on one side are compared with
each other, where there are several on both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.common.units import plural
from memory_service.domain.prediction.trust import key_of
from memory_service.domain.recipe.recipe import Recipe
from memory_service.domain.recipe.votes import Vote
from memory_service.domain.runs.advice_outcome import is_listed

MOST_COMPARED = 200
"""Of one place the latest runs: older ones leave the comparison, so a demoted pattern gets another chance
once newer runs have replaced its bad ones."""

MOST_SUBJECTS = 256
"""Memories that runs of one place are compared by, of each reporter as many as of the others."""

SAME_SHARE = 0.001
"""Metrics closer than a thousandth of the larger are the same."""

SURE = 2.576
"""Standard errors of the 99 % interval: hundreds of patterns are judged, and again after every run."""

MOST_OF_LONE_KEY = 3.0
"""Independent comparisons that runs of one key alone are worth: they show a chance, and demote nothing.
Without keys all runs are the user's own."""

MOST_OF_KEY = 5.0
"""Runs that those of one key are worth on each side, in whatever places and company."""

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
    weight               independent comparisons that runs of whoever is no key are worth; won: of these, ties
                         half
    by_key               key -> the same of its runs
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
    by_key: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __add__(self, other: Tally) -> Tally:
        return self._plus(other, 1)

    def __sub__(self, other: Tally) -> Tally:
        return self._plus(other, -1)

    def _plus(self, other: Tally, sign: int) -> Tally:
        sums = (getattr(self, name) + sign * getattr(other, name) for name in self.__slots__[:-1])
        by_key = dict(self.by_key)
        for key, (worth, won) in other.by_key.items():
            before = by_key.pop(key, (0.0, 0.0))
            if both := before[0] + sign * worth:
                by_key[key] = both, before[1] + sign * won
        return replace(Tally(*sums), by_key=by_key)

    def _summed(self, keys: Collection[str]) -> tuple[float, float]:
        """(comparisons, of these won) of whoever is no key and of these keys."""
        shares = self._shares(keys)
        weight = self.weight + sum(self.by_key[key][0] * share for key, share in shares.items())
        return weight, self.won + sum(self.by_key[key][1] * share for key, share in shares.items())

    def _shares(self, keys: Collection[str]) -> dict[str, float]:
        """What of each key's comparisons counts: no more than what the second largest of them is worth."""
        worth = sorted(self.by_key[key][0] for key in keys)
        alone = MOST_OF_LONE_KEY if not self.weight else _MOST
        most = min(worth[-2], _MOST) if len(worth) > 1 else alone
        return {key: min(1.0, most / self.by_key[key][0]) for key in keys}

    @property
    def demoted(self) -> bool:
        """Following it was worse than not, beyond doubt: the 99 % interval lies under one half whichever key
        is left out, and whatever one key says against the others."""
        shares = self._shares(self.by_key)
        says = {key: share * (self.by_key[key][1] - self.by_key[key][0] / 2) for key, share in shares.items()}
        keys = sorted(says, key=says.__getitem__)
        if keys and says[keys[-1]] > 0.0:
            keys.pop()
        weight, won = self._summed(keys[1:])
        return weight > 0.0 and _interval(weight, won, SURE)[1] < 0.5

    def chance(self, asker: str | None = None) -> tuple[float, float]:
        """(comparisons, of these won) that count for whoever asks (None: for all): what one other key alone
        tells does not."""
        others = self.by_key.keys() - {asker}
        alone = asker is not None and len(others) == 1
        return self._summed([key for key in sorted(self.by_key) if not alone or key == asker])

    def chance_better(self, asker: str | None = None) -> Estimate | None:
        """That a run which follows it beats one that does not; None where nothing was compared. Of what one
        other key alone tells that key's claim."""
        weight, won = self.chance(asker)
        grade: Grade = "measured" if weight > 0.0 else "claimed"
        if weight <= 0.0:
            weight, won = self.chance()
        if weight <= 0.0:
            return None
        low, high = _interval(weight, won, SHOWN)
        basis, n = "runs that count for whoever asks, with it against without", round(weight)
        if (weight, won) == self.chance():
            basis = (
                f"{self.compared} runs that followed it against {self.without} comparable ones that did not"
            )
            n = self.compared
        value = won / weight
        return Estimate(value, min(low, value), max(high, value), grade, n, basis)

    def sentence(self, asker: str | None = None) -> str:
        """What counts for whoever asks, in words; "" where nothing does."""
        weight, won = self.chance(asker)
        if weight <= 0.0:
            return ""
        low, high = _interval(weight, won, SURE)
        compared = "followed, it did better than runs without it"
        if (weight, won) == self.chance():
            with_it, without = (plural(count, "run") for count in (self.compared, self.without))
            compared = f"followed in {with_it}, it did better than {without} without it"
        return (
            f"{compared} in {100 * won / weight:.0f} % of comparisons, each reporter alike "
            f"(99 % interval {100 * low:.0f} to {100 * high:.0f} %)"
        )

    def as_dict(self, asker: str | None = None) -> dict[str, Any]:
        """The wire form for whoever asks: counts, `chance_better` as a Number or null, `demoted`."""
        names = ("served", "followed", "compared", "without", "better", "same", "worse")
        counts, chance = {name: getattr(self, name) for name in names}, self.chance_better(asker)
        return counts | {"chance_better": chance and chance.as_dict(), "demoted": self.demoted}


def _interval(n: float, won: float, z: float) -> tuple[float, float]:
    p = won / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _worth(n: Any, m: Any) -> Any:
    return 3.0 * n * m / (n + m + 1)


_MOST = float(_worth(MOST_OF_KEY, MOST_OF_KEY))


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
    keys = sorted({_key(one) for one in outcomes} | {""})  # "": whoever is no key
    names = list(dict.fromkeys(subjects))
    column, row = ({name: i for i, name in enumerate(some)} for some in (names, keys))
    counts = np.zeros((5, len(names)), dtype=int)
    sums = np.zeros((2, len(keys), len(names)))
    for members in companies.values():
        members.sort(key=_key)
        followed = np.zeros((len(members), len(names)), dtype=np.float32)
        unknown = followed.copy()  # a run that was served it and cannot tell belongs to neither side
        for i, one in enumerate(members):
            for name in one["served"].keys() & column.keys():
                said = one["served"][name]
                (unknown if said is None else followed)[i, column[name]] = said is not False
        without = 1.0 - followed - unknown
        met = np.flatnonzero(followed.any(axis=0) & without.any(axis=0))
        followed, without = followed[:, met], without[:, met]
        versus = _versus(members, metrics)
        better, worse = (
            (followed * (which.astype(np.float32) @ without)).sum(axis=0)
            for which in (versus > 0, versus < 0)
        )
        n, m = followed.sum(axis=0), without.sum(axis=0)
        counts[:, met] += np.array([n, m, better, n * m - better - worse, worse], dtype=int)
        told_by = np.array([row[_key(one)] for one in members])
        reporters, told = _by_reporter(followed, without, (versus + np.float32(1.0)) / 2.0, told_by)
        sums[:, reporters[:, None], met] += told
    worth, won = (np.round(sums * EXACT) / EXACT).tolist()
    found = {}
    for name, i in column.items():
        by_key = {key: (worth[j][i], won[j][i]) for j, key in enumerate(keys) if key and worth[j][i]}
        of_nobodys = [0, 0, *counts[:, i].tolist(), worth[0][i], won[0][i]]
        found[name] = replace(Tally(*of_nobodys), by_key=by_key)
    return found


def subjects_of(outcomes: Iterable[Mapping[str, Any]]) -> list[str]:
    """What outcomes of a place, the latest first, name: `MOST_SUBJECTS` at most, of each reporter in turn."""
    named: dict[str, dict[str, None]] = {}
    for one in outcomes:
        served = filter(is_listed, sorted(one.get("served", ())))
        named.setdefault(_key(one), {}).update(dict.fromkeys(served))
    turns = dict.fromkeys(chain.from_iterable(zip_longest(*named.values())))
    return [name for name in turns if name is not None][:MOST_SUBJECTS]


def _key(outcome: Mapping[str, Any]) -> str:
    return key_of(outcome.get("reporter") or "")


def _by_reporter(
    followed: NDArray[Any], without: NDArray[Any], won: NDArray[Any], told_by: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(reporters (R,), (comparisons, of these won) of each (2, R, S)) of runs (N) of one reporter after the
    other, each of which followed, or did without, what (N, S). won: share of each run against each other (N,
    N). told_by: 0 for whoever is no key."""
    reporters, starts, runs = np.unique(told_by, return_index=True, return_counts=True)

    def each(rows: NDArray[Any]) -> NDArray[Any]:
        return np.add.reduceat(rows, starts, axis=0, dtype=np.float64)

    n, m = each(followed), each(without)
    share = each(followed * ((won * (told_by[:, None] == told_by)) @ without)) / np.maximum(n * m, 1.0)
    # Keys whose runs are all on one side: each is compared with those on the other side, of equal shares.
    here, there = (
        (some > 0.0) & (other == 0.0) & (reporters > 0)[:, None] for some, other in ((n, m), (m, n))
    )
    ours, theirs = here.sum(axis=0), there.sum(axis=0)
    mine = followed * np.repeat(here / np.maximum(n, 1.0), runs, axis=0)
    others = without * np.repeat(there / np.maximum(m, 1.0), runs, axis=0)
    share += each(mine * (won @ others)) / np.maximum(theirs, 1)
    share += each(others * (won.T @ mine)) / np.maximum(ours, 1)
    several = np.where((ours > 1) & (theirs > 1), _worth(ours, theirs) / 2.0, 0.0)
    worth = _worth(n, m) + several * (here / np.maximum(ours, 1) + there / np.maximum(theirs, 1))
    return reporters, np.array([worth, worth * share])


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


def with_runs(recipe: Recipe, tallies: Mapping[str, Tally], asker: str | None = None) -> Recipe:
    """The recipe with what runs of the very competition say of its families and techniques to whoever asks: a
    family's share moves by the odds that following it was better.

    tallies   "family:<name>", "technique:<name>" -> what runs there say of it
    """

    def judged(kind: str, vote: Vote) -> Vote:
        tally = tallies.get(f"{kind}:{vote.name}")
        weight, won = (0.0, 0.0) if tally is None else tally.chance(asker)
        if tally is None or weight <= 0.0:
            return vote
        odds = (won + PRIOR_PAIRS) / (weight - won + PRIOR_PAIRS)
        chance = vote.share * odds / (vote.share * odds + 1.0 - vote.share)
        return replace(vote, share=chance if kind == "family" else vote.share, runs=tally.sentence(asker))

    families = sorted((judged("family", one) for one in recipe.families), key=lambda one: -one.share)
    techniques = tuple(judged("technique", one) for one in recipe.techniques)
    return replace(recipe, families=tuple(families), techniques=techniques)
