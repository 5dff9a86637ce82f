"""The runs that a portfolio may hold: of all priced plans those that few others match, with their repeats.

What is in the pool does not depend on the budget, but for what is too long for it: a larger budget only adds
runs. `domain.portfolio.run_sets` rests its laws on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from memory_service.domain.planning.batch_choice import Array, Flags, Integers
from memory_service.domain.planning.candidates import CandidateSet, CandidateSets
from memory_service.domain.planning.run_seconds import minutes_needed
from memory_service.domain.quality.quality_index import fold_gain

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
    candidate_set, flat   place of the set, and the place in its grid
    seeds         repeats of all its folds
    family        one number for each family, over all sets
    quality       expected index, repeats included
    alone         the smallest budget (minutes) that holds it as the only run
    share         minutes of the budget that it takes beside others, its part of the reserve included
    first         p90 minute by which a submission of its first fold is written
    """

    candidate_set: Integers
    flat: Integers
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
    (`PlanGrid.close`) runs are weighed by themselves only."""
    beside, every, families = [], [], 0
    for candidate_set, candidates in enumerate(all_sets.sets):
        if not candidates.table.options:
            continue
        close = candidates.grid.close
        beside.append(_pool_of(candidates, candidate_set, families, minutes, close))
        if close is not None:
            every.append(_pool_of(candidates, candidate_set, families, minutes))
        families += len(candidates.table.columns.families)
    return replace(_joined([*beside, *every]), beside=sum(len(pool.flat) for pool in beside))


def _joined(pools: Sequence[RunPool]) -> RunPool:
    arrays: dict[str, Any] = {n: np.concatenate([getattr(pool, n) for pool in pools]) for n in _ARRAYS}
    return RunPool(**arrays)


def _layers(minutes: Array, quality: Array, family: Integers) -> Integers:
    """Places, by rising minutes, of the points that no cheaper one of their own family and fewer than
    `MOST_RUNS` others reach."""
    raised = quality + 1e3 * family
    order = np.argsort(minutes)  # most are far below; ties are put in order among those that are left
    order = order[np.argsort(family[order].astype(np.int16), kind="stable")]
    some = np.sort(order[raised[order] >= np.maximum.accumulate(raised[order])])
    order = some[np.lexsort((-quality[some], minutes[some], family[some]))]
    steps = np.maximum.accumulate(raised[order])
    front = order[np.diff(steps, prepend=-np.inf) > 1e-9]
    front = front[np.argsort(minutes[front], kind="stable")]
    ranked, codes = quality[front], family[front]
    best_so_far = np.full((int(codes.max(initial=-1)) + 1, len(front)), -np.inf)
    best_so_far[codes, np.arange(len(front))] = ranked
    np.maximum.accumulate(best_so_far, axis=1, out=best_so_far)
    beaten = (best_so_far > ranked + 1e-9).sum(axis=0)
    return np.asarray(front[beaten < MOST_RUNS], dtype=np.int64)


def _pool_of(
    candidates: CandidateSet, candidate_set: int, families: int, minutes: float, without: Flags | None = None
) -> RunPool:
    """without: places of epochs that are left out."""
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
        candidate_set=np.full(len(at), candidate_set),
        flat=flat[at],
        seeds=seeds,
        family=families + columns.family[rows[at]],
        quality=np.minimum(quality[flat[at]] + gained, 100.0),
        alone=alone,
        share=np.maximum(alone, repeated.total_end.high / (60.0 * (1.0 - policy.reserve_share))),
        first=first.and_independent(run.write).high[at] / 60.0,
    ).at(np.flatnonzero(alone <= minutes))
    return pool.at(_layers(pool.alone, pool.quality, pool.family - families))
