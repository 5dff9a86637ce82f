"""Peak memory of a training step on a device, and the largest batch that fits.

Three numbers that are often confused are kept apart:
    allocated   live tensors at the worst moment of a step: the profile's envelope + optimizer state
    reserved    what PyTorch's caching allocator holds for them: allocated + fragments + cuDNN's workspace
    driver      what nvidia-smi shows: reserved + the CUDA context and its libraries

The constants were fitted on public measurements and are checked by `benchmarks/fit_memory.py`
(docs/accuracy.md): the driver's view on 2 214 fp32 runs on an A100-40GB with cuDNN autotuning,
cross-validated by model family; the limit on 362 models on an RTX 3090, whose largest batch says what fits
and what does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.cost.batch_ladder import BATCH_LADDER
from memory_service.domain.cost.memory import (
    GIB,
    allocated_bytes,
    highest_bytes,
    most_samples,
    optimizer_bytes,
    step_bytes,
    training_points,
    workspace_bytes,
)
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.learning.baseline_prediction import PredictionKey, prediction_key
from memory_service.domain.learning.batch_bounds import Bounds
from memory_service.domain.learning.corrections import MemoryCorrection
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import FieldError, InvalidInput

Confidence = Literal["p10", "p50", "p90"]

CONTEXT_GIB = 0.85
"""CUDA context with cuBLAS and cuDNN kernels loaded, when memory is tight; the same for every card, so that
more memory never means a smaller batch."""

TIGHT_FRAGMENTS = 1.044
"""reserved / allocated at the limit, where the allocator has given back every cached block it could.

With CONTEXT_GIB this puts the RTX 3090's limit at 21.7 GiB of live tensors. Anything from 21.6 to 22.1 hits
at least 94.5 % of its models; the low end is taken, for a batch too large costs more than one too small. The
split between the two constants is not sharp. On the A100-40GB it gives 36.9 GiB: all but 2 of 2 214 runs
that fitted are below.
"""

LIMIT_MARGIN = {"p10": 1.03, "p50": 1.0, "p90": 0.955}
"""Share of the limit that is used: at 95.5 % 1 in 120 rows was predicted too large, at 100 % 1 in 65."""

DRIVER_CONTEXT_GIB = 1.66
DRIVER_FRAGMENTS = 1.021
"""Comfortable use, fp32 with cuDNN autotuning: context + slope x allocated + workspace. Intervals are the
10th and 90th percentile over families left out of the fit."""

OVERFULL = 1.02
"""A step that ran out of memory wanted at least this much of what there was."""

FLOOR_SHARE = 0.02
"""No learned interval is narrower than 2 % either way."""

HOST_RUNTIME_GIB = 0.6
"""A Python process with PyTorch loaded, for devices without a context of their own."""


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Peak of one training step in GiB, in the three senses above; each with its central 80 % interval."""

    allocated_gib: Estimate
    reserved_gib: Estimate
    driver_gib: Estimate


def peak_memory(profile: Profile, batch_size: int, device: TargetDevice, config: StepConfig) -> PeakMemory:
    """Peak memory of a step of `batch_size` samples; InvalidInput for a batch below one.

    On a card that it would overfill, reserved and driver are what it would take on a larger one.
    """
    if batch_size < 1:
        raise InvalidInput(
            f"The batch size must be at least 1, got {batch_size}",
            [FieldError("batch_size", "at least 1", batch_size)],
        )
    if config.mode == "infer":
        allocated, basis = (
            highest_bytes(profile.inference_peak or profile.peak, batch_size),
            "traced forward pass",
        )
        config = replace(config, optimizer="none")
    else:
        persistent = config.stack == "torch1"
        allocated = allocated_bytes(profile, batch_size, config.optimizer, grads_persistent=persistent)
        basis = "trace + optimizer state"
    workspace = workspace_bytes(profile, batch_size, config.precision)
    baseline = _as_seen(allocated / GIB, workspace / GIB, device, basis)
    if device.learned is None:
        return baseline
    return _as_learned(baseline, device, prediction_key(profile, device, config), batch_size)


