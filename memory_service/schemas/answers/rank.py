"""Candidates with their expected quality."""

from pydantic import Field

from memory_service.schemas.answers.common import Answer, Estimate
from memory_service.schemas.rank import RankRow


class RankedRow(RankRow):
    """A row as it was given, epochs and folds as planned for `gpu` and `minutes`; null: not judged."""

    quality: Estimate | None = Field(description="Index 0 to 100, comparable within a data set.")
    rank: int | None = Field(description="1: the highest quality of its data set.")
    p_best: float | None = Field(description="Probability to be the best row of its data set.")
    run_order: int | None = Field(description="In which order to run several: up to five, then null.")
    why: str | None = Field(description="Why it could not be judged.")


class Ranked(Answer):
    """In the order given."""

    rows: list[RankedRow]
