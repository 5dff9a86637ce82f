"""Candidates with their expected quality."""

from pydantic import Field

from memory_service.schemas.answers.common import Answer, Estimate, left_out


class RankedRow(Answer):
    """A row as it was given, and what is expected of it; null where it cannot be judged."""

    dataset: str | None = left_out("As given.")
    task: str
    model: str
    subtask: str | None = left_out("As given.")
    language: str | None = left_out("As given.")
    n_train: int | None = left_out("As given.")
    n_classes: int | None = left_out("As given.")
    n_features: int | None = left_out("As given.")
    input_size: int | None = left_out("As given.")
    epochs: int | None = left_out("As given, or as planned for `gpu` and `minutes`.")
    folds: int | None = left_out("As given, or as planned for `gpu` and `minutes`.")
    gpu: str | None = left_out("As given.")
    minutes: float | None = left_out("As given.")
    quality: Estimate | None = Field(description="Index 0 to 100, comparable within a data set.")
    rank: int | None = Field(description="1: the highest quality of its data set.")
    p_best: float | None = Field(description="Probability to be the best row of its data set.")
    run_order: int | None = Field(description="In which order to run several: up to five, then null.")
    why: str | None = Field(description="Why it could not be judged.")


class Ranked(Answer):
    """In the order given."""

    rows: list[RankedRow]
