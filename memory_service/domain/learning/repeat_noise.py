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
    """Noise of observations, whose usual standard deviations say how it falls with what was timed: repeats
    give its multiple.

    sds   of each observation, what it is off by beside all that others have in common with it
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
        value, sd = np.asarray(values, dtype=np.float64), np.asarray(usual, dtype=np.float64)
        self.sds, self._variance = sd.tolist(), dict[Hashable, float]()
        for place, cases in repeats.items():
            apart = {case: [value[at] / sd[at] for at in of.values()] for case, of in cases.items()}
            here, of_cases = _times(1.0, [each for of in apart.values() for each in of]), []
            for case, of in cases.items():
                times, places = _times(here, apart[case]), [i for at in of.values() for i in at]
                for i in places:
                    self.sds[i] *= sqrt(times)
                of_cases.append(float(np.mean(sd[places] ** 2)))
                self._variance[place, case] = times * of_cases[-1]
            self._variance[place] = here * float(np.mean(of_cases))

    def variance(self, place: str, case: Hashable, usual: float) -> float:
        """Of the next run. usual: its standard deviation where none was observed there."""
        found = self._variance.get((place, case), self._variance.get(place))
        return usual**2 if found is None else found


def _times(before: float, repeats: Sequence[Floats]) -> float:
    """The multiple after repeats of some cases, in usual standard deviations."""
    off = [np.abs(values - np.median(values)) for values in repeats]
    most = OUTLIER_SDS * max(sqrt(before), float(np.median(np.concatenate(off))) / MAD_OF_SD)
    near = [values[each <= most] for values, each in zip(repeats, off, strict=True)]
    squares = sum(float(np.sum((values - values.mean()) ** 2)) for values in near if len(values))
    more = sum(max(len(values) - 1, 0) for values in near)
    return (LEAST_REPEATS * before + squares) / (LEAST_REPEATS + more)
