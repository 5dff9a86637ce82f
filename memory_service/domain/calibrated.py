"""What do calibrations say of a device beyond its data sheet, and how far may it be trusted?

Order of trust: the device's own calibration, then those of the same GPU model, then those of the same
architecture scaled by data sheet. Each level corrects the one below it, so that a calibration that lacks
sections still stands on the best that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_service.domain.calibration import Calibration
from memory_service.domain.gpu import Gpu
from memory_service.domain.profile import Profile
from memory_service.domain.rates import Rates

__all__ = ["CalibratedRates", "Origin", "calibrated_rates", "self_check"]

Origin = Literal["device", "model", "architecture"]


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedRates:
    """Attached to `Gpu.calibrated`; `domain.rates.rates_of` applies it.

    origin       whose calibrations these are; n: how many of them
    basis        the same in words, for every answer that stands on it
    log_spread   distance of the 10th and 90th percentile from the median, as logarithm of step time
    context_gib  driver's memory of a process before its first tensor; None = not measured
    process_gib  host memory of a process with torch loaded, before the model; None = not measured
    loader       workers -> images/s measured, as `domain.loader` explains; empty = not measured
    tree_factor  time of tree building / what `domain.trees` says for these cores; None = not measured
    sustained    speed after minutes of load / at first (1 = no throttling); None = not measured
    """

    origin: Origin
    n: int
    basis: str
    log_spread: float
    context_gib: float | None = None
    process_gib: float | None = None
    loader: Mapping[int, float] = field(default_factory=dict)
    tree_factor: float | None = None
    sustained: float | None = None

    def applied(self, rates: Rates, precision: str, layout: str) -> Rates:
        """The data sheet's rates corrected by what was measured."""
        return rates


def calibrated_rates(
    own: Calibration | None,
    same_model: Sequence[Calibration],
    same_architecture: Sequence[tuple[Gpu, Calibration]],
    gpu: Gpu,
    reference_profiles: Iterable[Profile],
) -> CalibratedRates | None:
    """What the usable calibrations say of `gpu`; None where there is none.

    own                 newest usable calibration of this very device
    same_model          of other devices of the same GPU model, without `own`
    same_architecture   of other models, each with its data sheet
    gpu                 the data sheet, `calibrated` not set; a processor with the cores of its fingerprint
    reference_profiles  of the three reference networks
    """
    return None


def self_check(
    calibration: Calibration, gpu: Gpu, reference_profiles: Iterable[Profile]
) -> Mapping[str, Any]:
    """Each reference network predicted without its own measurement.

    {"median_error_percent": float | None, "networks": [{"name", "predicted_ms", "measured_ms",
    "error_percent"}]}
    """
    return {"median_error_percent": None, "networks": []}
