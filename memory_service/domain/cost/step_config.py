"""How a training step or forward pass is run: precision, layout, optimizer, compilation, software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StepMode = Literal["train", "infer"]
Stack = Literal["torch1", "torch2"]


@dataclass(frozen=True, slots=True)
class StepConfig:
    """Everything beside profile, batch and device that a prediction depends on.

    precision   fp32 | tf32 | fp16 | bf16
    layout      nhwc (channels_last) | nchw
    optimizer   a name of `domain.common.optimizers`
    compiled    under torch.compile
    stack       torch1: software of 2020-2022 (torch 1.x, cuDNN 8.0-8.3), whose gradients survive `zero_grad`
    """

    precision: str
    layout: str = "nhwc"
    optimizer: str = "adamw"
    mode: StepMode = "train"
    compiled: bool = False
    stack: Stack = "torch2"


def precision_class(precision: str) -> Literal["fp32", "amp"]:
    """What profiles and memory depend on: "fp32" (also tf32) or "amp"."""
    return "fp32" if precision in ("fp32", "tf32") else "amp"
