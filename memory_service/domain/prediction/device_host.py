"""What the processor beside a device takes for fits of estimators and for feeding a network: the laws,
corrected by what observed runs say (`domain.learning.corrections`)."""

from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.boosted_trees import CpuFit, fit_cost
from memory_service.domain.cost.data_loader import loader_samples_per_second
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import PARTS
from memory_service.domain.learning.corrections import LearnedCorrections, MemoryCorrection
from memory_service.domain.learning.observation import (
    BaselinePrediction,
    Observation,
    Part,
    PredictionKey,
    shape_of,
)
from memory_service.domain.learning.shrinkage import Floats
from memory_service.domain.prediction.device import TargetDevice

HOST = StepConfig("fp32")
LEAVES = 31
_NO_SHARES: Floats = np.zeros((1, len(PARTS)))


def device_fit(
    kind: str,
    model: str,
    rows: int,
    columns: int,
    n_classes: int = 1,
    *,
    rounds: object,
    cpu_count: int,
    device: TargetDevice,
) -> CpuFit:
    """Cost of one fit on the processor of the device; other arguments as of `fit_cost`. model: by which runs
    know it."""
    cost = _fit_by_law(kind, rows, columns, n_classes, rounds, cpu_count, device)
    if device.learned is None:
        return cost
    shape = shape_of(rows, n_classes, LEAVES)
    key = _key(device, "fit", model, kind, columns, cpu_count, shape)
    memory = device.learned.memory_of(key, "driver")
    gib = cost.memory_gib if memory is None else _with_shift(cost.memory_gib, memory)
    return CpuFit(
        _corrected(cost.fit_seconds, device.learned, key),
        _corrected(cost.predict_seconds_per_row, device.learned, key),
        gib,
    )


def device_loader(task: str, input_size: int, workers: int, cpu_count: int, device: TargetDevice) -> Estimate:
    """Samples a second of the input pipeline beside the device."""
    timed = device.calibrated.loader if device.calibrated is not None else None
    rate = loader_samples_per_second(task, input_size, workers, cpu_count, measured=timed)
    if device.learned is None:
        return rate
    key = _key(device, "loader", task, modality_of(task), input_size, cpu_count)
    return _corrected(rate.reciprocal(1.0), device.learned, key).reciprocal(1.0)


def host_baseline(o: Observation, device: TargetDevice) -> BaselinePrediction:
    """The baseline prediction for an observation of a fit or a loader."""
    cores, gib = o.cores or 1, 0.0
    if o.part == "fit":
        cost = _fit_by_law(o.family, o.batch_size, o.input_size, o.outputs, o.n, cores, device)
        seconds, gib = cost.fit_seconds.scaled(1.0 / max(o.n, 1)), float(cost.memory_gib.value)
    else:
        loader = replace(device, learned=None)
        seconds = device_loader(o.model, o.input_size, o.batch_size, cores, loader).reciprocal(1.0)
    spread = log(seconds.high / seconds.value) / SD_OF_P90
    shares = tuple(_NO_SHARES[0].tolist())
    return BaselinePrediction(float(seconds.value), shares, spread, gib, gib, gib, device.usable_gib)


def _fit_by_law(
    kind: str, rows: int, columns: int, n_classes: int, rounds: object, cpu_count: int, device: TargetDevice
) -> CpuFit:
    speed = device.calibrated.trees if device.calibrated is not None else None
    return fit_cost(
        kind, rows, columns, n_classes, rounds=rounds, leaves=LEAVES, cpu_count=cpu_count, speed=speed
    )


def _key(
    device: TargetDevice,
    part: Part,
    model: str,
    family: str,
    size: int,
    cores: int,
    shape: tuple[int, ...] = (),
) -> PredictionKey:
    return PredictionKey(device.slug, device.device, model, family, size, False, HOST, cores, part, shape)


def _with_shift(gib: Estimate, learned: MemoryCorrection) -> Estimate:
    """Memory with what runs say; its interval is never wider than it was. Numbers or arrays of them."""
    law: Any = gib.value
    value: Any = np.maximum(law + learned.shift_gib(np.asarray(law)), 0.01 * law)
    half = SD_OF_P90 * learned.sd_gib(np.asarray(law))
    low: Any = np.maximum(value - half, gib.low * value / law)
    high: Any = np.minimum(value + half, gib.high * value / law)
    if np.ndim(law) == 0:
        value, low, high = float(value), float(low), float(high)
    grade = "measured" if learned.exact else gib.grade
    return Estimate(value, low, high, grade, learned.n, f"{gib.basis}; {learned.basis}")


def _corrected(seconds: Estimate, learned: LearnedCorrections, key: PredictionKey) -> Estimate:
    """A time with what runs say; its interval is never wider than it was. Numbers or arrays of them."""
    found = learned.time_of(key, _NO_SHARES, 0.0)
    if found is None:
        return seconds
    factor, half = float(np.exp(found.log_shift[0])), float(np.exp(SD_OF_P90 * found.log_sd[0]))
    value, wider = seconds.value * factor, float(np.exp(np.max(found.wider)))
    return Estimate(
        value,
        np.maximum(seconds.low * factor, value / half) / wider,
        np.minimum(seconds.high * factor, value * half) * wider,
        "measured" if found.exact else seconds.grade,
        found.n,
        f"{seconds.basis} x {found.basis}",
    )
