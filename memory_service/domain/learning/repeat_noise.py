"""How much runs of one case differ, learned from repeats: by default, by device, by case."""

from collections.abc import Hashable, Sequence
from math import sqrt

import numpy as np

from memory_service.domain.learning.hierarchy import MatchedObservation, is_own, level_keys, where
from memory_service.domain.learning.shrinkage import Floats

LEAST_REPEATS = 3.0
"""So many repeats weigh as much as what was known before them: of a device beside the usual noise, of a case
beside its device. Of 3 the standard deviation is known within a factor of 1.5 (chi-squared, middle 80 %)."""

OUTLIER_SDS = 3.0
"""A repeat further from its case's median (and the median of all deviations) is an outlier, not noise: of a
Gaussian one in 370. The tails of the posterior take what it says of the case."""


MAD_OF_SD = 0.6745
"""The median absolute deviation of a Gaussian of standard deviation 1."""


class RepeatNoise:
    """Variance from run to run, as a multiple of the usual one, which says how it falls with what was timed.

    matched, values, usual   observations with their residuals and the usual standard deviations of those
    """

    def __init__(
        self, matched: Sequence[MatchedObservation], values: Sequence[float], usual: Sequence[float]
    ) -> None:
        repeats: dict[str, dict[Hashable, dict[int, list[int]]]] = {}
        for i, one in enumerate(matched):
            if is_own(one.observation):
                batch = 0 if one.key.part == "fit" else one.observation.batch_size
                cases = repeats.setdefault(where(one), {})
                cases.setdefault(level_keys(one.key, True)["case"], {}).setdefault(batch, []).append(i)
        self._times: dict[Hashable, float] = {}
        self._usual: dict[Hashable, float] = {}
        value, sd = np.asarray(values, dtype=np.float64), np.asarray(usual, dtype=np.float64)
        for place, cases in repeats.items():
            apart = {case: [value[b] / sd[b] for b in of.values()] for case, of in cases.items()}
            self._times[place] = here = _times(1.0, [each for of in apart.values() for each in of])
            for case, of in cases.items():
                self._times[place, case] = _times(here, apart[case])
                self._usual[place, case] = float(np.mean(sd[[i for b in of.values() for i in b]] ** 2))
            self._usual[place] = float(np.mean([self._usual[place, case] for case in cases]))

    @property
    def is_known(self) -> bool:
        """Whether anything was repeated."""
        return any(times != 1.0 for times in self._times.values())

    def sds(self, matched: Sequence[MatchedObservation], usual: Sequence[float]) -> list[float]:
        """Of observations, what they are off by beside all that others have in common with them."""
        found = []
        for one, sd in zip(matched, usual, strict=True):
            keys = where(one), level_keys(one.key, True)["case"]
            found.append(sd * sqrt(self._times.get(keys, 1.0)) if is_own(one.observation) else sd)
        return found

    def variance(self, place: str, case: Hashable, usual: float) -> float:
        """Of the next run. usual: its standard deviation where none was observed there."""
        key = (place, case) if (place, case) in self._times else place
        return self._times[key] * self._usual[key] if key in self._times else usual**2


def _times(before: float, repeats: Sequence[Floats]) -> float:
    """The multiple after repeats of some cases, in usual standard deviations."""
    off = [np.abs(values - np.median(values)) for values in repeats]
    most = OUTLIER_SDS * max(sqrt(before), float(np.median(np.concatenate(off))) / MAD_OF_SD)
    near = [values[each <= most] for values, each in zip(repeats, off, strict=True)]
    squares = sum(float(np.sum((values - values.mean()) ** 2)) for values in near if len(values))
    more = sum(max(len(values) - 1, 0) for values in near)
    return (LEAST_REPEATS * before + squares) / (LEAST_REPEATS + more)
