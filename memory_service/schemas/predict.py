"""The request of a prediction: what a model needs and does on a card."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from memory_service.domain.cost.decoders.decoder import Method, Trainer
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


class TrainedWhere(Request):
    """What requests of plans and of predictions both say."""

    n_features: f.NFeatures | None = f.optional("Columns of a table.")
    lora_rank: f.LoraRank | None = f.optional("Rank of LoRA on every linear layer; 16.")
    n_gpus: f.NGpus | None = f.optional(
        "Equal cards in one box that train one model together; `gpu=2xt4` says the same."
    )
    interconnect: Literal["nvlink", "pcie"] | None = f.optional(
        "What joins several cards; default: what such boxes have."
    )
    sharding: f.Sharding | None = f.optional(
        f"{f.ABOUT_SHARDING}; a plan's default is `fsdp` where no card holds a copy."
    )
    trainer: Trainer | None = f.optional(f.ABOUT_TRAINER)
    packing: bool | None = f.optional(
        f"{f.ABOUT_PACKING}; a plan's default where two texts or more fit in a row."
    )
    text_tokens: f.SeqLen | None = f.optional(f.ABOUT_TEXT_TOKENS)
    audio_hours: f.Hours | None = f.optional(
        "Of sounds: hours in all, in place of `n_train`; a clip lasts as `seq_len` says, else 10 s in a plan."
    )
    bands: f.Bands | None = f.optional("Of pictures: spectral bands; 3 when not given.")


class PredictRequest(TrainedWhere):
    """A model on a card; cpu_count and rounds only for models of the processor."""

    model: f.Text200 = Field(
        description="A catalogue, timm or transformers name, `unet/<encoder>`, `lightgbm` …",
        examples=["resnet50"],
    )
    gpu: f.Text200 = Field(description=f.ABOUT_GPUS, examples=["a100"])
    image_size: f.ImageSize | None = f.optional("Pixels a side.", examples=[224])
    seq_len: f.SeqLen | None = f.optional("Tokens a text; of sounds frames of 10 ms.")
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
    cpu_count: f.CpuCount | None = f.optional(
        "Processor cores: of models that the processor fits, and beside a card those that read pictures."
    )
    method: Method | None = f.optional(
        "Of a decoder: `full` (default), `lora` or `qlora` (4-bit NF4 weights)."
    )
    gradient_checkpointing: bool | None = f.optional(
        "Recompute blocks in the backward pass: less memory, a third more time."
    )
    rounds: f.Rounds | None = f.optional("Boosting rounds, or trees of a forest; 500 when not given.")


class PredictQuery(FromText, PredictRequest):
    """The same as texts."""


def sizing_question(asked: PredictRequest | Mapping[str, Any]) -> PredictRequest:
    """The question of a request, or of texts or values by name; InvalidInput names every wrong field."""
    return asked if isinstance(asked, PredictRequest) else checked(PredictQuery, asked)
