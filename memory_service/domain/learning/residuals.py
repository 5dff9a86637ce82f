"""Residuals of one quantity, observed beside predicted, at every level that observations share: the mechanism
of time and of each reading of the peak; and how much runs of one case differ, learned from repeats."""

from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Sequence
from math import sqrt

import numpy as np

from memory_service.domain.learning.hierarchy import Hierarchy, MatchedObservation, is_own, level_keys, where
from memory_service.domain.learning.shrinkage import (
    FREEDOM,
    Floats,
    Loadings,
    Posterior,
    equal_shares,
    posterior_of,
    without_outliers,
)


class Residuals(ABC):
    """Everything observed of one quantity, solved once.

    told   observations that tell of it; lone: devices on which only one network was observed
    """

    def __init__(self, told: Sequence[MatchedObservation], lone: Container[str]) -> None:
        self._lone, self._rows = lone, dict[Hashable, Loadings]()
        rows, values = [self._row(one) for one in told], [self._residual(one) for one in told]
        noise = [self._usual_sd(one) for one in told]
        far = [self._far(one, row) for one, row in zip(told, rows, strict=True)]
        runs = [one.observation.run_id or i for i, one in enumerate(told)]
        places, reporters = [where(one) for one in told], [one.observation.reporter for one in told]
        cases = [one.key for one in told]
        self._posterior, out = without_outliers(rows, values, noise, far, places, cases, runs, reporters)
        self.aside = tuple(told[i].observation for i in out)
        near = [i for i in range(len(told)) if i not in set(out)]
        used = [near[k] for k in equal_shares([(cases[i], reporters[i], values[i]) for i in near])]
        if used != near:
            self._posterior = posterior_of(rows, values, noise, used)
        counted, values = [told[i] for i in used], [values[i] for i in used]
        self._noise = RepeatNoise(counted, values, noise := [noise[i] for i in used])
        bounds = self._bounds()
        said = [(one.key, one.observation.reporter, bound) for one, bound in bounds]
        bounds = [bounds[i] for i in equal_shares(said)]
        if bounds or self._noise.sds != noise:
            counted += [one for one, _ in bounds]
            values += [bound for _, bound in bounds]
            noise = [*self._noise.sds, *(self._usual_sd(one) for one, _ in bounds)]
            self._posterior = Posterior([self._row(one) for one in counted], values, noise, FREEDOM)
        self._levels = Hierarchy(counted, lone)

    def _bounds(self) -> list[tuple[MatchedObservation, float]]:
        """What others say it is at least or at most, where what is expected contradicts it."""
        return []

    def _mean(self, row: Loadings) -> float:
        return 0.0 if self._posterior is None else self._posterior.mean(row)

    def _row(self, one: MatchedObservation) -> Loadings:
        """The same one for all observations of a case at one batch."""
        key = id(one.key), id(one.baseline), is_own(one.observation)
        if key not in self._rows:
            self._rows[key] = self._loadings(one)
        return self._rows[key]

    @abstractmethod
    def _residual(self, one: MatchedObservation) -> float: ...

    @abstractmethod
    def _usual_sd(self, one: MatchedObservation) -> float:
        """How much a run of a case is off beside another, as long as no repeats say."""

    @abstractmethod
    def _far(self, one: MatchedObservation, row: Loadings) -> float:
        """A residual beyond is set aside until runs agree."""

    @abstractmethod
    def _loadings(self, one: MatchedObservation) -> Loadings: ...


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
