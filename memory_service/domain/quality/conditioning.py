"""Updates the expected quality of models by results of runs: runs of the same competition move models that
err alike, runs of other competitions the mean of the model itself."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
import numpy.typing as npt

from memory_service.domain.quality.quality_model import Learned, QualityModel
from memory_service.domain.quality.ranking import Candidate

Array = npt.NDArray[np.float64]

RUN_NOISE = 0.7
"""Standard deviation of one run's result in index points: another seed, another split."""

FARTHEST = 10.0
"""Points that two runs are taken to differ by at most: beyond it one of them has failed."""

LOG_ERROR_PER_POINT, LOG_ERROR_PER_POINT_OF_TABLES = 0.04, 0.024
"""An index point is about 4 % of the error, of tables 2.4 %."""


def given_runs(
    expected: Array,
    models: Sequence[tuple[str, str]],
    results: Mapping[str, float],
    quality: QualityModel,
    table: str,
) -> Array:
    """Expected points of models (m,), given results of some of them on one competition.

    models    (name, family) in the order of `expected`; results: name -> points of its best run, of unknown
              level: only their differences count, so that one model's runs alone move nothing
    Conditional mean of a normal distribution whose differences have the variances of
    `QualityModel.difference_sd`.
    """
    names = [name for name, _ in models]
    places = [names.index(name) for name in sorted(results) if name in names]
    if len(places) < 2:
        return expected
    base, *others = places
    variance = quality.difference_sds(table, models)[places] ** 2
    variance[np.arange(len(places)), places] = 0.0
    to_base = variance[0]
    # Cov(f_a - f_0, f_i - f_0) = (D_a0 + D_i0 - D_ai) / 2
    cross = 0.5 * (to_base[None, :] + to_base[others][:, None] - variance[1:])
    noise = RUN_NOISE**2 * (np.eye(len(others)) + 1.0)
    seen = np.array([results[names[i]] - results[names[base]] for i in others])
    seen = np.clip(seen, -FARTHEST, FARTHEST)
    surprise = seen - (expected[others] - expected[base])
    shift = cross.T @ np.linalg.solve(cross[:, others] + noise, surprise)
    return np.asarray(expected + shift, dtype=np.float64)


def points_of_metric(value: float, direction: str, table: str) -> float | None:
    """A metric as index points of unknown level; None where it says no error. direction: max | min; table:
    kind of the data (`Kind.table`)."""
    error = 1.0 - value if direction == "max" else value
    unit = LOG_ERROR_PER_POINT_OF_TABLES if table == "tabular" else LOG_ERROR_PER_POINT
    return -log(error) / unit if error > 0.0 else None


@dataclass(frozen=True, slots=True)
class Surprise:
    """How much better than expected a model was on one competition, beside the models run there with it.

    table    kind of the data (`Kind.table`)
    points   index points, centred over the models of the competition
    known_sd index points, of what is not known of the model's mean
    """

    competition: str
    table: str
    model: str
    family: str
    points: float
    known_sd: float


def surprises_of(
    competition: str, table: str, runs: Sequence[Candidate], points: Sequence[float]
) -> list[Surprise]:
    """Of the best run of each model of one competition. points: of their metrics, of unknown level."""
    if len(runs) < 2:
        return []
    more = np.asarray(points) - np.array([run.index for run in runs])
    more = np.clip(more - more.mean(), -FARTHEST, FARTHEST)
    return [
        Surprise(competition, table, run.model, run.family, float(value), run.sd)
        for run, value in zip(runs, more, strict=True)
    ]


def taught(quality: QualityModel, surprises: Iterable[Surprise], without: str | None = None) -> QualityModel:
    """The quality model after these surprises: for each model a normal prior of its mean, and one observation
    of each competition. without: a competition that is left out."""
    by_model: dict[tuple[str, str], list[Surprise]] = defaultdict(list)
    for one in surprises:
        if one.competition != without:
            by_model[one.table, one.model].append(one)
    return replace(quality, learned={key: _learned(quality, found) for key, found in by_model.items()})


def _learned(quality: QualityModel, found: Sequence[Surprise]) -> Learned:
    one_data_set = quality.data_set_sd(found[0].table, (found[0].model, found[0].family))
    noise = (one_data_set**2 + RUN_NOISE**2) / len(found)
    prior = float(np.mean([one.known_sd**2 for one in found]))
    share = prior / (prior + noise)
    return Learned(share * float(np.mean([one.points for one in found])), share, len(found))
