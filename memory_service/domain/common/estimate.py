"""Estimates: a value with its interval, grade, count and basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

SD_OF_P90 = 1.2816
"""Distance of a normal distribution's 90th percentile from its median, in standard deviations."""

Grade = Literal["measured", "estimated", "claimed"]
"""A lower grade, further right, never overrides a higher one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its central 80 % interval.

    value   the best single figure (median)
    low     10th percentile; high: 90th percentile. low <= value <= high
    grade   measured > estimated > claimed
    n       observations behind it (0 for a pure computation)
    basis   how it was made, in words: "profile x data sheet rates", "calibration 7f3a", ...
    """

    value: float
    low: float
    high: float
    grade: Grade = "estimated"
    n: int = 0
    basis: str = ""

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit or multiplied by an exact, non-negative number."""
        value, low, high = self.value * factor, self.low * factor, self.high * factor
        return Estimate(value, low, high, self.grade, self.n, self.basis)

    def reciprocal(self, factor: float) -> Estimate:
        """factor / self: throughput from time. Bounds swap."""
        value, low, high = factor / self.value, factor / self.high, factor / self.low
        return Estimate(value, low, high, self.grade, self.n, self.basis)

    def as_dict(self, digits: int = 4) -> dict[str, Any]:
        """The wire form `{value, low, high, grade, n, basis}`, rounded to significant digits."""
        value, low, high = (float(f"{part:.{digits}g}") for part in (self.value, self.low, self.high))
        told = {"grade": self.grade, "n": self.n, "basis": self.basis}
        return {"value": value, "low": low, "high": high, **told}
