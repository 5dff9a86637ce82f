"""Sets of one to three runs of different families: what each needs, and how good its blend is expected to be.

Taken is the set of highest utility (`plan_search.utility`) that the minutes hold. Minutes needed and expected
quality do not depend on the budget, and a larger one only adds sets that need more: one of those wins only by
a higher quality, so more minutes never lower the quality of a portfolio. Where a part is pinned it is better
than the free plan by `EARLY_WORTH` and the price of the minutes that it saves at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.domain.planning.candidates import Candidate, CandidateSet, CandidateSets
from memory_service.domain.planning.option import Array, Flags, Integers
from memory_service.domain.planning.plan_search import front, utility
from memory_service.domain.planning.problem import DoneRun
from memory_service.domain.planning.run_seconds import minutes_needed
from memory_service.domain.quality.quality_index import fold_gain
from memory_service.domain.quality.ranking import expected_best

MOST_RUNS = 3
"""Of different families that are blended: the expected best of equal models gains 1.4 points by the second,
0.7 by the third, 0.4 by the fourth (images), which is within any plan's error."""

SEEDS = (1, 2, 3, 5)
"""Repeats of a run. Folds and seeds average alike: 5 x 3 folds leave 15 % of what averaging can gain. By time
seeds alone average, whatever the folds; else only with most folds are seeds worth their time."""


@dataclass(frozen=True, slots=True)
class RunPool:
    """Arrays over runs: first those that may stand beside others, then what is weighed by itself alone.

    beside        how many the former are
    place         of `CandidateSets.flat`
    model, boosted   its name, and whether it is boosted trees
    seeds         repeats of all its folds
    family        one number for each family, over all sets
    quality       expected index, repeats included
    alone         the smallest budget (minutes) that holds it as the only run
    share         minutes of the budget that it takes beside others, its part of the reserve included
    first         p90 minute by which a submission of its first fold is written
    """

    place: Integers
    model: npt.NDArray[np.str_]
    boosted: Flags
    seeds: Integers
    family: Integers
    quality: Array
    alone: Array
    share: Array
    first: Array
    beside: int = 0

    def at(self, index: Integers) -> RunPool:
        return RunPool(**{name: getattr(self, name)[index] for name in _ARRAYS})


_ARRAYS = tuple(item.name for item in fields(RunPool) if item.name != "beside")


def run_pool(all_sets: CandidateSets, minutes: float) -> RunPool:
    """The runs that at most `minutes` hold and that fewer than `MOST_RUNS` other families of their kind beat
    at their own cost: a run that is beaten so often could be exchanged for one of them in any set. Trees and
    networks err too differently to stand for each other. Of settings that are close to others
    (`PlanGrid.close`) runs are weighed by themselves only. A larger budget only adds runs."""
    beside, every, before, families = [], [], 0, 0
    for candidates in all_sets.sets:
        if not candidates.table.options:
            continue
        close = candidates.grid.close
        beside.append(_pool_of(candidates, before, families, minutes, close))
        if close is not None:
            every.append(_pool_of(candidates, before, families, minutes))
        before += candidates.grid.minutes.size
        families += len(candidates.table.columns.families)
    pools = [*beside, *every]
    arrays: dict[str, Any] = {n: np.concatenate([getattr(pool, n) for pool in pools]) for n in _ARRAYS}
    return RunPool(**arrays, beside=sum(len(pool.place) for pool in beside))


def _layers(minutes: Array, quality: Array, family: Integers) -> Integers:
    """Places, by rising minutes, of the points that no cheaper one of their own family and fewer than
    `MOST_RUNS` others reach."""
    own = front(minutes + 1e6 * family, quality + 1e3 * family, 1e-9)
    own = own[np.argsort(minutes[own], kind="stable")]
    ranked, codes = quality[own], family[own]
    best_so_far = np.full((int(codes.max(initial=-1)) + 1, len(own)), -np.inf)
    best_so_far[codes, np.arange(len(own))] = ranked
    np.maximum.accumulate(best_so_far, axis=1, out=best_so_far)
    beaten = (best_so_far > ranked + 1e-9).sum(axis=0)
    return np.asarray(own[beaten < MOST_RUNS], dtype=np.int64)


