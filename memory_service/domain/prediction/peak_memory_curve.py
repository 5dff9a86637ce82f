"""Peak memory of a training step on a device, at every batch asked for at once.

Three numbers that are often confused are kept apart:
    allocated   live tensors at the worst moment of a step: the profile's envelope + optimizer state
    reserved    what PyTorch's caching allocator holds for them: allocated + fragments + cuDNN's workspace
    driver      what nvidia-smi shows: reserved + the CUDA context and its libraries

The constants were fitted on public measurements and are checked by `benchmarks/fit_memory.py`
(docs/methods/accuracy.md): the driver's view on 2 214 fp32 runs on an A100-40GB with cuDNN autotuning,
cross-validated by model family; the limit on 362 models on an RTX 3090, whose largest batch says what fits
and what does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import SD_OF_P90, Estimate, Grade
from memory_service.domain.cost.interpolation import growth_beyond
from memory_service.domain.cost.memory import (
    FRAGMENTS,
    GIB,
    LIBRARIES_GIB,
    optimizer_bytes,
    step_bytes,
    training_points,
    workspace_bytes,
)
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.profile_stack import ProfileStack
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.learning.memory_residuals import READINGS, MemoryCorrection, Reading
from memory_service.domain.learning.observation import PredictionKeys, prediction_key
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import FieldError, InvalidInput

Confidence = Literal["p10", "p50", "p90"]
Floats = NDArray[np.float64]

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

DRIVER_CONTEXT_GIB = {"fp32": 1.66, "amp": 1.1}
"""Comfortable use: context + FRAGMENTS x allocated + workspace. fp32 with cuDNN autotuning on the A100;
intervals are the 10th and 90th percentile over families left out of the fit. amp on an H200 under torch 2.11:
median error 1.8 %, 90th percentile 9 % (before, with the figures of fp32, 6.8 and 18)."""

OVERFULL = 1.02
"""A step that ran out of memory wanted at least this much of what there was."""

FLOOR_SHARE = 0.02
"""No learned interval is narrower than 2 % either way."""

DETECTOR_SPREAD = 0.3
"""Either way, of about eight in ten public peaks of detectors (24 of detectron2 and OpenMMLab, predicted
13 % too low at the median): frameworks freeze other layers and match other numbers of boxes."""
USUAL_SPREAD = 0.07
"""Of a size that was traced, either way."""

EXTRAPOLATED_SPREAD = {"two sizes": 0.07, "one size": 0.2}
"""Beside it, for each doubling of the positions beyond the largest size traced: 95 in 100 of texts' networks
at twice their length by two other sizes, and by one (pictures: 0.01 and 0.03; YOLO12 by one size 0.27)."""
_DETECTORS = frozenset({"fasterrcnn", "maskrcnn", "retinanet", "fcos", "ssd"})

HOST_RUNTIME_GIB = 0.6
"""A Python process with PyTorch loaded, for devices without a context of their own."""


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Peak of one training step in GiB, in the three senses above; each with its central 80 % interval."""

    allocated_gib: Estimate
    reserved_gib: Estimate
    driver_gib: Estimate


@dataclass(frozen=True, slots=True)
class PeakCurve:
    """GiB at each batch: median of live tensors, median and 90th percentile of what the driver shows, and how
    much more that is where gradients accumulate: those of the batches before stand while a batch runs."""

    allocated: Floats
    driver: Floats
    driver_high: Floats
    accumulated: Floats


@dataclass(frozen=True, slots=True)
class _Band:
    """An `Estimate` at each batch, of one profile or of n: then arrays of shape (n, batches), n of (n, 1)."""

    value: Floats
    low: Floats
    high: Floats
    basis: str
    grade: Grade = "estimated"
    n: NDArray[np.int64] | int = 0

    def at(self, place: int) -> Estimate:
        value, low, high = (float(each[place]) for each in (self.value, self.low, self.high))
        return Estimate(value, low, high, self.grade, int(self.n), self.basis)


_Bands = tuple[_Band, _Band, _Band]
"""Allocated, reserved, driver."""


def peak_memory(profile: Profile, batch_size: int, device: TargetDevice, config: StepConfig) -> PeakMemory:
    """Peak memory of a step of `batch_size` samples; InvalidInput for a batch below one.

    On a card that it would overfill, reserved and driver are what it would take on a larger one.
    """
    if batch_size < 1:
        error = FieldError("batch_size", "at least 1", batch_size)
        raise InvalidInput(f"The batch size must be at least 1, got {batch_size}", [error])
    return PeakMemory(*(band.at(0) for band in _peaks(profile, (batch_size,), device, config)))


def driver_peaks(
    profile: Profile, batches: Sequence[int], device: TargetDevice, config: StepConfig
) -> list[Estimate]:
    """`driver_gib` of `peak_memory` at several batches, rising."""
    refused = None
    if device.learned is not None:
        key = prediction_key(profile, device, config)
        refused = device.learned.peaks_of(key, device.usable_gib).bounds.refused
    ran = sum(refused is None or batch < refused for batch in batches)
    parts = [(part, _peaks(profile, part, device, config)) for part in (batches[:ran], batches[ran:]) if part]
    return [bands[2].at(place) for part, bands in parts for place in range(len(part))]


