"""Residuals of peak memory in GiB at every level, each reading apart."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.learning.hierarchy import (
    OWN_LEVELS,
    MatchedObservation,
    is_own,
    level_keys,
    lone_devices,
    where,
)
from memory_service.domain.learning.observation import Observation, PredictionKey
from memory_service.domain.learning.residuals import Residuals
from memory_service.domain.learning.shrinkage import Floats, Loadings

Reading = Literal["allocated", "reserved", "driver"]
READINGS: tuple[Reading, ...] = ("allocated", "reserved", "driver")

MEMORY_SD_GIB = {"card": 0.05, "device": 0.3, "here": 0.1, "case": 0.1}
MEMORY_SHARE_SD = {"card": 0.005, "device": 0.01, "family": 0.03, "here": 0.03, "model": 0.02, "case": 0.015}
MEMORY_NOISE_GIB = 0.03
MEMORY_NOISE_SHARE = 0.02
"""Of peaks: GiB whatever the batch (context, libraries: 0.3 to 1 GiB between drivers,
docs/methods/accuracy.md) and shares of what the step allocates (workspaces, caching). Set on the A100 table:
`benchmarks/observe.py`."""

PROCESSOR_NOISE_GIB = 0.01
"""Of a process's memory from run to run: 0.0002 to 0.0054 GiB (docs/methods/learning.md), read every two
seconds, so that a short peak may be missed."""

FAR_GIB = 2.0
FAR_SHARE = 2.0
"""A peak is far beyond 2 GiB and thrice the prediction."""


@dataclass(frozen=True, slots=True)
class MemoryCorrection:
    """Add fixed_gib + share x allocated GiB to a predicted peak. Other fields as in `TimeCorrection`. Of n
    peaks at once the figures are arrays of shape (n, 1)."""

    fixed_gib: Any
    share: Any
    covariance: tuple[Any, Any, Any]
    n: Any
    basis: str = ""
    exact: bool = False

    def shift_gib(self, allocated_gib: Floats) -> Floats:
        shift: Floats = self.fixed_gib + self.share * allocated_gib
        return shift

    def sd_gib(self, allocated_gib: Floats) -> Floats:
        """What remains unsure at a predicted allocation."""
        fixed, both, share = self.covariance
        variance: Floats = fixed + 2.0 * both * allocated_gib + share * allocated_gib**2
        return np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True, slots=True)
class MemorySubjects:
    """Loadings of many subjects, the same for readings observed at the same levels; of subjects that nothing
    tells apart, one stands for all (`place`, shape (n,))."""

    place: NDArray[np.intp]
    levels: Sequence[Sequence[tuple[Any, ...]]]
    fixed: Sequence[Loadings]
    share: Sequence[Loadings]

    @classmethod
    def of(cls, subjects: Iterable[PredictionKey], observed: Container[Hashable]) -> MemorySubjects:
        """observed: keys of levels that anything was observed at."""
        configs: dict[StepConfig, StepConfig] = {}
        kinds: dict[Hashable, int] = {}
        of_kind: list[dict[str, tuple[Any, ...]]] = []
        place = []
        for subject in subjects:
            if subject.config not in configs:
                configs[subject.config] = for_memory(subject).config
            keys = level_keys(subject, True, configs[subject.config])
            keys |= {level: _alone(subject, level) for level in SHARED if keys[level] not in observed}
            kind = kinds.setdefault(tuple(key for key in keys.values() if key in observed), len(kinds))
            if kind == len(of_kind):
                of_kind.append(keys)
            place.append(kind)
        return cls(
            np.array(place, dtype=np.intp),
            [tuple(keys.values()) for keys in of_kind],
            [_fixed_loadings(keys) for keys in of_kind],
            [_share_loadings(keys, 1.0) for keys in of_kind],
        )


class MemoryPosterior(Residuals):
    """Everything observed of one reading of the peak, solved once."""

    def __init__(self, matched: Sequence[MatchedObservation], reading: Reading) -> None:
        self._reading = reading
        keys = {id(s.key): for_memory(s.key) for s in {id(s.key): s for s in matched}.values()}
        told = [s for s in matched if _peak(s.observation, reading) is not None]
        lone = lone_devices(s for s in matched if any(_peak(s.observation, each) for each in READINGS))
        told = [MatchedObservation(s.observation, keys[id(s.key)], s.baseline) for s in told]
        self._alone = {_alone(s.key, level) for s in told if where(s) in lone for level in SHARED}
        super().__init__(told, lone)

    def _residual(self, one: MatchedObservation) -> float:
        return float(_peak(one.observation, self._reading) or 0.0) - _baseline_peak(one, self._reading)

    def _usual_sd(self, one: MatchedObservation) -> float:
        if one.observation.cores is not None:
            return PROCESSOR_NOISE_GIB
        return MEMORY_NOISE_GIB + MEMORY_NOISE_SHARE * _baseline_peak(one, self._reading)

    def _far(self, one: MatchedObservation, row: Loadings) -> float:  # noqa: ARG002
        return max(FAR_GIB, FAR_SHARE * _baseline_peak(one, self._reading))

    def _loadings(self, one: MatchedObservation) -> Loadings:
        own = is_own(one.observation)
        keys = level_keys(one.key, own)
        if where(one) in self._lone:
            keys = {level: each for level, each in keys.items() if level in OWN_LEVELS}
            keys |= {level: _alone(one.key, level) for level in SHARED if own or level != "device"}
        return {**_fixed_loadings(keys), **_share_loadings(keys, one.baseline.allocated_gib)}

    @cached_property
    def observed(self) -> frozenset[Hashable]:
        """Keys of the levels that anything was observed at."""
        return frozenset((*self._levels.keys, *self._alone))

    def correction(self, subject: PredictionKey) -> MemoryCorrection | None:
        n, basis, exact = self._levels.closest(subject)
        of_one = self.corrections(MemorySubjects.of([subject], self.observed)) if n else None
        if of_one is None:
            return None
        fixed, both, share = (each.item() for each in of_one.covariance)
        shift = of_one.fixed_gib.item(), of_one.share.item()
        return MemoryCorrection(*shift, (fixed, both, share), n, basis, exact)

    def corrections(self, subjects: MemorySubjects) -> MemoryCorrection | None:
        """`correction` of many subjects."""
        posterior = self._posterior
        if posterior is None:
            return None
        fixed, fixed_unseen = posterior.weights(subjects.fixed)
        share, share_unseen = posterior.weights(subjects.share)
        fixed_variance, of_fixed = posterior.many_explained(fixed)
        share_variance, of_share = posterior.many_explained(share)
        counts = np.array([self._levels.count(keys) for keys in subjects.levels], dtype=np.int64)
        noise = [self._noise.variance(keys[DEVICE][1], keys[CASE], 0.0) for keys in subjects.levels]
        fixed_unseen = fixed_unseen + np.array(noise)
        place = subjects.place[:, None]
        both = -np.einsum("ij,ij->i", of_fixed, of_share)
        return MemoryCorrection(
            posterior.many_means(fixed)[place],
            np.maximum(-0.5, posterior.many_means(share))[place],
            ((fixed_variance + fixed_unseen)[place], both[place], (share_variance + share_unseen)[place]),
            counts[place],
        )


def for_memory(s: PredictionKey) -> PredictionKey:
    """Memory follows the class of precision and whether gradients are included, not layout, cores or
    speed."""
    return replace(s, config=StepConfig(precision_class(s.config.precision), mode=s.config.mode), cores=None)


def _baseline_peak(one: MatchedObservation, reading: Reading) -> float:
    """PyTorch counts cuDNN's workspace as allocated while it lives, so anything from live tensors alone to
    all that is reserved agrees with the prediction."""
    baseline = one.baseline
    if reading == "allocated":
        least = baseline.allocated_gib
        return min(max(one.observation.peak_allocated_gib or 0.0, least), max(baseline.reserved_gib, least))
    return baseline.reserved_gib if reading == "reserved" else baseline.driver_gib


CASE, DEVICE = 0, 4
"""Places in `level_keys`."""

SHARED = ("device", "card")
"""What all networks there have in common. Where one network was observed alone, its family alone has it."""


def _alone(s: PredictionKey, level: str) -> tuple[Any, ...]:
    return f"{level} of one family", (s.device or s.gpu) if level == "device" else s.gpu, s.family


def _fixed_loadings(keys: Mapping[str, Hashable]) -> dict[Hashable, float]:
    return {("gib", keys[level]): sd for level, sd in MEMORY_SD_GIB.items() if level in keys}


def _share_loadings(keys: Mapping[str, Hashable], allocated_gib: float) -> dict[Hashable, float]:
    return {
        ("share", keys[level]): sd * allocated_gib
        for level, sd in MEMORY_SHARE_SD.items() if level in keys
    }  # fmt: skip


def _peak(o: Observation, reading: Reading) -> float | None:
    gib: float | None = getattr(o, f"peak_{reading}_gib")
    return gib if gib is not None and 0.0 < gib < inf else None
