"""How a training step or forward pass is run: precision, layout, optimizer, compilation, software; and which
memory layout, nhwc (channels_last) or nchw, suits a network on a card."""

from dataclasses import dataclass
from typing import Literal

from memory_service.domain.cost.profile import Profile, is_of_cubes
from memory_service.domain.hardware.gpu_spec import Gpu

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


def layout_of(profile: Profile, gpu: Gpu) -> str:
    """nhwc for convolutional networks on tensor cores; nchw where convolutions are grouped or rare.

    Public 3090 measurements: channels_last gains 12 % at the median but loses up to 60 % on grouped
    convolutions.
    """
    return tensor_core_layout(profile) if gpu.has_tensor_cores else "nchw"


def tensor_core_layout(profile: Profile) -> str:
    """`layout_of` on cards with tensor cores; torch's channels_last is of pictures alone."""
    if profile.precision != "amp" or is_over_volumes(profile):
        return "nchw"
    flops = {name: work.flops_per_sample for name, work in profile.forward.items()}
    total = sum(flops.values()) or 1.0
    convolutional = sum(flops.get(name, 0.0) for name in ("dense_conv", "pointwise_conv", "depthwise_conv"))
    grouped = flops.get("grouped_conv", 0.0)
    return "nhwc" if convolutional / total > 0.5 and grouped / total < 0.2 else "nchw"


def is_over_volumes(profile: Profile) -> bool:
    """Whether its convolutions are over volumes or clips."""
    return profile.family == "conv3d" or is_of_cubes(profile)


def is_convolutional(profile: Profile) -> bool:
    """Whether the layout means anything to the network."""
    convolutions = sum(work.flops_per_sample for name, work in profile.forward.items() if "conv" in name)
    return convolutions > 0.1 * sum(work.flops_per_sample for work in profile.forward.values())