def allocated_limit_gib(device: TargetDevice, confidence: Confidence = "p90") -> float:
    """Live tensor GiB that fit into what a process can get of the device's memory."""
    overhead = device.memory_overhead
    if device.kind != "cuda":
        base, ratio = (overhead.base_gib, overhead.ratio or 1.0) if overhead else (HOST_RUNTIME_GIB, 1.0)
        return max(0.0, device.usable_gib - base) / ratio * LIMIT_MARGIN[confidence]
    context = overhead.base_gib if overhead else CONTEXT_GIB
    return max(0.0, device.usable_gib - context) / TIGHT_FRAGMENTS * LIMIT_MARGIN[confidence]


def _peaks(profile: Profile, batches: Sequence[int], device: TargetDevice, config: StepConfig) -> _Bands:
    """Either all batches ran out of memory on this device before, or none."""
    batch = np.asarray(batches, dtype=np.float64)
    points, basis = training_points(profile, config.stack == "torch1"), "trace + optimizer state"
    if config.mode == "infer":
        points, basis = profile.inference_peak or profile.peak, "traced forward pass"
        config = replace(config, optimizer="none")
    fixed = np.array([point.fixed_bytes for point in points], dtype=np.float64)[:, None]
    slope = np.array([point.per_sample_bytes for point in points], dtype=np.float64)[:, None]
    live = (fixed + slope * batch).max(axis=0, initial=step_bytes(profile, config.optimizer))
    allocated = (live + optimizer_bytes(profile.params, config.optimizer)) / GIB
    beside = workspace_bytes(profile, 1, config.precision) * batch / GIB, profile.holes_bytes * batch / GIB
    bands = _widened(_as_seen(allocated, *beside, device, config.precision, basis), _spread_of(profile))
    if device.learned is None:
        return bands
    learned = device.learned.peaks_of(prediction_key(profile, device, config), device.usable_gib)
    if learned.is_empty:
        return bands
    refused = learned.bounds.refused
    refused = None if refused is None or not (batch >= refused).all() else refused
    return _as_learned(bands, device, learned.of, batch, learned.bounds.proven, refused)


def peak_curves(
    stack: ProfileStack,
    batches: Sequence[int],
    device: TargetDevice,
    precision: str,
    subjects: PredictionKeys,
    proven: Floats,
) -> PeakCurve:
    """Peaks of training steps of many profiles at once, at batches that did not run out of memory on this
    device: arrays of shape (n, batches).

    subjects   of each profile on the device; proven: the largest batch that ran there, shape (n,)
    """
    batch = np.asarray(batches, dtype=np.float64)
    points = stack.point_fixed[:, None] + stack.point_slope[:, None] * batch
    live = np.maximum.reduceat(points, stack.points.starts, axis=0)
    state, step = stack.optimizer_bytes[:, None], stack.step_bytes[:, None]
    allocated = (np.maximum(live, step) + state) / GIB
    kept = (np.maximum(live + 4.0 * stack.params[:, None], step) + state) / GIB
    kinds = precision_class(precision), "holes"
    workspace, holes = (stack.workspace_bytes[kind][:, None] / GIB * batch for kind in kinds)
    spread = np.array([_spread_of(profile) for profile in stack.profiles])
    bands = _widened(_as_seen(allocated, workspace, holes, device, precision, ""), spread[:, None])
    if device.learned is not None:
        learned = device.learned.memories_of(subjects)
        bands = _as_learned(bands, device, learned, batch, proven[:, None], None)
    more = (kept - allocated) * FRAGMENTS[precision_class(precision)]
    return PeakCurve(bands[0].value, bands[2].value, bands[2].high, more)


def _as_seen(
    allocated: Floats, workspace: Floats, holes: Floats, device: TargetDevice, precision: str, basis: str
) -> _Bands:
    live = _Band(allocated, allocated * 0.985, allocated * 1.02, basis)
    overhead = device.memory_overhead
    if device.kind != "cuda":
        if overhead is None:
            total = allocated + HOST_RUNTIME_GIB
            process = _Band(total, total * 0.9, total * 1.2, f"{basis} + runtime")
            return live, process, process
        grown = allocated * (overhead.ratio or 1.0)
        total, how = overhead.base_gib + grown, f"{basis} + measured runtime and allocator"
        low = np.maximum(allocated, total - 0.05 * overhead.base_gib - 0.25 * grown)
        high = total + 0.05 * overhead.base_gib + 0.3 * grown
        process = _Band(total, np.minimum(low, total), high, how)
        return live, process, process
    measured = overhead is not None and overhead.workspace_share is not None
    share = overhead.workspace_share if overhead and overhead.workspace_share is not None else 1.0
    kind = precision_class(precision)
    reserved = allocated * FRAGMENTS[kind] + holes + workspace * share
    how = f"{basis} + allocator + cuDNN workspace{' as measured' if measured else ''}"
    reserve = _Band(reserved, np.maximum(allocated, reserved * 0.94), reserved * 1.08, how)
    driver = reserved + (overhead.base_gib + LIBRARIES_GIB[kind] if overhead else DRIVER_CONTEXT_GIB[kind])
    how = f"{how} + {'measured ' if overhead else ''}context"
    return live, reserve, _Band(driver, np.maximum(allocated, driver * 0.942), driver * 1.074, how)


