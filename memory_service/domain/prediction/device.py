"""A device to predict for: the data sheet with what calibrations and observed runs add to it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from memory_service.domain.calibration.corrected_rates import CalibratedRates
from memory_service.domain.calibration.memory_overhead import MemoryOverhead
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.corrections import LearnedCorrections


@dataclass(frozen=True, slots=True)
class Provenance:
    """The calibrations behind a device's figures, for people.

    calibration   id of the device's own one that is used; "" where the rates come from elsewhere
    measured_at   when it began (UTC, ISO 8601)
    basis         what the rates stand on, in words; n: calibrations behind them, 0 for the data sheet alone
    observations  observed runs of this very device
    set_aside     sentences on calibrations that are not used: stale, contended
    unconfirmed   the device's name, where another key than the one that registered it said what it is
    """

    calibration: str = ""
    measured_at: str = ""
    basis: str = "data sheet x fitted efficiencies"
    n: int = 0
    observations: int = 0
    set_aside: tuple[str, ...] = ()
    unconfirmed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The `calibration` part of an answer's `gpu`."""
        return {
            "id": self.calibration or None,
            "measured_at": self.measured_at or None,
            "basis": self.basis,
            "n": self.n,
            "observations": self.observations,
            "set_aside": list(self.set_aside),
        }


@dataclass(frozen=True, slots=True)
class TargetDevice(Gpu):
    """A GPU model or registered device as predictions see it.

    calibrated   corrections of the data sheet's rates by calibrations; None = the data sheet alone
    learned      corrections of predictions by observed runs; None = no runs
    provenance   the calibrations behind it; None for a GPU model that nobody calibrated
    """

    calibrated: CalibratedRates | None = None
    learned: LearnedCorrections | None = None
    provenance: Provenance | None = None

    @property
    def memory_overhead(self) -> MemoryOverhead | None:
        """What a process holds beyond its live tensors, as measured; None = not measured."""
        return None if self.calibrated is None else self.calibrated.memory


def target_device(
    spec: Gpu, calibrated: CalibratedRates | None = None, provenance: Provenance | None = None
) -> TargetDevice:
    """The device of a data sheet, before anything is learned from runs."""
    figures = {f.name: getattr(spec, f.name) for f in fields(Gpu)}
    return TargetDevice(**figures, calibrated=calibrated, provenance=provenance)


def provenance_warnings(devices: Iterable[TargetDevice]) -> list[Sentence]:
    """Calibrations that the figures do not stand on though somebody may think so, and devices of which
    nobody who registered them said what they are."""
    known = [device.provenance for device in devices if device.provenance]
    doubted = [sentence("device-unconfirmed", device=each.unconfirmed) for each in known if each.unconfirmed]
    notes = [text for each in known for text in each.set_aside]
    return doubted + [sentence("calibration-not-used", why=text[:1].upper() + text[1:]) for text in notes]
