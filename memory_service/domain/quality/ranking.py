"""Ranks candidates for one data set: which is best, how sure is that, and in which order to run several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memory_service.domain.quality.combination import expected_best
from memory_service.domain.quality.quality_model import DIFFERENCE_SD, QualityModel

Array = npt.NDArray[np.float64]

DRAWS = 4_000
"""Joint draws of all candidates' qualities; always the same ones, so that equal questions have equal
answers."""

MOST_CORRELATED = 200
"""Among more candidates differences are taken as those of unrelated models: a pair each would be too many."""

MOST_RUNS = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """model, family   of the catalogue; index: expected quality in points; sd: of what is not known of it."""

    model: str
    family: str
    index: float
    sd: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """rank   1 = highest expected quality, equal ones share it
    p_best    probability to be the best one, in order of the candidates; they sum to 1
    run_order places of the candidates in the order in which a portfolio would run them, at most `MOST_RUNS`:
              the best one first, then always the one that raises the expected best of all most
    """

    rank: tuple[int, ...]
    p_best: tuple[float, ...]
    run_order: tuple[int, ...]


def rank_candidates(candidates: Sequence[Candidate], model: QualityModel, table: str) -> Ranking:
    """Candidates for one data set. table: the kind of data they are for (`Kind.table`)."""
    index = np.array([each.index for each in candidates])
    order = np.argsort(-index, kind="stable")
    rank = tuple(int((index > value).sum()) + 1 for value in index)
    variance = _difference_variance(candidates, model, table)
    draws = index + _draws(variance)
    best = np.bincount(np.argmax(draws, axis=1), minlength=len(index)) / DRAWS
    return Ranking(
        rank, tuple(float(share) for share in best), _run_order(int(order[0]), index, draws, variance)
    )


def _difference_variance(candidates: Sequence[Candidate], model: QualityModel, table: str) -> Array:
    """Variance of the difference of two candidates on one data set (n, n), index points squared."""
    n = len(candidates)
    own = np.array([each.sd**2 for each in candidates])
    if n > MOST_CORRELATED:
        between = np.full((n, n), DIFFERENCE_SD**2)
    else:
        names = [(each.model, each.family) for each in candidates]
        between = model.difference_sds(table, names) ** 2
    same = np.array([[a.model == b.model for b in candidates] for a in candidates])
    between += np.where(same, 0.0, own[:, None] + own[None, :])
    np.fill_diagonal(between, 0.0)
    return between


def _draws(difference_variance: Array) -> Array:
    """Centred joint draws (DRAWS, n) whose differences have the given variances, as nearly as any normal
    distribution can: classical scaling of the variances, negative directions left out."""
    n = len(difference_variance)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ difference_variance @ centre)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(0).standard_normal((DRAWS // 2, n))
    return np.asarray(np.vstack([normal, -normal]) @ factor.T)


def _run_order(first: int, index: Array, draws: Array, variance: Array) -> tuple[int, ...]:
    """Two by the closed form, further ones by the draws."""
    order = [first]
    while len(order) < min(MOST_RUNS, len(index)):
        if len(order) == 1:
            gain = expected_best(index[first], index, np.sqrt(np.maximum(variance[first], 1e-12)))
        else:
            gain = np.maximum(draws, draws[:, order].max(axis=1)[:, None]).mean(axis=0)
        gain[order] = -np.inf
        order.append(int(np.argmax(gain)))
    return tuple(order)