def _spread_of(profile: Profile) -> float:
    known = float(profile.extra.get("memory_spread") or 0.0)
    if profile.model.partition("/")[0] in _DETECTORS:
        known = DETECTOR_SPREAD
    small, large = profile.extra.get("interpolated_from", (0, 0))
    doublings = log2(growth_beyond(profile))
    more = doublings * EXTRAPOLATED_SPREAD["one size" if small == large else "two sizes"]
    return max(known, USUAL_SPREAD) + more if more else known


def _widened(bands: _Bands, spread: Floats | float) -> _Bands:
    """Intervals at least so wide either way, as a share."""
    if not np.any(spread):
        return bands

    def widened(band: _Band) -> _Band:
        low = np.minimum(band.low, band.value * (1.0 - spread))
        return replace(band, low=low, high=np.maximum(band.high, band.value * (1.0 + spread)))

    live, reserved, driver = bands
    return widened(live), widened(reserved), widened(driver)


def _as_learned(
    bands: _Bands,
    device: TargetDevice,
    learned: Mapping[Reading, MemoryCorrection | None],
    batch: Floats,
    proven: Floats | int,
    refused: int | None,
) -> _Bands:
    """The same peaks as observed runs would have them; allocated <= reserved <= driver still holds.

    What was learned holds; a figure nobody observed gives way to it: a larger one keeps its distance.
    """
    predicted = bands[0].value
    live, reserved, driver = (
        _shifted(band, learned[reading], predicted) for band, reading in zip(bands, READINGS, strict=True)
    )
    for_caching, for_context = bands[1].value - predicted, bands[2].value - bands[1].value
    observed = np.maximum(live.n, reserved.n)
    reserved = _raised(reserved, live, for_caching, reserved.n < observed)
    driver = _raised(driver, reserved, for_context, driver.n < observed)
    if refused is not None:
        driver = _at_least(driver, device.usable_gib * OVERFULL, f"ran out of memory at batch {refused}")
    elif (ran := batch <= proven).any():
        reserved, driver = (_at_most(band, device.usable_gib, ran) for band in (reserved, driver))
        live = _at_most(live, allocated_limit_gib(device), ran)
    reserved = _at_most(reserved, driver.value, reserved.n < driver.n)
    live = _at_most(live, reserved.value, live.n < np.maximum(reserved.n, driver.n))
    reserved = _raised(reserved, live)
    return live, reserved, _raised(driver, reserved)


def _shifted(baseline: _Band, learned: MemoryCorrection | None, allocated: Floats) -> _Band:
    if learned is None:
        return baseline
    value = np.maximum(baseline.value + learned.shift_gib(allocated), 0.1 * baseline.value)
    floor = FLOOR_SHARE * value
    half = np.maximum(SD_OF_P90 * learned.sd_gib(allocated), floor)
    low = value - np.minimum(half, np.maximum(baseline.value - baseline.low, floor))
    high = value + np.minimum(half, np.maximum(baseline.high - baseline.value, floor))
    seen = np.asarray(learned.n) > 0  # of the others nothing is known better
    return _Band(
        np.where(seen, value, baseline.value),
        np.where(seen, low, baseline.low),
        np.where(seen, high, baseline.high),
        f"{baseline.basis} + {learned.basis}",
        "measured" if learned.exact else "estimated",
        learned.n,
    )


def _at_least(band: _Band, gib: float, why: str) -> _Band:
    value = np.maximum(band.value, gib)
    low, high = np.maximum(band.low, gib), np.maximum(band.high, value)
    return _Band(value, low, high, f"{band.basis}; {why}", band.grade, np.maximum(band.n, 1))


def _at_most(band: _Band, gib: Floats | float, where: NDArray[np.bool_] | bool) -> _Band:
    over = np.logical_and(band.high > gib, where)
    value = np.where(over, np.minimum(band.value, gib), band.value)
    low = np.where(over, np.minimum(band.low, value), band.low)
    high = np.where(over, np.minimum(band.high, np.maximum(gib, value)), band.high)
    return replace(band, value=value, low=low, high=high)


def _raised(
    outer: _Band, inner: _Band, apart: Floats | float = 0.0, where: NDArray[np.bool_] | bool = True
) -> _Band:
    """The outer peak at least `apart` GiB above the inner one."""
    low, value, high = inner.low + apart, inner.value + apart, inner.high + apart
    less = np.logical_and(outer.value < value, where)
    return replace(
        outer,
        value=np.where(less, value, outer.value),
        low=np.where(less, np.maximum(outer.low, low), outer.low),
        high=np.where(less, np.maximum(outer.high, high), outer.high),
    )