def _pool_of(
    candidates: CandidateSet, before: int, families: int, minutes: float, without: Flags | None = None
) -> RunPool:
    """before, families: how many plans, and families, the sets before it have; without: places of epochs that
    are left out."""
    grid, columns = candidates.grid, candidates.table.columns
    plans = grid.minutes.shape[1] * grid.minutes.shape[2]
    needed, quality = grid.minutes.ravel(), grid.quality.ravel()
    allowed = grid.minutes <= minutes
    if without is not None:
        allowed = allowed & ~without[:, None]
    fits = np.flatnonzero(allowed)
    flat = fits[_layers(needed[fits], quality[fits], columns.family[fits // plans])]
    rows, epochs, folds = np.unravel_index(flat, grid.minutes.shape)
    run = grid.runs_of(rows, epochs, folds).taken(np.arange(len(rows)))
    n_folds = np.array(grid.folds, dtype=np.float64)[folds]
    policy, n_train = candidates.problem.policy, candidates.problem.n_train
    trees, by_time = bool(candidates.table.options[0].is_trees), candidates.problem.by_time
    once = candidates.problem.fits(n_folds, trees=trees).averaged
    most = np.arange(len(flat)) if by_time else np.flatnonzero(folds == len(grid.folds) - 1)
    may_repeat = most if candidates.problem.question.folds is None else most[:0]
    at = np.concatenate([np.arange(len(flat)), *(may_repeat for _ in SEEDS[1:])])
    seeds = np.repeat(SEEDS, [len(flat), *(len(may_repeat) for _ in SEEDS[1:])])
    repeats = candidates.problem.fits(n_folds[at], seeds, trees=trees)
    repeated = run.taken(at).repeated(repeats)
    alone = np.asarray(minutes_needed(repeated, policy.reserve_share, policy.median_share))
    alone[: len(flat)] = needed[flat]
    gain = columns.learning.fold_gain[rows]
    gained = fold_gain(gain[at], repeats.averaged, n_train) - fold_gain(gain, once, n_train)[at]
    first = (run.first_fold + run.answer).and_independent(run.setup)
    pool = RunPool(
        place=before + flat[at],
        model=columns.names[rows[at]],
        boosted=columns.boosted[rows[at]],
        seeds=seeds,
        family=families + columns.family[rows[at]],
        quality=np.minimum(quality[flat[at]] + gained, 100.0),
        alone=alone,
        share=np.maximum(alone, repeated.total_end.high / (60.0 * (1.0 - policy.reserve_share))),
        first=first.and_independent(run.write).high[at] / 60.0,
    ).at(np.flatnonzero(alone <= minutes))
    return pool.at(_layers(pool.alone, pool.quality, pool.family - families))


Difference = Callable[[str, str], float]

FIRST_SHARE = 0.2
"""R13, R17: a first submission is there within a fifth of the minutes."""

EARLY_WORTH = {"fast": 2.0, "balanced": 0.5, "quality": 0.5}
"""Index points that a first submission may cost, by objective: judged. Of 99 users' questions 6 have none
then; for 5 none is possible."""

THIRD = 0.917
"""The difference to the best of two equal models varies less than that to one of them:
sqrt(1 - 1 / (2 pi)), from the variance of the maximum (Clark 1961)."""

LEAST_GAIN = 0.005
"""Points: what an answer shows as 0.01."""

NOISE = 0.25
"""Points of a run that cannot be told from another seed of the others: only `quality` takes such runs."""

LARGE_TABLE, WITHOUT_TREES = 100_000, 2.0
"""Rows from which a set without boosted trees is rated lower by so many points: the public tables that rate
networks above them are smaller, and on larger ones and on those that differ in time trees win (BeyondArena,
arXiv 2606.30410). Judged."""

BLENDED = {"text": 0.4}
"""Share of the difference of two models on one data set that a blend gains from, by kind of data: that of
texts was fitted on models that were shown a few examples. Two tuned encoders gained 0.9 points over one on
student summaries (MCRMSE 0.464 to 0.448 in validation) where 2.6 were expected."""

PAIRS_A_DOUBLING = 12
"""Pairs that a third run is tried with: the cheapest of each twelfth of a doubling of the minutes."""


@dataclass(frozen=True)
class RunSets:
    """Every set considered.

    members    [set, 3] places in the pool, the last -1 where the set is smaller
    plain      the smallest budget (minutes) that holds the set
    early      the same with a first submission within a fifth of it
    quality    expected quality of the blend of its runs and those that are done
    least_gain points that the run of it that adds least adds to the others; infinite of one run
    done       runs of before that are blended with them
    """

    all_sets: CandidateSets
    pool: RunPool
    members: Integers
    plain: Array
    early: Array
    quality: Array
    least_gain: Array
    difference: Difference
    done: tuple[DoneRun, ...]
    _needed: dict[str, Array] = field(default_factory=dict)

    def needed(self, objective: str) -> Array:
        """The smallest budget (minutes) that each set is taken for: with a first submission early, or without
        one where every set that has one in the same minutes is worse by more than `EARLY_WORTH`. No budget
        enters."""
        known = self._needed.get(objective)
        if known is None:
            known, (late, beside) = self.early.copy(), self._beside
            without = late[self.quality[late] > beside + EARLY_WORTH[objective]]
            known[without] = self.plain[without]
            if objective != "quality":
                known[self.least_gain < NOISE] = inf
            self._needed[objective] = known
        return known

    @cached_property
    def _beside(self) -> tuple[Integers, Array]:
        """(sets that an early submission makes dearer, the best quality with one in the minutes of each)."""
        late = np.flatnonzero(self.plain < self.early)
        order = np.argsort(self.early)  # of ties the best counts, wherever it stands
        best = np.concatenate([[-inf], np.maximum.accumulate(self.quality[order])])
        return late, best[np.searchsorted(self.early[order], self.plain[late], side="right")]

    def best(self, objective: str, minutes: float) -> int | None:
        """Place of the set of highest utility that `minutes` hold, cheaper first on ties; None where there is
        none."""
        places = np.flatnonzero(self.needed(objective) <= minutes)
        if not places.size:
            return None
        needed = self.needed(objective)[places]
        worth = utility(objective, self.quality[places], np.log2(1.0 + needed))
        ties = np.flatnonzero(worth >= worth.max() - 1e-9)
        return int(places[ties[np.argmin(needed[ties])]])

    def places(self, chosen: int) -> list[int]:
        """Places in the pool of the runs of a set, the best first."""
        runs = [int(i) for i in self.members[chosen] if i >= 0]
        return sorted(runs, key=lambda i: (-self.pool.quality[i], self.pool.alone[i]))

    def quality_of(self, places: Sequence[int]) -> float:
        """Expected quality of the blend of the runs at these places of the pool and those that are done."""
        runs = [(str(self.pool.model[i]), float(self.pool.quality[i])) for i in places]
        blend = blend_quality([*((run.model, run.quality) for run in self.done), *runs], self.difference)
        members = np.array([[*places, *[-1] * (MOST_RUNS - len(places))]])
        lacking = _without_trees(self.all_sets, self.pool, members, self.done) if places else [0.0]
        return blend - float(lacking[0])

    def candidate(self, place: int) -> Candidate:
        """The run at a place of the pool."""
        return self.all_sets.at(int(self.pool.place[place]))

    def gain_of(self, objective: str, minutes: float, chosen: int) -> float:
        """Points that the best set of so many minutes is better than the chosen one."""
        return float(self.quality[self.needed(objective) <= minutes].max() - self.quality[chosen])

    def next_needed(self, objective: str, minutes: float, quality: float) -> float:
        """The smallest budget over `minutes` that holds a better set; infinite where not even twice does."""
        needed = self.needed(objective)
        return float(needed[(needed > minutes) & (self.quality > quality + LEAST_GAIN)].min(initial=inf))


def run_sets(all_sets: CandidateSets, minutes: float, done: Sequence[DoneRun] = ()) -> RunSets:
    """All sets that at most twice the `minutes` hold and of which every run adds to the others."""
    difference = _difference(all_sets)
    submitted, most = done or all_sets.before, 2.0 * minutes - all_sets.taken
    pool = run_pool(all_sets, most)
    sd, done_sd = _differences(all_sets, pool, done, difference)
    base = blend_quality([(run.model, run.quality) for run in done], difference)
    single = np.arange(len(pool.place))
    alone = expected_best(base, pool.quality, done_sd) if done else pool.quality
    share, n = pool.share, pool.beside
    a, b = np.nonzero(np.triu(pool.family[:n, None] != pool.family[None, :n]))
    both = share[a] + share[b]
    affordable = np.flatnonzero(both <= most)
    a, b, both = a[affordable], b[affordable], both[affordable]

    def blend(one: Integers, other: Integers) -> Array:
        """Expected quality of two runs with those that are done."""
        apart = sd[one, other]
        if done:
            apart = THIRD * np.minimum(apart, np.minimum(done_sd[one], done_sd[other]))
        return np.asarray(expected_best(alone[one], pool.quality[other], apart), dtype=np.float64)

    pair = blend(a, b)
    of_second = pair - np.maximum(alone[a], alone[b])
    gains = np.flatnonzero(of_second > LEAST_GAIN)
    a, b, both, pair, of_second = a[gains], b[gains], both[gains], pair[gains], of_second[gains]
    # the cheapest of each part of a doubling: what is chosen does not depend on which dearer ones there are
    best = front(both, pair)
    parts = np.floor(PAIRS_A_DOUBLING * np.log2(both[best]))
    pairs = best[np.diff(parts, prepend=-np.inf) > 0]
    of, third = np.nonzero(
        (pool.family[:n] != pool.family[a[pairs], None])
        & (pool.family[:n] != pool.family[b[pairs], None])
        & (both[pairs, None] + share[:n] <= most)
    )
    of = pairs[of]
    apart = THIRD * np.minimum(sd[a[of], third], sd[b[of], third])
    triple = np.asarray(expected_best(pair[of], pool.quality[third], apart))
    without_one = np.maximum(np.maximum(blend(a[of], third), blend(b[of], third)), pair[of])
    of_third = triple - without_one
    gains = np.flatnonzero(of_third > LEAST_GAIN)
    of, third, triple, of_third = of[gains], third[gains], triple[gains], of_third[gains]
    members = np.full((len(single) + len(a) + len(of), 3), -1)
    members[: len(single), 0] = single
    members[len(single) : -len(of) or None, :2] = np.stack([a, b], axis=1)
    members[len(members) - len(of) :] = np.stack([a[of], b[of], third], axis=1)
    several = np.concatenate([both, both[of] + share[third]])
    plain, together = (np.concatenate([one, several]) for one in (pool.alone, share))
    grids = [each.grid for each in all_sets.sets if 1 in each.grid.folds and not submitted]
    splits = (float(grid.minutes[:, :, grid.folds.index(1)].min(initial=inf)) for grid in grids)
    shortest, early = min(splits, default=inf), plain
    if shortest < inf:  # of its own, or of the shortest split, run before it
        first = np.minimum(pool.first[a], pool.first[b])
        first = np.concatenate([pool.first, first, np.minimum(first[of], pool.first[third])])
        reserve = all_sets.problem.policy.reserve_share
        split = np.maximum(together + shortest / (1.0 - reserve), shortest / FIRST_SHARE)
        early = np.minimum(np.maximum(plain, first / FIRST_SHARE), split)
    quality = np.concatenate([alone, pair, triple])
    quality = np.maximum(quality - _without_trees(all_sets, pool, members, done), base)
    least_gain = np.concatenate([np.full(len(single), inf), of_second, of_third])
    budgets = all_sets.taken + plain, all_sets.taken + early
    return RunSets(all_sets, pool, members, *budgets, quality, least_gain, difference, tuple(done))


def _without_trees(
    all_sets: CandidateSets, pool: RunPool, members: Integers, done: Sequence[DoneRun]
) -> Array:
    """Points off [set] of what has no boosted trees on a large table."""
    problem = all_sets.problem
    if problem.data_kind.table != "tabular" or problem.n_train < LARGE_TABLE:
        return np.zeros(len(members))
    families = _families(all_sets)
    is_tree = np.append(pool.boosted, False)  # place -1: no run
    boosted = any(families.get(run.model) == "gbdt" for run in done)
    return np.where(is_tree[members].any(axis=1) | boosted, 0.0, WITHOUT_TREES)


def _differences(
    all_sets: CandidateSets, pool: RunPool, done: Sequence[DoneRun], difference: Difference
) -> tuple[Array, Array]:
    """Standard deviation of the difference of each two runs that may stand beside others, and of each run to
    the nearest that is done."""
    unique, places = np.unique(pool.model, return_inverse=True)
    families, problem = _families(all_sets), all_sets.problem
    models = [(str(name), families[str(name)]) for name in unique]
    some = places[: pool.beside]
    sd = problem.quality.difference_sds(problem.data_kind.table, models)[some[:, None], some[None, :]]
    sd = sd * BLENDED.get(problem.data_kind.table, 1.0)
    nearest = [min((difference(name, d.model) for d in done), default=inf) for name, _ in models]
    return sd, np.array(nearest, dtype=np.float64)[places]


def _families(all_sets: CandidateSets) -> Mapping[str, str]:
    of_lanes = [each.table.columns.family_of for each in all_sets.sets]
    return of_lanes[0] if len(of_lanes) == 1 else {**of_lanes[0], **of_lanes[1]}


def _difference(all_sets: CandidateSets) -> Difference:
    """Standard deviation of the difference of two models on one data set, index points, by their names."""
    quality, table = all_sets.problem.quality, all_sets.problem.data_kind.table
    families = _families(all_sets)

    def apart(first: str, second: str) -> float:
        models = ((name, families.get(name, name)) for name in (first, second))
        return BLENDED.get(table, 1.0) * quality.difference_sd(table, *models)

    return apart


def blend_quality(runs: Sequence[tuple[str, float]], difference: Difference) -> float:
    """Expected quality of the blend of (model, expected quality), one after another; 0 of none."""
    value = 0.0
    for place, (model, quality) in enumerate(runs):
        if place == 0:
            value = quality
            continue
        apart = min(difference(model, other) for other, _ in runs[:place])
        value = float(expected_best(value, quality, apart * (THIRD if place > 1 else 1.0)))
    return value
