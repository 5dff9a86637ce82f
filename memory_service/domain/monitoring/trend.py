"""Change points, latches and growth in a series.

All functions take a short series in its own order (tens of values) and cost O(n log n).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

JUMP = 10.0
"""R25 calls within 2 points stable, 4 points over ten epochs normal and 31 at once a change. The bands of the
decision matrix (R23) are ten points wide: a step of that size is another verdict, so it is a change."""

NOISE_TIMES = 5.0
"""And it must stand out: five times the usual difference between neighbours."""

BEFORE, AFTER = 5, 3
STEADY_VALUES = 6
"""Fewer values say nothing of growth."""


@dataclass(frozen=True, slots=True)
class Change:
    """The series moved at `index` (its first value on the new level) from `before` to `after` (medians)."""

    index: int
    before: float
    after: float


def change_point(values: Sequence[float], jump: float = JUMP, confirm: int = 1) -> Change | None:
    """The latest sudden change of level, None where there is none.

    At i: the step from i-1 to i is at least `jump`, so is the distance between the median of up to five
    values before i and that of up to three from i on, and both are `NOISE_TIMES` the median step elsewhere.
    confirm   values that must lie on the new level before it counts; 1 = reported at once
    """
    steps = [abs(b - a) for a, b in pairwise(values)]
    for i in range(len(values) - confirm, 0, -1):
        if steps[i - 1] < jump:
            continue
        others = steps[: i - 1] + steps[i:]
        least = max(jump, NOISE_TIMES * median(others) if others else 0.0)
        before = median(values[max(0, i - BEFORE) : i])
        after = median(values[i : i + AFTER])
        stays = all(abs(value - before) >= least for value in values[i : i + confirm])
        if stays and abs(after - before) >= least and steps[i - 1] >= least:
            return Change(i, before, after)
    return None


def latched(values: Sequence[float], on: float, off: float) -> bool:
    """Hysteresis over a series: true once a value is over `on`, until one is under `off` (off <= on).

    It depends on the series alone, not on when anybody looked at it, so a replay latches alike.
    """
    state = False
    for value in values:
        state = value > on or (state and value >= off)
    return state


def spread_of(values: Sequence[float], least: float) -> float:
    """Relative standard deviation, robust (median absolute deviation / median); `least` for few values."""
    middle = median(values)
    if len(values) < 3 or middle <= 0.0:
        return least
    return max(least, 1.4826 * median(abs(v - middle) for v in values) / middle)


def growth_per_step(values: Sequence[float]) -> float | None:
    """Growth per step from the first to the last value; None where it is not steady.

    Steady: at least `STEADY_VALUES` values, none falls by over a hundredth of the rise, no step makes half of
    it.
    """
    if len(values) < STEADY_VALUES or values[-1] <= values[0]:
        return None
    rise = values[-1] - values[0]
    steps = [b - a for a, b in pairwise(values)]
    if min(steps) < -0.01 * rise or max(steps) > 0.5 * rise:
        return None
    return rise / len(steps)
