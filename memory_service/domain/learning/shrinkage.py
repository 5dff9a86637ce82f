"""Corrections from few observations: one Gaussian posterior over effects that they share.

An observation is a sum of effects (of the card, of the family on it, of this very model, ...) and noise. Each
effect is drawn around zero with a stated standard deviation, its loading, so the posterior mean of what was
never observed is zero, a few observations move it part of the way, and many settle it. Nested levels
therefore shrink to their parents without rules for it: with one level of variance a and noise b, n
observations of mean m give the closed form m x a / (a + b / n).

Effects and noise have the tails of Student's t: what is small is shrunk, what is large and repeated is
followed.

Observations with the same loadings (one case, observed again) are solved for as one, which is exact: the work
is in proportion to the cube of how many different ones there are.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Loadings = Mapping[Any, float]
"""Effect (any hashable name) -> how much one standard deviation of it moves the observation."""

ROUNDS = 6
"""Rounds of reweighting; the weights move under 1 % after the sixth on the public tables."""

LEAST_WEIGHT = 0.02
TINY = 1e-12


class Posterior:
    """What is known of every effect after the observations; the order they came in does not matter.

    rows      loadings of each observation
    values    what was observed, shape (n,)
    noise_sd  standard deviation of what the effects do not explain, shape (n,)
    freedom   degrees of freedom of the tails; infinity = Gaussian

    from_others   what each observation would be expected as by all the others, shape (n,)
    """

    def __init__(
        self,
        rows: Sequence[Loadings],
        values: Sequence[float] | Floats,
        noise_sd: Sequence[float] | Floats,
        freedom: float = float("inf"),
    ) -> None:
        self._index: dict[Hashable, int] = {}
        different: dict[Hashable, int] = {}
        kinds: dict[int, int] = {}
        for row in rows:
            if id(row) not in kinds:
                kinds[id(row)] = different.setdefault(frozenset(row.items()), len(different))
        kind = np.array([kinds[id(row)] for row in rows])
        one_of_each = dict(zip(kind.tolist(), rows, strict=True))
        for row in one_of_each.values():
            for effect in row:
                self._index.setdefault(effect, len(self._index))
        z = np.zeros((len(one_of_each), len(self._index)))
        for i, row in one_of_each.items():
            for effect, loading in row.items():
                z[i, self._index[effect]] = loading
        measured = np.asarray(values, dtype=np.float64), np.asarray(noise_sd, dtype=np.float64)
        self._solve(z, kind, *measured, freedom)

    def _solve(
        self, z: Floats, kind: NDArray[np.int64], values: Floats, noise_sd: Floats, freedom: float
    ) -> None:
        """z: loadings of each different row, shape (k, effects); kind: which of them each observation has."""
        heavy = np.isfinite(freedom)
        spread, next_noise = np.ones(z.shape[1]), noise_sd**2
        for _ in range(ROUNDS if heavy else 1):
            noise = next_noise
            precision = np.bincount(kind, 1.0 / noise)
            together = np.bincount(kind, values / noise) / precision
            scaled = z * np.sqrt(spread)
            lower = np.linalg.cholesky(scaled @ scaled.T + np.diag(1.0 / precision))
            inverse = np.linalg.inv(lower)
            explained = inverse @ scaled
            self._mean = explained.T @ (inverse @ together)
            self._scale = np.sqrt(spread)
            fitted = scaled @ self._mean
            unsure = np.maximum(1.0 / precision - np.sum(inverse**2, axis=0) / precision**2, 0.0)
            if not heavy:
                break
            variance = np.maximum(1.0 - np.sum(explained**2, axis=0), 0.0)
            squares = spread * (self._mean**2 + variance)
            spread = 1.0 / np.maximum((freedom + 1.0) / (freedom + squares), LEAST_WEIGHT)
            squares = ((values - fitted[kind]) ** 2 + unsure[kind]) / noise_sd**2
            next_noise = noise_sd**2 / np.maximum((freedom + 1.0) / (freedom + squares), LEAST_WEIGHT)
        left_out = 1.0 / np.maximum(unsure[kind], TINY) - 1.0 / noise
        self.from_others = np.where(
            left_out > 0.0,
            (fitted[kind] / np.maximum(unsure[kind], TINY) - values / noise) / np.maximum(left_out, TINY),
            0.0,
        )
        self._of_effect = np.ascontiguousarray(explained.T)
        means = (self._mean * self._scale).tolist()
        self._effects: dict[Hashable, float] = dict(zip(self._index, means, strict=True))

    def mean(self, row: Loadings) -> float:
        """Expected value of a new observation with these loadings."""
        effects = self._effects
        return float(sum(loading * effects.get(effect, 0.0) for effect, loading in row.items()))

    def weights(self, rows: Sequence[Loadings]) -> tuple[Floats, Floats]:
        """(how much one standard deviation of each observed effect moves each row, shape (n, effects);
        variance of effects that nobody observed, shape (n,)). For `many_means` and `many_explained`."""
        index, places, columns, loadings = self._index, [], [], []
        unseen = np.zeros(len(rows))
        for place, row in enumerate(rows):
            for effect, loading in row.items():
                column = index.get(effect)
                if column is None:
                    unseen[place] += loading**2
                else:
                    places.append(place)
                    columns.append(column)
                    loadings.append(loading)
        weights = np.zeros((len(rows), len(index)))
        weights[places, columns] = loadings
        return weights * self._scale, unseen

    def many_means(self, weights: Floats) -> Floats:
        """`mean` of each row of `weights`, shape (n,)."""
        return np.asarray(weights @ self._mean)

    def many_explained(self, weights: Floats) -> tuple[Floats, Floats]:
        """(variance of what was observed of each row, shape (n,); how far the different observations explain
        it)."""
        explained = weights @ self._of_effect
        variance = np.einsum("ij,ij->i", weights, weights) - np.einsum("ij,ij->i", explained, explained)
        return np.maximum(variance, 0.0), explained


FREEDOM = 2.0
"""Tails of Student's t."""

