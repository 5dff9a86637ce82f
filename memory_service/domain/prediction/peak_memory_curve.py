"""Peak memory at every batch of a ladder: `domain.prediction.device_memory.peak_memory` over arrays.

The same law over arrays, without words: a table of options asks for thousands of peaks at a time. That both
agree is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import SD_OF_P90
from memory_service.domain.cost.memory import GIB, optimizer_bytes, step_bytes, workspace_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.learning.baseline_prediction import prediction_key
from memory_service.domain.learning.corrections import LearnedPeaks, MemoryCorrection
from memory_service.domain.prediction import device_memory as memory
from memory_service.domain.prediction.device import TargetDevice

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PeakCurve:
    """GiB at each batch: median of live tensors, median and 90th percentile of what the driver shows."""

    allocated: Floats
    driver: Floats
    driver_high: Floats


@dataclass(frozen=True, slots=True)
class _Band:
    """Median and 90th percentile of one reading; n: observations behind it."""

    value: Floats
    high: Floats
    n: int = 0


def peak_curve(
    profile: Profile, batches: Sequence[int], device: TargetDevice, config: StepConfig
) -> PeakCurve:
    """Peaks of a training step at batches that did not run out of memory on this device
    (`Bounds.refused`)."""
    batch = np.asarray(batches, dtype=np.float64)
    allocated = _allocated_gib(profile, batch, config.optimizer)
    workspace = batch * (workspace_bytes(profile, 1, config.precision) / GIB)
    live, reserved, driver = _as_seen(allocated, workspace, device)
    if device.learned is not None:
        learned = device.learned.peaks_of(prediction_key(profile, device, config), device.usable_gib)
        if not learned.is_empty:
            live, reserved, driver = _as_learned((live, reserved, driver), learned, batch, device)
    return PeakCurve(live.value, driver.value, driver.high)


def _allocated_gib(profile: Profile, batch: Floats, optimizer: str) -> Floats:
    fixed = np.array([point.fixed_bytes for point in profile.peak], dtype=np.float64)
    slope = np.array([point.per_sample_bytes for point in profile.peak], dtype=np.float64)
    live = (fixed[:, None] + slope[:, None] * batch).max(axis=0, initial=0.0)
    state = optimizer_bytes(profile.params, optimizer)
    return np.asarray((np.maximum(live, step_bytes(profile, optimizer)) + state) / GIB)


def _as_seen(allocated: Floats, workspace: Floats, device: TargetDevice) -> tuple[_Band, _Band, _Band]:
    live = _Band(allocated, allocated * 1.02)
    overhead = device.memory_overhead
    if device.kind != "cuda":
        if overhead is None:
            total = allocated + memory.HOST_RUNTIME_GIB
            process = _Band(total, total * 1.2)
        else:
            grown = allocated * (overhead.ratio or 1.0)
            total = overhead.base_gib + grown
            process = _Band(total, total + 0.05 * overhead.base_gib + 0.3 * grown)
        return live, process, process
    share = overhead.workspace_share if overhead and overhead.workspace_share is not None else 1.0
    reserved = allocated * memory.DRIVER_FRAGMENTS + workspace * share
    driver = reserved + (overhead.base_gib if overhead else memory.DRIVER_CONTEXT_GIB)
    return live, _Band(reserved, reserved * 1.08), _Band(driver, driver * 1.074)


def _as_learned(
    baseline: tuple[_Band, _Band, _Band], learned: LearnedPeaks, batch: Floats, device: TargetDevice
) -> tuple[_Band, _Band, _Band]:
    predicted = baseline[0].value
    live = _shifted(baseline[0], learned.allocated, predicted)
    reserved = _shifted(baseline[1], learned.reserved, predicted)
    driver = _shifted(baseline[2], learned.driver, predicted)
    ran = batch <= learned.bounds.proven
    if ran.any():
        reserved, driver = (
            _at_most(reserved, device.usable_gib, ran),
            _at_most(driver, device.usable_gib, ran),
        )
        live = _at_most(live, memory.allocated_limit_gib(device), ran)
    if reserved.n < driver.n:
        reserved = _at_most(reserved, driver.value)
    if live.n < max(reserved.n, driver.n):
        live = _at_most(live, reserved.value)
    reserved = _raised(reserved, live)
    return live, reserved, _raised(driver, reserved)


def _shifted(baseline: _Band, learned: MemoryCorrection | None, allocated: Floats) -> _Band:
    if learned is None:
        return baseline
    fixed, both, share = learned.covariance
    sd = np.sqrt(np.maximum(fixed + 2.0 * both * allocated + share * allocated**2, 0.0))
    value = np.maximum(baseline.value + learned.fixed_gib + learned.share * allocated, 0.1 * baseline.value)
    floor = memory.FLOOR_SHARE * value
    half = np.maximum(SD_OF_P90 * sd, floor)
    return _Band(
        value, value + np.minimum(half, np.maximum(baseline.high - baseline.value, floor)), learned.n
    )


def _at_most(band: _Band, gib: Floats | float, where: NDArray[np.bool_] | bool = True) -> _Band:
    over = np.logical_and(band.high > gib, where)
    value = np.where(over, np.minimum(band.value, gib), band.value)
    return _Band(value, np.where(over, np.minimum(band.high, np.maximum(gib, value)), band.high), band.n)


def _raised(outer: _Band, inner: _Band) -> _Band:
    less = outer.value < inner.value
    return _Band(
        np.where(less, inner.value, outer.value),
        np.where(less, np.maximum(outer.high, inner.high), outer.high),
        outer.n,
    )
