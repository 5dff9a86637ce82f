"""Memory of a training step by formula: live tensors, optimizer state, cuDNN's workspace.

Fitted on public measurements and checked by `benchmarks/fit_memory.py` (docs/methods/accuracy.md).
"""

from collections.abc import Sequence
from math import floor

from memory_service.domain.common.optimizers import OPTIMIZERS, optimizer_name
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.step_config import is_over_volumes

GIB = 2.0**30

DENSE_WORKSPACE = 4.45
GROUPED_WORKSPACE = 2.78
"""cuDNN's workspace in multiples of the bytes that the largest dense (and grouped) convolution reads and
writes, in fp32 with autotuning. Depthwise and 1x1 ones add nothing."""

AMP_WORKSPACE_SHARE = 0.25
"""Half-precision channels-last kernels need no layout copies. Measured with the context and fragments of
mixed precision (`prediction.peak_memory_curve`): 50 peaks of 19 networks on an H200, benchmarks/data/h200."""

FRAGMENTS = {"fp32": 1.021, "amp": 1.03}
"""reserved / allocated in comfortable use, workspace apart."""

LIBRARIES_GIB = {"fp32": 0.0, "amp": 0.35}
"""Beyond them and a card's measured context: workspaces of libraries, blocks half used (the H200, too)."""

UNBOUNDED_BATCH = 2**20


def optimizer_bytes(params: int, optimizer: str) -> float:
    """Bytes of optimizer state on the card for `params` parameters; weights and state are fp32 in every
    precision. Of a paged optimizer none has to be there."""
    return OPTIMIZERS[optimizer_name(optimizer)].state_bytes * params


def allocated_bytes(
    profile: Profile, batch_size: int, optimizer: str = "adamw", *, grads_persistent: bool = False
) -> float:
    """Live tensor bytes at the worst moment of a training step, exact up to the model's own code paths.

    grads_persistent   gradients survive `zero_grad` (torch < 2.0's default)
    The optimizer's own step is one of the moments: weights, gradients, state and one temporary.
    """
    state = optimizer_bytes(profile.params, optimizer)
    points = training_points(profile, grads_persistent)
    live = max((p.fixed_bytes + batch_size * p.per_sample_bytes for p in points), default=0.0)
    return max(live, step_bytes(profile, optimizer)) + state


def most_samples(point: PeakPoint, room: float) -> int:
    """The largest batch whose live bytes at this moment stay within `room` bytes."""
    if point.fixed_bytes > room:
        return 0
    if point.per_sample_bytes <= 0.0:
        return UNBOUNDED_BATCH
    return min(UNBOUNDED_BATCH, floor((room - point.fixed_bytes) / point.per_sample_bytes))


def step_bytes(profile: Profile, optimizer: str) -> float:
    """Live bytes in the optimizer's own step without its state: weights, gradients and one temporary."""
    known = OPTIMIZERS[optimizer_name(optimizer)]
    if not known.state_bytes and not known.paged_bytes:
        return 0.0
    return profile.params * (8.0 + known.scratch_bytes) + profile.buffers_bytes


def training_points(profile: Profile, grads_persistent: bool) -> Sequence[PeakPoint]:
    """The moments of a training step that are the peak for some batch."""
    points = profile.extra.get("peak_gradients_kept") if grads_persistent else None
    return tuple(PeakPoint(fixed, slope) for fixed, slope in points) if points else profile.peak


def workspace_bytes(profile: Profile, batch_size: int, precision: str | None = None) -> float:
    """cuDNN's scratch memory when it may choose among algorithms. Volumes lie channels first, and half
    precision copies them: nnU-Net's default network takes 7 to 9 GB (its author), without 7.2, so 8.1."""
    largest = profile.extra.get("largest_conv_bytes") or {}
    half = (precision or profile.precision) in ("amp", "fp16", "bf16")
    copied = 1.0 / DENSE_WORKSPACE if is_over_volumes(profile) else 0.0
    share = AMP_WORKSPACE_SHARE + copied if half else 1.0
    multiples = {"dense_conv": DENSE_WORKSPACE, "grouped_conv": GROUPED_WORKSPACE}
    bytes_each = sum(times * float(largest.get(name, 0.0)) for name, times in multiples.items())
    return share * batch_size * bytes_each
