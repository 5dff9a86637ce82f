"""Profile of a model: the cost of one sample, traced once without a GPU, from which any batch follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

OP_CLASSES = (
    "dense_conv",  # k x k, groups = 1
    "pointwise_conv",  # 1 x 1
    "grouped_conv",  # groups > 1, more than one channel per group
    "depthwise_conv",  # one channel per group: bound by bytes
    "matmul",  # linear layers and batched matrix products
    "attention",  # fused scaled dot-product attention
    "elementwise",  # normalisation, activation, softmax, copies: bound by bytes
)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one operation class in one phase: `fixed + batch * per_sample`.

    flops are 2 x multiply-adds; bytes are tensors read + written; kernels are launches per step.
    """

    flops_per_sample: float = 0.0
    bytes_per_sample: float = 0.0
    flops_fixed: float = 0.0
    bytes_fixed: float = 0.0
    kernels: int = 0


@dataclass(frozen=True, slots=True)
class PeakPoint:
    """One moment of the step that is the peak for some batch: live bytes = fixed + batch * per_sample.

    Optimizer state is not in it (it is added by formula); parameters, and the gradients alive then, are.
    """

    fixed_bytes: float
    per_sample_bytes: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The cost of one sample of a model at one input size and precision class.

    input_kind/input_size   "image_size" in pixels a side | "seq_len" in tokens | "n_features" in columns
    precision               "fp32" (also tf32) | "amp" (fp16 and bf16 autocast alike)
    fused_attention         scaled dot-product attention as one kernel (torch >= 2.0)
    checkpointing           gradient checkpointing on
    peak                    upper envelope of (fixed, per sample): peak(B) = max over points; allocated bytes
                            of forward + loss + backward with parameters, without optimizer state
    forward, backward       operation class -> Work
    largest_activation_bytes_per_sample   biggest single tensor, for the allocator's and cuDNN's workspace
    """

    model: str
    library: str
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_size: int
    precision: Literal["fp32", "amp"]
    params: int
    buffers_bytes: int
    peak: tuple[PeakPoint, ...]
    forward: Mapping[str, Work]
    backward: Mapping[str, Work]
    n_outputs: int = 1000
    fused_attention: bool = True
    checkpointing: bool = False
    channels_last: bool = True
    family: str = ""
    largest_activation_bytes_per_sample: float = 0.0
    inference_peak: tuple[PeakPoint, ...] = ()
    torch_version: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holes_bytes(self) -> float:
        """What the allocator keeps unused beside maps of attention (benchmarks/caching_allocator.py)."""
        return float((self.extra.get("largest_conv_bytes") or {}).get("holes", 0.0))

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it: lists, not tuples. By hand: `dataclasses.asdict` takes five times as long."""
        data = _as_dict(self, _PROFILE)
        for key in ("peak", "inference_peak"):
            data[key] = [_as_dict(point, _PEAK_POINT) for point in data[key]]
        for key in ("forward", "backward"):
            data[key] = {name: _as_dict(work, _WORK) for name, work in data[key].items()}
        return data | {"extra": dict(self.extra)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Profile:
        """Inverse of `as_dict`; unknown keys raise TypeError."""
        data = dict(raw)
        for key in ("peak", "inference_peak"):
            data[key] = tuple(PeakPoint(**point) for point in data.get(key) or ())
        for key in ("forward", "backward"):
            data[key] = {name: Work(**work) for name, work in data[key].items()}
        return cls(**data)


def with_work(profile: Profile, operation: str, more: Mapping[str, tuple[float, float]]) -> Profile:
    """The profile with more (flops, bytes) a sample of an operation, forward, backward and in inference."""
    changed: dict[str, Any] = {"extra": dict(profile.extra)}
    for phase in ("forward", "backward"):
        works, (flops, moved) = dict(getattr(profile, phase)), more[phase]
        work = works.get(operation, Work())
        flops, moved = work.flops_per_sample + flops, work.bytes_per_sample + moved
        changed[phase] = works | {operation: replace(work, flops_per_sample=flops, bytes_per_sample=moved)}
    if "roofline" in profile.extra:
        place = OP_CLASSES.index(operation)
        rows = ([phase, place, 0, 0, *each, 0.0, 0.0, 0] for phase, each in enumerate(more.values()))
        changed["extra"]["roofline"] = [*profile.extra["roofline"], *rows]
    return replace(profile, **changed)


def is_of_cubes(profile: Profile) -> bool:
    """Whether `input_size` is the side of a cube; of clips it is that of a picture, of so many each."""
    return profile.library == "monai" or (profile.family == "conv3d" and profile.library == "torch")


_PROFILE, _PEAK_POINT, _WORK = (tuple(f.name for f in fields(kind)) for kind in (Profile, PeakPoint, Work))


def _as_dict(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
