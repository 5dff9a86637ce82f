"""How good predictions were."""

from pydantic import Field

from memory_service.domain.learning.scoring import Score
from memory_service.schemas.answers.common import Answer


class ScoredGroup(Answer):
    name: str
    runs: int
    scores: list[Score]


class ScoredRuns(Answer):
    """Every ended run is in exactly one of the others."""

    ended: int
    scored: int = Field(description="Some figure of it stands beside its prediction.")
    without_prediction: int
    excluded: dict[str, int] = Field(description="By reason: nothing of them is scored.")
    nothing_measured: int = Field(description="No figure that was predicted was reported.")


class MemoryLimit(Answer):
    """Whether runs ran out of memory, against whether that was predicted."""

    fitted_as_predicted: int
    fitted_unexpectedly: int
    ran_out_as_predicted: int
    ran_out_unexpectedly: int


class QualityOrder(Answer):
    """Whether expected quality orders the models run on a competition as their metrics did."""

    competitions: int
    pairs: int = Field(description="Of models on one competition, each by its best run.")
    right_percent: float | None = Field(description="The higher expected quality had the better metric.")
    expected_percent: float | None = Field(description="The mean probability that was given to that.")


class Accuracy(Answer):
    """Predictions frozen when runs began, scored on what happened. Nothing to score: empty lists."""

    runs: ScoredRuns
    overall: list[Score]
    by_device: list[ScoredGroup]
    by_family: list[ScoredGroup]
    by_own_runs: list[ScoredGroup] = Field(
        description="By how many runs of its model at its size on its device the prediction knew of."
    )
    by_grade: list[ScoredGroup]
    by_age: list[ScoredGroup]
    memory_limit: MemoryLimit
    quality: QualityOrder
