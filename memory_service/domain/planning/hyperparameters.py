"""Batch, optimizer, learning rate and warmup from model, data and card, by rules of thumb with their
reasons."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.throughput_knee import floor_to_ladder
from memory_service.domain.planning.policy import LARGE_GIB, MIDDLE_GIB, BatchDefault, Policy
from memory_service.domain.quality.boosting_rounds import patience_rounds

DEFAULT_POLICY = Policy()

SINGLE_SPLIT_SHARE = 0.8

TREE_LEARNING_RATE = 0.05
"""Of boosted trees of which nothing else is said; a plan chooses (`domain.planning.boosting_plan`)."""

_ATTENTION_FAMILIES = (
    "vit", "deit", "beit", "eva", "swin", "convnext", "metaformer", "maxvit", "coatnet", "hiera", "xcit",
    "cait", "volo", "twins", "mvit", "davit", "gcvit", "focalnet", "tinyvit", "nextvit", "efficientvit",
    "ast", "detr",
)  # fmt: skip

BATCH_OF_NORM = 16
"""`least_batch` of networks whose layers are normalised over the batch."""

_DETECTORS = ("fasterrcnn", "faster_rcnn", "maskrcnn", "mask_rcnn", "retinanet", "fcos", "ssd")
_DENSE_TASKS = ("image-segmentation", "object-detection", "image-to-image")


@dataclass(frozen=True, slots=True)
class TrainingDefaults:
    """How a kind of model is tuned.

    optimizer      "adamw" | "sgd-momentum" | "boosting"
    base_lr, base_batch   learning rate stated at an effective batch size
    scaling        "sqrt" (Adam type) | "linear" (SGD) | "none"
    max_lr         never above: Adam-type optima rise, then fall with the batch (arXiv 2405.14578)
    wanted_batch   effective batch these defaults were made for; accumulation fills up to it
    least_batch    never below, so that batch statistics mean something (16 with batch norm)
    patience       epochs without gain before stopping (R16: 3-5)
    """

    optimizer: str
    base_lr: float
    base_batch: int
    scaling: str
    max_lr: float
    wanted_batch: int
    least_batch: int
    patience: int


def training_defaults(
    task: str, family: str, *, pretrained: bool, trees: bool = False, method: str | None = None
) -> TrainingDefaults:
    """How a model family is tuned on a task. Learning rates are the usual starting points of
    fine-tuning; of LoRA and QLoRA those of Dettmers et al. 2023 (2e-4 at batch 16)."""
    if method in ("lora", "qlora"):
        return TrainingDefaults("adamw", 2e-4, 16, "sqrt", 4e-4, 16, 1, 3)
    modality = modality_of(task)
    if trees:
        patience = patience_rounds(TREE_LEARNING_RATE)
        return TrainingDefaults("boosting", TREE_LEARNING_RATE, 1, "none", 1.0, 1, 1, patience)
    if family == "fasttext":
        return TrainingDefaults("adamw", 5e-3, 32, "sqrt", 1e-2, 32, 8, 3)
    if task == "speech-recognition":  # Whisper 1e-5 at 16 to 64, XLS-R 3e-4 at 32 with warmup: between them
        return TrainingDefaults("adamw", 1e-5 if "whisper" in family else 1e-4, 32, "sqrt", 3e-4, 32, 4, 3)
    if modality == "text":
        if task == "seq2seq":
            return TrainingDefaults("adamw", 1e-4, 32, "sqrt", 4e-4, 32, 4, 3)
        return TrainingDefaults("adamw", 2e-5, 32, "sqrt", 1e-4, 32, 8, 3)
    if modality in ("tabular", "recommendation"):
        return TrainingDefaults("adamw", 1e-3, 256, "sqrt", 5e-3, 256, 32, 5)
    if modality == "time-series":
        return TrainingDefaults("adamw", 1e-3, 64, "sqrt", 4e-3, 64, 16, 5)
    if task in _DENSE_TASKS:
        if family.startswith(_DETECTORS):
            return TrainingDefaults("sgd-momentum", 0.02, 16, "linear", 0.08, 16, 2, 4)
        if family == "centernet" and not pretrained:
            return TrainingDefaults("adamw", 3e-3, 16, "sqrt", 3e-3, 16, 4, 4)
        return TrainingDefaults("adamw", 3e-4, 16, "sqrt", 1e-3, 16, 4, 4)
    if not pretrained:
        return TrainingDefaults("adamw", 1e-3, 256, "sqrt", 4e-3, 128, 16, 5)
    if family.lower().startswith(_ATTENTION_FAMILIES):
        return TrainingDefaults("adamw", 1e-4, 256, "sqrt", 3e-4, 128, 8, 3)
    return TrainingDefaults("adamw", 5e-4, 256, "sqrt", 2e-3, 128, 16, 3)


def learns_from_scratch(task: str, family: str) -> bool:
    """Whether a network whose weights cannot be had is worth training from random ones: convolutions on
    images, sounds and masks. Transformers of text and vision need more data than a competition has."""
    modality = modality_of(task)
    return modality in ("image", "audio") and not family.lower().startswith(_ATTENTION_FAMILIES)


def is_dense(task: str) -> bool:
    """Whether the model answers per pixel or per box."""
    return task in _DENSE_TASKS


def default_batch(
    task: str, input_size: int, usable_gib: float, *, gpu: bool, policy: Policy = DEFAULT_POLICY
) -> tuple[int, str | None]:
    """R03: the default batch by input and card: it decides where throughput leaves the choice open, and never
    falls when memory grows; and the row of the strategy tables that says it, None where none does."""
    modality = modality_of(task)
    if not gpu:
        by_kind = {"text": 16, "tabular": 1024, "recommendation": 1024, "time-series": 64}
        return by_kind.get(modality, 32), None
    half = 1.0 if usable_gib >= LARGE_GIB else 0.5 if usable_gib >= MIDDLE_GIB else 0.25
    if modality == "time-series":
        return int(512 * max(half, 0.5)), None
    if modality == "text":
        base = 128 if input_size <= 128 else 64 if input_size <= 256 else 32 if input_size <= 512 else 16
        return max(4, int(base * half)), None
    if modality in ("video", "point-cloud", "multimodal"):
        frames = policy.default_batch("image", input_size, LARGE_GIB) or BatchDefault(32)
        return max(4, int(frames.batch_size // 4 * half)), frames.row
    kind = "table" if modality in ("tabular", "recommendation") else "image"
    kind = "segmentation_tile" if is_dense(task) else kind
    found = policy.default_batch(kind, input_size, usable_gib) or BatchDefault(32)
    least = {"table": 1, "segmentation_tile": 2}.get(kind, 64 if usable_gib >= MIDDLE_GIB else 16)
    return max(least, found.batch_size), found.row


def most_by_updates(n_train: int, least_batch: int, updates: int = DEFAULT_POLICY.updates_per_epoch) -> int:
    """The largest rung that leaves ~50 updates an epoch on one split; never under `least_batch`.

    9 000 images: 9000 * 0.8 / 50 = 144 -> 128.
    """
    wanted = floor_to_ladder(n_train * SINGLE_SPLIT_SHARE / updates)
    return max(wanted, min(least_batch, max(1, floor_to_ladder(n_train * SINGLE_SPLIT_SHARE))))


def accumulation_steps(batch_size: Any, wanted: Any, most: Any) -> npt.NDArray[np.int64]:
    """Gradient accumulation that reaches the wanted batch when memory cannot (R07): 1, 2, 4 ... 16;
    broadcasts."""
    short = np.maximum(np.minimum(wanted, most) / np.asarray(batch_size, dtype=np.float64), 1.0)
    return np.asarray(np.minimum(16, 2 ** np.floor(np.log2(short)).astype(np.int64)), dtype=np.int64)


def learning_rate(defaults: TrainingDefaults, effective_batch_size: int) -> float:
    """The base rate scaled to the effective batch: linear for SGD, square root for Adam-type; two digits."""
    ratio = effective_batch_size / defaults.base_batch
    factor = {"linear": ratio, "sqrt": math.sqrt(ratio), "none": 1.0}[defaults.scaling]
    return float(f"{min(defaults.base_lr * factor, defaults.max_lr):.2g}")


def warmup_epochs(epochs: int) -> int:
    """One epoch of warmup from 4 epochs up; short runs warm up within the first epoch's steps (0)."""
    return 1 if epochs >= 4 else 0
