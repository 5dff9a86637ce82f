"""What was predicted before anything was learned, and of what? Both sides of a residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.observation import Observation

__all__ = ["PARTS", "Cold", "Predict", "Subject", "precision_class", "subject_for", "subject_of"]

PARTS = (*OP_CLASSES, "launch", "optimizer")
"""What the time of a step is made of."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is predicted: fields as in `Observation`. It belongs to one key of every level."""

    gpu: str
    model: str
    family: str
    input_size: int
    precision: str
    device: str = ""
    layout: str = "nhwc"
    mode: str = "train"
    optimizer: str = "adamw"
    compiled: bool = False
    stack: str = "torch2"
    checkpointing: bool = False


@dataclass(frozen=True, slots=True)
class Cold:
    """What an observation would have been predicted as without any learning.

    shares        of the step's time, by PARTS; they sum to one
    card_log_sd   how unsure the card's rates are, as a standard deviation of log time
    *_gib         peak memory; usable_gib: what a process can get on that device
    """

    step_seconds: float
    shares: tuple[float, ...]
    card_log_sd: float
    allocated_gib: float
    reserved_gib: float
    driver_gib: float
    usable_gib: float


Predict = Callable[[Observation], Cold | None]
"""None: that observation cannot be predicted (no profile, unknown card), so nothing is learned from it."""


def subject_of(observation: Observation) -> Subject:
    """What the observation was made of."""
    o = observation
    return Subject(
        o.gpu, o.model, o.family, o.input_size, o.precision, o.device, o.layout, o.mode, o.optimizer,
        o.compiled, o.stack, o.checkpointing,
    )  # fmt: skip


def subject_for(
    profile: Profile,
    gpu: Gpu,
    precision: str,
    layout: str = "nhwc",
    optimizer: str = "adamw",
    mode: str = "train",
    compile: bool = False,  # noqa: A002
    stack: str = "torch2",
) -> Subject:
    """What a prediction is of, in the names that observations use."""
    return Subject(
        gpu.slug,
        profile.model.split(".", 1)[0] if profile.library == "timm" else profile.model,
        profile.family or profile.model,
        profile.input_size,
        precision,
        gpu.device,
        layout if layout == "nhwc" or _convolutional(profile) else "nhwc",
        mode,
        optimizer,
        compile,
        stack,
        profile.checkpointing,
    )


def _convolutional(profile: Profile) -> bool:
    """Whether the layout means anything to the model."""
    convolutions = sum(work.flops_per_sample for name, work in profile.forward.items() if "conv" in name)
    return convolutions > 0.1 * sum(work.flops_per_sample for work in profile.forward.values())


def precision_class(precision: str) -> str:
    """What memory depends on: "fp32" (also tf32) or "amp"."""
    return "fp32" if precision in ("fp32", "tf32") else "amp"
