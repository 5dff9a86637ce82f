"""What a model needs and does on a card."""

from typing import Literal

from pydantic import Field, RootModel

from memory_service.schemas.answers.common import Answer, Estimate, Layout, Provenance, Sentence, left_out
from memory_service.schemas.answers.recommend import InputSize, StepSettings


class CurvePoint(Answer):
    batch_size: int = Field(description="Samples a step.")
    peak_memory_gib: Estimate
    samples_per_second: Estimate
    fits: bool


class WouldFit(Answer):
    """What would fit in place of a batch that does not."""

    batch_size: int | None = left_out("Samples a step.")
    grad_accumulation: int | None = left_out(
        "Steps an update, which keep about the batch that was asked for."
    )
    why: str


class _Prediction(Answer):
    model: str
    gpu: str = Field(description="Slug of the GPU model.")
    fits: bool = Field(
        description="Whether it is expected to: more likely than not. Up to `safe_batch_size` it fits nine "
        "times in ten; between both the interval of the peak reaches beyond the card."
    )
    max_batch_size: Estimate | None = Field(
        description="`low` fits nine times in ten; null: of boosted trees."
    )
    knee_batch_size: int | None = Field(description="The next rung gains under 10 % of speed; see `curve`.")
    samples_per_second: Estimate = Field(
        description="Of the card, of several all; the input pipeline, which a plan counts, is left out. Of "
        "boosted trees, rows that a round reads."
    )
    step_seconds: Estimate | None = Field(description="Null of boosted trees.")
    peak_memory_gib: Estimate = Field(
        description="As the driver reports it; of boosted trees, where they grow on the card; 0 of what the "
        "host fits."
    )
    warnings: list[str]
    reasons: list[Sentence] = Field(description="The warnings as data.")
    device: str | None = Field(description="The registered device, where it is one.")
    calibration: Provenance | None
    curve: list[CurvePoint]
    basis: str = Field(description="How the time was made.")


class NetworkPrediction(_Prediction, InputSize, StepSettings):
    precision: str
    layout: Layout
    optimizer: str = Field(description="`none` of inference.")
    mode: Literal["train", "infer"]
    gradient_checkpointing: bool
    batch_size: int = Field(description="Samples a step: the one asked for, or the knee within what fits.")
    safe_batch_size: int = Field(description="The largest that fits nine times in ten.")
    n_train: int | None = left_out("Training rows, where they were said.")
    epoch_seconds: Estimate | None = left_out("Where `n_train` was said.")
    would_fit: WouldFit | None = left_out("Where the batch does not fit.")
    loader_cores: Estimate | None = left_out("Cores that keep up with the card; of pictures.")


class TreesPrediction(_Prediction):
    """Of boosted trees and forests: one fit."""

    n_features: int = Field(description="Columns of the table.")
    n_train: int = Field(description="Training rows.")
    assumed: list[str]
    cpu_count: int = Field(description="Cores.")
    rounds: int
    host_memory_gib: Estimate = Field(description="Of the process that fits.")
    fit_seconds: Estimate = Field(description="On the processor's cores.")
    card_fit_seconds: Estimate | None = left_out(
        "By the library's own trees on the card, where a law is known."
    )
    predict_seconds_per_row: Estimate


class Prediction(RootModel[NetworkPrediction | TreesPrediction]):
    """What a model needs and does on a card."""


class Predictions(RootModel[list[NetworkPrediction | TreesPrediction]]):
    """One answer a question, in their order."""