def allocated_limit_gib(device: TargetDevice, confidence: Confidence = "p90") -> float:
    """Live tensor GiB that fit into what a process can get of the device's memory."""
    overhead = device.memory_overhead
    if device.kind != "cuda":
        base, ratio = (overhead.base_gib, overhead.ratio or 1.0) if overhead else (HOST_RUNTIME_GIB, 1.0)
        return max(0.0, device.usable_gib - base) / ratio * LIMIT_MARGIN[confidence]
    context = overhead.base_gib if overhead else CONTEXT_GIB
    return max(0.0, device.usable_gib - context) / TIGHT_FRAGMENTS * LIMIT_MARGIN[confidence]


def largest_batch(
    profile: Profile,
    device: TargetDevice,
    config: StepConfig,
    *,
    ladder: Sequence[int] | None = BATCH_LADDER,
    confidence: Confidence = "p90",
) -> int:
    """The largest batch of `ladder` whose step fits; 0 when even the smallest does not.

    ladder       the batches to choose from; None = any whole number
    confidence   "p50": as likely too large as too small by one sample; "p90": the one to plan with;
                 "p10": what fits if everything goes well
    More memory never gives a smaller batch. A batch that ran on this device counts as fitting; one that ran
    out of memory, and any larger, as not.
    """
    subject = prediction_key(profile, device, config)
    room = _learned_limit(device, subject, allocated_limit_gib(device, confidence)) * GIB
    points: Sequence[PeakPoint] = profile.inference_peak or profile.peak
    least = 0.0
    if config.mode == "train":
        points = training_points(profile, config.stack == "torch1")
        room -= optimizer_bytes(profile.params, config.optimizer)
        least = step_bytes(profile, config.optimizer)
    most = min((most_samples(point, room) for point in points), default=0) if least <= room else 0
    if device.learned is not None:
        bounds = device.learned.batch_bounds(subject, device.usable_gib)
        most = max(most, bounds.proven)
        most = most if bounds.refused is None else min(most, bounds.refused - 1)
    if ladder is None:
        return most
    return max((batch for batch in ladder if batch <= most), default=0)


def observed_bounds(profile: Profile, device: TargetDevice, config: StepConfig) -> Bounds:
    """What runs say of the batch on this device: the largest that ran, the smallest that ran out of memory.

    Gradient checkpointing makes room, but how much is not known: what ran out of memory without it is
    not offered with it.
    """
    if device.learned is None:
        return Bounds()
    subject = prediction_key(profile, device, config)
    bounds = device.learned.batch_bounds(subject, device.usable_gib)
    if not profile.checkpointing:
        return bounds
    plain = device.learned.batch_bounds(replace(subject, checkpointing=False), device.usable_gib)
    known = [each for each in (bounds, plain) if each.refused is not None and each.refused > bounds.proven]
    return min(known, key=lambda each: each.refused or 0, default=replace(bounds, refused=None))


def _learned_limit(device: TargetDevice, subject: PredictionKey, limit_gib: float) -> float:
    """Predicted live GiB whose corrected figure just reaches the limit."""
    if device.learned is None:
        return limit_gib
    learned = device.learned.memory_of(subject, "allocated")
    if learned is None and device.kind != "cuda":
        learned = device.learned.memory_of(subject, "driver")
    if learned is None:
        return limit_gib
    return max(0.0, limit_gib - learned.fixed_gib) / (1.0 + learned.share)


def _as_learned(
    baseline: PeakMemory, device: TargetDevice, subject: PredictionKey, batch_size: int
) -> PeakMemory:
    """The same peaks as observed runs would have them; allocated <= reserved <= driver still holds."""
    if device.learned is None:
        return baseline
    learned = device.learned.peaks_of(subject, device.usable_gib)
    if learned.is_empty:
        return baseline
    predicted = baseline.allocated_gib.value
    allocated = _shifted(baseline.allocated_gib, learned.allocated, predicted)
    reserved = _shifted(baseline.reserved_gib, learned.reserved, predicted)
    driver = _shifted(baseline.driver_gib, learned.driver, predicted)
    bounds = learned.bounds
    if bounds.refused is not None and batch_size >= bounds.refused:
        driver = _at_least(
            driver, device.usable_gib * OVERFULL, f"ran out of memory at batch {bounds.refused}"
        )
    elif batch_size <= bounds.proven:
        reserved, driver = _at_most(reserved, device.usable_gib), _at_most(driver, device.usable_gib)
        allocated = _at_most(allocated, allocated_limit_gib(device))
    return _in_order(allocated, reserved, driver)


