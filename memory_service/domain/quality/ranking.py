"""Ranks candidates for one data set: which is best, how sure is that, and in which order to run several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from memory_service.domain.quality.combination import expected_best
from memory_service.domain.quality.quality_index import learning_of, quality_index, too_large
from memory_service.domain.quality.quality_model import DIFFERENCE_SD, Kind, QualityModel

Array = npt.NDArray[np.float64]

DRAWS = 4_000
"""Joint draws of all candidates' qualities; always the same ones, so that equal questions have equal
answers."""

MOST_CORRELATED = 200
"""Among more candidates differences are taken as those of unrelated models: a pair each would be too many."""

MOST_RUNS = 5

FULLY_TRAINED = 10_000
"""Epochs of a model of which nobody says how long it is trained."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """model, family   of the catalogue; index: expected quality in points; sd: of what is not known of it."""

    model: str
    family: str
    index: float
    sd: float


class ModelFacts(Protocol):
    """What is asked of a model; a row of the catalogue is one."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def quality_score(self) -> float: ...
    @property
    def params_m(self) -> float: ...
    @property
    def pretrained(self) -> bool: ...
    @property
    def input_kind(self) -> str: ...
    @property
    def default_input_size(self) -> int: ...
    @property
    def can_be_profiled(self) -> bool: ...


def candidate_of(
    quality: QualityModel,
    kind: Kind,
    task: str,
    model: ModelFacts,
    n_train: int,
    epochs: int | None = None,
    folds: int | None = None,
    input_size: int | None = None,
) -> Candidate:
    """A model trained like this on this kind of data. Without epochs as many as pay, without folds one split,
    without an input size the model's own."""
    expected = quality.expected(kind, [model.name], np.array([model.quality_score]))
    points = float(expected.points[0])
    if kind.table == "image":
        points -= float(too_large(model.params_m, n_train))
    sized = model.input_kind != "n_features" and input_size and model.default_input_size
    ratio = (input_size or 1) / model.default_input_size if sized else 1.0
    learning = learning_of(task, model.pretrained, not model.can_be_profiled, model.family)
    index = quality_index(points, ratio, epochs or FULLY_TRAINED, folds or 1, learning, float(n_train))
    return Candidate(model.name, model.family, float(index), float(expected.sd[0]))


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
