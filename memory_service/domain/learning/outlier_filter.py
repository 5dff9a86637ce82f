"""Filter of outliers: observations near what the rest says stay, and far ones that agree with each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import log

from memory_service.domain.learning.shrinkage import Loadings, Posterior

FREEDOM = 2.0
"""Tails of Student's t."""

AGREE = log(1.35)
ENOUGH_RUNS = 3
"""Three runs within a third of each other (peaks: 0.3 GiB) count, however far they are."""


def without_outliers(
    rows: Sequence[Loadings],
    values: Sequence[float],
    noise: Sequence[float],
    far: Sequence[float],
    groups: Sequence[Hashable],
    runs: Sequence[Hashable],
) -> tuple[Posterior | None, list[int]]:
    """The posterior without outliers, and which observations are left out (for now).

    An observation further than `far` from zero counts when two others from other runs of its group agree
    with it, or when the rest already brings it near; one that the rest leaves far is not.
    """
    near = {i for i, value in enumerate(values) if abs(value) <= far[i]}
    included = near | {i for i in range(len(values)) if i not in near and _agreed(i, values, groups, runs)}
    agreed = included - near
    for _ in range(2):
        posterior = posterior_of(rows, values, noise, sorted(included))
        means = {} if posterior is None else {id(row): posterior.mean(row) for row in _each(rows)}
        expected = [means.get(id(row), 0.0) for row in rows]
        if posterior is not None:
            for i, others in zip(sorted(included), posterior.from_others.tolist(), strict=True):
                expected[i] = others
        near = agreed | {i for i, v in enumerate(values) if abs(v - expected[i]) <= far[i]}
        if near == included:
            break
        included = near
    else:
        posterior = posterior_of(rows, values, noise, sorted(included))
    return posterior, [i for i in range(len(values)) if i not in included]


def _each(rows: Sequence[Loadings]) -> Iterable[Loadings]:
    """Every row once, by identity."""
    return {id(row): row for row in rows}.values()


def _agreed(i: int, values: Sequence[float], groups: Sequence[Hashable], runs: Sequence[Hashable]) -> bool:
    with_it = {
        runs[j] for j in range(len(values))
        if groups[j] == groups[i] and abs(values[j] - values[i]) <= AGREE
    }  # fmt: skip
    return len(with_it) >= ENOUGH_RUNS


def posterior_of(
    rows: Sequence[Loadings], values: Sequence[float], noise: Sequence[float], included: Sequence[int]
) -> Posterior | None:
    if not included:
        return None
    return Posterior(
        [rows[i] for i in included], [values[i] for i in included], [noise[i] for i in included], FREEDOM
    )
