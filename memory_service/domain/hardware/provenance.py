"""On what do a card's predictions stand? Which calibration, of when, and which ones are not used and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Ground"]


@dataclass(frozen=True, slots=True)
class Ground:
    """The calibrations behind a card, for people.

    calibration   id of the device's own one that is used; "" where the rates come from elsewhere
    measured_at   when it began (UTC, ISO 8601)
    basis         what the rates stand on, in words; n: calibrations behind them, 0 for the data sheet alone
    observations  observed runs of this very device
    set_aside     sentences on calibrations that are not used: stale, contended
    """

    calibration: str = ""
    measured_at: str = ""
    basis: str = "data sheet x fitted efficiencies"
    n: int = 0
    observations: int = 0
    set_aside: tuple[str, ...] = ()

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
