"""What runs on other competitions say of models. There, a competition counts once for each model, however
many runs it had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory_service.domain.quality.conditioning import FARTHEST, RUN_NOISE
from memory_service.domain.quality.quality_model import Learned, QualityModel
from memory_service.domain.quality.ranking import Candidate


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
