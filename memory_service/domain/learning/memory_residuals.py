"""Residuals of peak memory in GiB at every level, each reading apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.learning.baseline_prediction import PredictionKey
from memory_service.domain.learning.hierarchy import Hierarchy, MatchedObservation, is_own, level_keys, where
from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.outlier_filter import without_outliers
from memory_service.domain.learning.shrinkage import Floats, Loadings

Reading = Literal["allocated", "reserved", "driver"]
READINGS: tuple[Reading, ...] = ("allocated", "reserved", "driver")

MEMORY_SD_GIB = {"card": 0.05, "device": 0.3, "here": 0.1, "case": 0.1}
MEMORY_SHARE_SD = {"card": 0.005, "device": 0.01, "family": 0.03, "here": 0.03, "model": 0.02, "case": 0.015}
MEMORY_NOISE_GIB = 0.03
MEMORY_NOISE_SHARE = 0.02
"""Of peaks: GiB whatever the batch (context, libraries: 0.3 to 1 GiB between drivers, docs/accuracy.md) and
shares of what the step allocates (workspaces, caching). Set on the A100 table: `benchmarks/observe.py`."""

FAR_GIB = 2.0
FAR_SHARE = 2.0
"""A peak is far beyond 2 GiB and thrice the prediction."""


@dataclass(frozen=True, slots=True)
class MemoryCorrection:
    """Add fixed_gib + share x allocated GiB to a predicted peak. Other fields as in `TimeCorrection`."""

    fixed_gib: float
    share: float
    covariance: tuple[float, float, float]
    n: int
    basis: str
    exact: bool

    def shift_gib(self, allocated_gib: Floats) -> Floats:
        return self.fixed_gib + self.share * allocated_gib

    def sd_gib(self, allocated_gib: Floats) -> Floats:
        """What remains unsure at a predicted allocation."""
        fixed, both, share = self.covariance
        return np.sqrt(np.maximum(fixed + 2.0 * both * allocated_gib + share * allocated_gib**2, 0.0))


class MemoryPosterior:
    """Everything observed of one reading of the peak, solved once."""

    def __init__(self, matched: Sequence[MatchedObservation], reading: Reading) -> None:
        observed = [
            replace(s, key=for_memory(s.key)) for s in matched if _peak(s.observation, reading) is not None
        ]
        known: dict[Hashable, Loadings] = {}
        rows = [_row(s, known) for s in observed]
        predicted = [_baseline_peak(s, reading) for s in observed]
        values = [
            float(_peak(s.observation, reading) or 0.0) - p for s, p in zip(observed, predicted, strict=True)
        ]
        noise = [MEMORY_NOISE_GIB + MEMORY_NOISE_SHARE * p for p in predicted]
        far = [max(FAR_GIB, FAR_SHARE * p) for p in predicted]
        runs = [s.observation.run_id or i for i, s in enumerate(observed)]
        self._posterior, aside = without_outliers(
            rows, values, noise, far, [where(s) for s in observed], runs
        )
        self._levels = Hierarchy(s for i, s in enumerate(observed) if i not in set(aside))

    def correction(self, subject: PredictionKey) -> MemoryCorrection | None:
        n, basis, exact = self._levels.closest(subject)
        if self._posterior is None or not n:
            return None
        fixed, share = _fixed_row(subject, True), _share_row(subject, True, 1.0)
        slope = max(-0.5, self._posterior.mean(share))
        covariance = self._posterior.covariance(fixed, share)
        return MemoryCorrection(self._posterior.mean(fixed), slope, covariance, n, basis, exact)


def for_memory(s: PredictionKey) -> PredictionKey:
    """Memory follows the class of precision and whether gradients are included, not layout or speed."""
    return replace(s, config=StepConfig(precision_class(s.config.precision), mode=s.config.mode))


def _baseline_peak(one: MatchedObservation, reading: Reading) -> float:
    """PyTorch counts cuDNN's workspace as allocated while it lives, so anything from live tensors alone to
    all that is reserved agrees with the prediction."""
    if reading == "allocated":
        peak = one.observation.peak_allocated_gib or 0.0
        return min(
            max(peak, one.baseline.allocated_gib), max(one.baseline.reserved_gib, one.baseline.allocated_gib)
        )
    return one.baseline.reserved_gib if reading == "reserved" else one.baseline.driver_gib


def _row(one: MatchedObservation, known: dict[Hashable, Loadings]) -> Loadings:
    """The same one for all observations of a case at one batch."""
    key = (one.key, one.baseline.allocated_gib, is_own(one.observation))
    if key not in known:
        fixed = _fixed_row(one.key, key[2])
        known[key] = {**fixed, **_share_row(one.key, key[2], one.baseline.allocated_gib)}
    return known[key]


def _fixed_row(subject: PredictionKey, own: bool) -> dict[Hashable, float]:
    keys = level_keys(subject, own)
    return {("gib", keys[level]): sd for level, sd in MEMORY_SD_GIB.items() if level in keys}


def _share_row(subject: PredictionKey, own: bool, allocated_gib: float) -> dict[Hashable, float]:
    keys = level_keys(subject, own)
    return {
        ("share", keys[level]): sd * allocated_gib
        for level, sd in MEMORY_SHARE_SD.items() if level in keys
    }  # fmt: skip


def _peak(o: Observation, reading: Reading) -> float | None:
    gib = {"allocated": o.peak_allocated_gib, "reserved": o.peak_reserved_gib, "driver": o.peak_driver_gib}[
        reading
    ]
    return gib if gib is not None and 0.0 < gib < inf else None