SAME_FIGURE = 1.35
AGREE = log(SAME_FIGURE)
ENOUGH_RUNS = 3
"""Three runs within a third of each other (peaks: 0.3 GiB) count, however far they are: of two reporters, or
of the only one that told of the case."""


def without_outliers(
    rows: Sequence[Loadings],
    values: Sequence[float],
    noise: Sequence[float],
    far: Sequence[float],
    groups: Sequence[Hashable],
    cases: Sequence[Hashable],
    runs: Sequence[Hashable],
    reporters: Sequence[Hashable],
) -> tuple[Posterior | None, list[int]]:
    """The posterior without outliers, and which observations are left out (for now).

    An observation further than `far` from zero counts when two others from other runs of its group agree
    with it, or when the rest already brings it near; one that the rest leaves far is not. Runs of one
    reporter alone settle nothing where somebody else told of the same case.
    """

    def agreed_on(i: int) -> bool:
        group = [j for j in range(len(values)) if groups[j] == groups[i]]
        near = [j for j in group if abs(values[j] - values[i]) <= AGREE]
        of_case = [j for j in group if cases[j] == cases[i]]
        tellers, known = ({reporters[j] for j in some} for some in (near, of_case))
        return len({runs[j] for j in near}) >= ENOUGH_RUNS and (len(tellers) > 1 or tellers >= known)

    near = {i for i, value in enumerate(values) if abs(value) <= far[i]}
    included = near | {i for i in range(len(values)) if i not in near and agreed_on(i)}
    agreed = included - near
    for _ in range(2):
        posterior = posterior_of(rows, values, noise, sorted(included))
        each = {id(row): row for row in rows}
        means = {} if posterior is None else {key: posterior.mean(row) for key, row in each.items()}
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


def equal_shares(told: Sequence[tuple[Hashable, Hashable, float]]) -> list[int]:
    """Places of those (case, reporter, figure) that stand for their reporters: of each in a case no more than
    the second most of one there (of the only one all), spread evenly over its figures."""
    cases: dict[Hashable, dict[Hashable, list[tuple[float, int]]]] = {}
    for i, (case, reporter, figure) in enumerate(told):
        cases.setdefault(case, {}).setdefault(reporter, []).append((figure, i))
    shares = []
    for by in cases.values():
        share = sorted(map(len, by.values()))[-2:][0]
        for some in map(sorted, by.values()):
            n = min(share, len(some))
            shares += [some[((2 * k + 1) * len(some) - 1) // (2 * n)][1] for k in range(n)]
    return sorted(shares)


def posterior_of(
    rows: Sequence[Loadings], values: Sequence[float], noise: Sequence[float], included: Sequence[int]
) -> Posterior | None:
    if not included:
        return None
    return Posterior(
        [rows[i] for i in included], [values[i] for i in included], [noise[i] for i in included], FREEDOM
    )
