"""Residuals of one quantity, observed beside predicted, at every level that observations share: the mechanism
of time and of each reading of the peak."""

from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Sequence

from memory_service.domain.learning.hierarchy import Hierarchy, MatchedObservation, is_own, where
from memory_service.domain.learning.repeat_noise import RepeatNoise
from memory_service.domain.learning.shrinkage import FREEDOM, Loadings, Posterior, without_outliers


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
        self._posterior, out = without_outliers(rows, values, noise, far, places, runs, reporters)
        self.aside = tuple(told[i].observation for i in out)
        used = [i for i in range(len(told)) if i not in set(out)]
        counted, values = [told[i] for i in used], [values[i] for i in used]
        self._noise = RepeatNoise(counted, values, noise := [noise[i] for i in used])
        bounds = self._bounds()
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
