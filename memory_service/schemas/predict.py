"""The request of a prediction: what a model needs and does on a card."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from memory_service.domain.cost.decoders.decoder import Method
from memory_service.schemas import fields as f
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
    image_size: f.ImageSize | None = Field(None, description="Pixels a side.", examples=[224])
    seq_len: f.SeqLen | None = Field(None, description="Tokens a text; of sounds frames of 10 ms.")
    n_features: f.NFeatures | None = Field(None, description="Columns of a table.")
    batch_size: f.BatchSize | None = Field(
        None, description="Samples a step; without it the answer is for the knee of throughput."
    )
    precision: f.Precision | None = Field(
        None, description=f"{f.ABOUT_PRECISION}, `amp`; the card's own best when not given."
    )
    layout: f.Layout | None = Field(
        None, description="`nhwc` (channels last) or `nchw`; default: what a plan would set there."
    )
    optimizer: f.Optimizer | None = Field(None, description="`adamw` (default), `adam`, `sgd-momentum` …")
    mode: StepMode | None = Field(None, description="`train` (default) or `infer`.")
    n_train: f.Rows | None = Field(
        None,
        description="Training rows: the answer then says how long an epoch, or a fit of boosted trees, "
        "takes.",
    )
    n_classes: f.NClasses | None = Field(
        None,
        description="Classes, of processor-bound models and of masks (a value of each at every pixel); of a "
        "decoder: a head for classes in place of the language model's.",
    )
    cpu_count: f.CpuCount | None = Field(
        None, description="Processor cores; for processor-bound models only."
    )
    method: Method | None = Field(
        None, description="Of a decoder: `full` (default), `lora` or `qlora` (4-bit NF4 weights)."
    )
    lora_rank: f.LoraRank | None = Field(None, description="Rank of LoRA on every linear layer; 16.")
    gradient_checkpointing: bool | None = Field(
        None, description="Recompute blocks in the backward pass: less memory, a third more time."
    )
    n_gpus: f.NGpus | None = Field(
        None, description="Equal cards in one box that train together; `gpu=2xt4` says the same."
    )
    interconnect: Literal["nvlink", "pcie"] | None = Field(
        None, description="What joins several cards; default: what such boxes have."
    )
    sharding: f.Sharding | None = Field(None, description=f"{f.ABOUT_SHARDING} (default).")
    packing: bool | None = Field(None, description=f"{f.ABOUT_PACKING}.")
    text_tokens: f.SeqLen | None = Field(None, description=f.ABOUT_TEXT_TOKENS)
    rounds: f.Rounds | None = Field(
        None, description="Boosting rounds, or trees of a forest; 500 when not given."
    )


class PredictQuery(FromText, PredictRequest):
    """The same as texts."""


def sizing_question(asked: PredictRequest | Mapping[str, Any]) -> PredictRequest:
    """The question of a request, or of texts or values by name; InvalidInput names every wrong field."""
    return asked if isinstance(asked, PredictRequest) else checked(PredictQuery, asked)