def _shifted(baseline: Estimate, learned: MemoryCorrection | None, allocated_gib: float) -> Estimate:
    if learned is None:
        return baseline
    value = max(baseline.value + learned.shift_gib(allocated_gib), 0.1 * baseline.value)
    half = max(SD_OF_P90 * learned.sd_gib(allocated_gib), FLOOR_SHARE * value)
    return Estimate(
        value,
        value - min(half, max(baseline.value - baseline.low, FLOOR_SHARE * value)),
        value + min(half, max(baseline.high - baseline.value, FLOOR_SHARE * value)),
        "measured" if learned.exact else "estimated",
        learned.n,
        f"{baseline.basis} + {learned.basis}",
    )


def _at_least(e: Estimate, gib: float, why: str) -> Estimate:
    value = max(e.value, gib)
    return Estimate(value, max(e.low, gib), max(e.high, value), e.grade, max(e.n, 1), f"{e.basis}; {why}")


def _at_most(e: Estimate, gib: float) -> Estimate:
    if e.high <= gib:
        return e
    value = min(e.value, gib)
    return replace(e, value=value, low=min(e.low, value), high=min(e.high, max(gib, value)))


def _in_order(allocated: Estimate, reserved: Estimate, driver: Estimate) -> PeakMemory:
    """What was learned holds; a figure nobody observed gives way to it."""
    if reserved.n < driver.n:
        reserved = _at_most(reserved, driver.value)
    if allocated.n < max(reserved.n, driver.n):
        allocated = _at_most(allocated, reserved.value)
    reserved = _raised(reserved, allocated)
    return PeakMemory(allocated, reserved, _raised(driver, reserved))


def _raised(outer: Estimate, inner: Estimate) -> Estimate:
    if outer.value >= inner.value:
        return outer
    return replace(outer, value=inner.value, low=max(outer.low, inner.low), high=max(outer.high, inner.high))


def _as_seen(allocated: float, workspace: float, device: TargetDevice, basis: str) -> PeakMemory:
    live = Estimate(allocated, allocated * 0.985, allocated * 1.02, basis=basis)
    overhead = device.memory_overhead
    if device.kind != "cuda":
        if overhead is None:
            total = allocated + HOST_RUNTIME_GIB
            process = Estimate(total, total * 0.9, total * 1.2, basis=f"{basis} + runtime")
            return PeakMemory(live, process, process)
        grown = allocated * (overhead.ratio or 1.0)
        total = overhead.base_gib + grown
        how = f"{basis} + measured runtime and allocator"
        low = max(allocated, total - 0.05 * overhead.base_gib - 0.25 * grown)
        process = Estimate(total, min(low, total), total + 0.05 * overhead.base_gib + 0.3 * grown, basis=how)
        return PeakMemory(live, process, process)
    measured = overhead is not None and overhead.workspace_share is not None
    share = overhead.workspace_share if overhead and overhead.workspace_share is not None else 1.0
    reserved = allocated * DRIVER_FRAGMENTS + workspace * share
    how = f"{basis} + allocator + cuDNN workspace{' as measured' if measured else ''}"
    reserve = Estimate(reserved, max(allocated, reserved * 0.94), reserved * 1.08, basis=how)
    driver = reserved + (overhead.base_gib if overhead else DRIVER_CONTEXT_GIB)
    how = f"{how} + {'measured ' if overhead else ''}context"
    shown = Estimate(driver, max(allocated, driver * 0.942), driver * 1.074, basis=how)
    return PeakMemory(live, reserve, shown)
