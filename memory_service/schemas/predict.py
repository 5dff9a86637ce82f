"""Predictions of what a model needs and does on a card: request and answer."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, RootModel

from memory_service.domain.cost.decoders.decoder import Method
from memory_service.schemas import fields as f
from memory_service.schemas.answers.common import Answer, Estimate, Layout, Provenance, Sentence, left_out
from memory_service.schemas.answers.recommend import InputSize, StepSettings
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.validation_errors import checked

MOST_QUESTIONS = 10_000
SIZE_FIELDS = ("image_size", "seq_len", "n_features")

_MODES = {"training": "train", "inference": "infer", "predict": "infer"}


def _mode(given: Any) -> Any:
    word = given.strip().lower() if isinstance(given, str) else given
    return _MODES.get(word, word) if isinstance(word, str) else word


StepMode = Annotated[Literal["train", "infer"], BeforeValidator(_mode)]


class PredictRequest(Request):
    """A model on a card; cpu_count and rounds only for models of the processor."""

    model: f.Text200 = Field(
        description="A catalogue, timm or transformers name, `unet/<encoder>`, `lightgbm` …",
        examples=["resnet50"],
    )
    gpu: f.Text200 = Field(description=f.ABOUT_GPUS, examples=["a100"])
    image_size: f.ImageSize | None = f.optional("Pixels a side.", examples=[224])
    seq_len: f.SeqLen | None = f.optional("Tokens a text; of sounds frames of 10 ms.")
    n_features: f.NFeatures | None = f.optional("Columns of a table.")
    batch_size: f.BatchSize | None = f.optional(
        "Samples a step; without it the answer is for the knee of throughput."
    )
    precision: f.Precision | None = f.optional(
        f"{f.ABOUT_PRECISION}, `amp`; the card's own best when not given."
    )
    layout: f.Layout | None = f.optional(
        "`nhwc` (channels last) or `nchw`; default: what a plan would set there."
    )
    optimizer: f.Optimizer | None = f.optional("`adamw` (default), `adam`, `sgd-momentum` …")
    mode: StepMode | None = f.optional("`train` (default) or `infer`.")
    n_train: f.Rows | None = f.optional(
        "Training rows: the answer then says how long an epoch, or a fit of boosted trees, takes."
    )
    n_classes: f.NClasses | None = f.optional(
        "Classes, of processor-bound models and of masks (a value of each at every pixel); of a decoder: a "
        "head for classes in place of the language model's."
    )
    cpu_count: f.CpuCount | None = f.optional("Processor cores; for processor-bound models only.")
    method: Method | None = f.optional(
        "Of a decoder: `full` (default), `lora` or `qlora` (4-bit NF4 weights)."
    )
    lora_rank: f.LoraRank | None = f.optional("Rank of LoRA on every linear layer; 16.")
    gradient_checkpointing: bool | None = f.optional(
        "Recompute blocks in the backward pass: less memory, a third more time."
    )
    n_gpus: f.NGpus | None = f.optional(
        "Equal cards in one box that train together; `gpu=2xt4` says the same."
    )
    interconnect: Literal["nvlink", "pcie"] | None = f.optional(
        "What joins several cards; default: what such boxes have."
    )
    sharding: f.Sharding | None = f.optional(f"{f.ABOUT_SHARDING} (default).")
    packing: bool | None = f.optional(f"{f.ABOUT_PACKING}.")
    text_tokens: f.SeqLen | None = f.optional(f.ABOUT_TEXT_TOKENS)
    rounds: f.Rounds | None = f.optional("Boosting rounds, or trees of a forest; 500 when not given.")


class PredictQuery(FromText, PredictRequest):
    """The same as texts."""


def sizing_question(asked: PredictRequest | Mapping[str, Any]) -> PredictRequest:
    """The question of a request, or of texts or values by name; InvalidInput names every wrong field."""
    return asked if isinstance(asked, PredictRequest) else checked(PredictQuery, asked)


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
