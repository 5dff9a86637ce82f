"""Ranks candidates for one data set: which is best, how sure is that, in which order to run several, and
what a second one adds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.domain.quality.quality_model import QualityModel

Array = npt.NDArray[np.float64]

DRAWS = 4_000
"""Joint draws of all candidates' qualities; always the same ones, so that equal questions have equal
answers."""

MOST_CONTENDERS = 200
"""Of more candidates for one data set those below the 200 of highest expected quality are never the best."""

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
    rank = np.searchsorted(-index[order], -index, side="left") + 1
    contenders = order[:MOST_CONTENDERS]
    variance = difference_variance([candidates[i] for i in contenders], model, table)
    draws = index[contenders] + _draws(variance)
    p_best = np.zeros(len(index))
    p_best[contenders] = np.bincount(np.argmax(draws, axis=1), minlength=len(contenders)) / DRAWS
    run_order = contenders[_run_order(index[contenders], draws, variance)]
    return Ranking(tuple(rank.tolist()), tuple(p_best.tolist()), tuple(run_order.tolist()))


def difference_variance(candidates: Sequence[Candidate], model: QualityModel, table: str) -> Array:
    """Variance of the difference of two candidates on one data set (n, n), index points squared."""
    between = model.difference_sds(table, [(each.model, each.family) for each in candidates]) ** 2
    own = np.array([each.sd**2 for each in candidates])
    names = np.array([each.model for each in candidates])
    between += np.where(names[:, None] == names[None, :], 0.0, own[:, None] + own[None, :])
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


def _run_order(index: Array, draws: Array, variance: Array) -> list[int]:
    """Places, the first candidate (the best) first: the second by the closed form, further ones by the
    draws."""
    order = [0]
    while len(order) < min(MOST_RUNS, len(index)):
        if len(order) == 1:
            gain = expected_best(index[0], index, np.sqrt(np.maximum(variance[0], 1e-12)))
        else:
            gain = np.maximum(draws, draws[:, order].max(axis=1)[:, None]).mean(axis=0)
        gain[order] = -np.inf
        order.append(int(np.argmax(gain)))
    return order


def expected_best(first: Any, second: Any, difference_sd: Any) -> Array:
    """Expected maximum of two correlated normal qualities; arguments broadcast, all in the same unit.

    difference_sd   standard deviation of their difference on one data set: small for two models that err
                    alike, so that the second adds little
    E max = a * Phi(d/s) + b * Phi(-d/s) + s * phi(d/s) with d = a - b (Clark 1961, "The greatest of a finite
    set of random variables").
    """
    a, b, s = (np.asarray(value, dtype=np.float64) for value in (first, second, difference_sd))
    d = (a - b) / np.maximum(s, 1e-9)
    phi = np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi)
    share = probability_better(a, b, s)
    return np.asarray(a * share + b * (1 - share) + s * phi, dtype=np.float64)


def probability_better(first: Any, second: Any, difference_sd: Any) -> Array:
    """Probability that the first of two normal qualities is the higher one; arguments broadcast."""
    a, b, s = (np.asarray(value, dtype=np.float64) for value in (first, second, difference_sd))
    return _normal_cdf((a - b) / np.maximum(s, 1e-9))


def _normal_cdf(x: Array) -> Array:
    """Standard normal distribution function, absolute error under 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * poly
    return np.asarray(np.where(x >= 0, 1.0 - upper, upper), dtype=np.float64)
