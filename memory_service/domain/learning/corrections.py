"""Corrections of predictions by observed runs: residuals of time and memory, shrunk through nested levels.

Steps of networks, fits of estimators and input pipelines are learned apart (`observation.Part`), all by this.

Time: ln(observed / predicted) of a step is a sum of effects, one for each level the run belongs to
(everything, the card, the card at this precision and layout, the device, the family anywhere, on the card and
on the device, the architecture, this very case), of effects in proportion to the share of each class of work
on that card, and of noise; `domain.learning.shrinkage` weighs them all at once. Memory: the same in GiB.

What says nothing of the device's speed is left out (contended, throttled, loader-bound). An observation
further off than a factor of three from what is known is set aside until three runs agree. A time-out is a
lower bound; an out-of-memory refuses its batch until a later success there (`domain.learning.batch_bounds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, zip_longest
from math import log
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from memory_service.domain.learning.batch_bounds import BatchBounds, Bounds, bounding
from memory_service.domain.learning.hierarchy import MatchedObservation
from memory_service.domain.learning.memory_residuals import (
    READINGS,
    MemoryCorrection,
    MemoryPosterior,
    MemorySubjects,
    Reading,
    for_memory,
)
from memory_service.domain.learning.observation import (
    Observation,
    Part,
    Predict,
    PredictionKey,
    PredictionKeys,
    observation_key,
)
from memory_service.domain.learning.shrinkage import Floats
from memory_service.domain.learning.time_residuals import TimeCorrection, TimePosterior

__all__ = [
    "MOST_OF_A_CASE", "Evidence", "LearnedCorrections", "LearnedPeaks", "MemoryCorrection", "TimeCorrection",
    "TrainingSet", "in_turn", "learn", "newest_last",
]  # fmt: skip

T = TypeVar("T")

MOST_OBSERVATIONS = 384
"""Read by `learn`, the newest of every device in turn."""

MOST_OF_A_CASE = 6
"""Of one case on one device, newest first: further ones say the same of time and peaks again, and software
moves on. Bounds on the batch are kept however old (`domain.learning.batch_bounds.bounding`)."""


MOST_BY_ONE = log(1.15)
"""What one key alone told moves a figure for others so far, and no further."""

_BY_ONE = "what one key alone told of this case"


class Evidence:
    """Observations beside their predictions, solved once for all cards that learn from the same ones; by one
    thread while others wait for this one alone."""

    def __init__(self, matched: Sequence[MatchedObservation]) -> None:
        self._matched, self._solving = matched, Lock()
        self._time: TimePosterior | None = None
        self._memory: Mapping[Reading, MemoryPosterior] | None = None

    @property
    def time(self) -> TimePosterior:
        with self._solving:
            self._time = self._time or TimePosterior(self._matched)
            return self._time

    @property
    def memory(self) -> Mapping[Reading, MemoryPosterior]:
        with self._solving:
            if self._memory is None:
                self._memory = {reading: MemoryPosterior(self._matched, reading) for reading in READINGS}
            return self._memory


evidence_of = lru_cache(maxsize=64)(Evidence)
"""That of the same observations with the same predictions, whatever else was told since; of 256 observations
2.6 MiB."""

TrainingSet = tuple[Evidence, BatchBounds]
"""What is learned from, and bounds on the batch."""


@dataclass(frozen=True, slots=True)
class LearnedPeaks:
    """What bears on the readings of a peak, and on the batch."""

    of: Mapping[Reading, MemoryCorrection | None]
    bounds: Bounds

    @property
    def is_empty(self) -> bool:
        return not (any(self.of.values()) or self.bounds.proven or self.bounds.refused)


def learn(observations: Iterable[Observation], predict: Predict) -> LearnedCorrections:
    """All that the observations say, in whatever order they come. `domain.learning.observation_selection`
    chooses what bears on one card, and so can hold any number of them.

    predict   the prediction for an observation without learning
              (`domain.prediction.device_step_time.baseline_prediction`); None where there is no profile or no
              such card: then nothing is learned from it
    """
    newest = sorted(observations, key=newest_last, reverse=True)
    known = {id(o): baseline for o in newest if (baseline := predict(o)) is not None}
    bounds = BatchBounds((o, known[id(o)].usable_gib) for o in bounding(newest) if id(o) in known)
    taken: Counter[Hashable] = Counter()
    of_device: dict[str, list[MatchedObservation]] = {}
    for o in newest:
        key = observation_key(o)
        if id(o) in known and not o.out_of_memory and taken[key] < MOST_OF_A_CASE:
            taken[key] += 1
            matched = MatchedObservation(o, key, known[id(o)])
            of_device.setdefault(o.device or o.gpu, []).append(matched)
    chosen = list(islice(in_turn(of_device.values()), MOST_OBSERVATIONS))
    return LearnedCorrections(lambda part: (Evidence([s for s in chosen if s.key.part == part]), bounds))


def in_turn(several: Iterable[Sequence[T]]) -> Iterator[T]:
    """The first of each, then the second of each, and so on."""
    return (one for row in zip_longest(*several) for one in row if one is not None)


def newest_last(o: Observation) -> tuple[Any, ...]:
    """Sorts by time, and the same in whatever order they came."""
    return (o.at, o.run_id, o.source, o.device, o.gpu, o.model, o.input_size, o.precision, o.layout, o.mode,
            o.batch_size, o.step_seconds or 0.0, o.peak_driver_gib or 0.0)  # fmt: skip


class LearnedCorrections:
    """What observed runs say; attached to cards as `Gpu.learned`. Nothing is solved before it is asked.

    choose     what a part is learned from
    by_one     case of any device -> log of the time beside its prediction, of those that one key alone told,
               which is not who asks
    """

    def __init__(
        self,
        choose: Callable[[Part], TrainingSet],
        by_one: Callable[[], Mapping[PredictionKey, float]] = dict,
    ) -> None:
        self._choose = choose
        self._by_one = by_one
        self._known: dict[Hashable, Any] = {}

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave the first time it was asked for by this key."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def _chosen(self, part: Part = "step") -> TrainingSet:
        return self._once(part, lambda: self._choose(part))

    def _time(self, part: Part = "step") -> TimePosterior:
        return self._chosen(part)[0].time

    def _memory(self, part: Part = "step") -> Mapping[Reading, MemoryPosterior]:
        return self._chosen(part)[0].memory

    def time_of(self, subject: PredictionKey, shares: Floats, card_log_sd: float) -> TimeCorrection | None:
        """What to do to a predicted step; None where nothing observed bears on it.

        shares        of the step's time at a usual batch, by PARTS, shape (1, parts): they weigh what remains
                      unsure
        card_log_sd   as in `BaselinePrediction`
        """
        of = self._time(subject.part)
        return self._once(
            (subject, "time", card_log_sd),
            lambda: self._nudged(of.correction(subject, shares, card_log_sd), [subject], shares),
        )

    def memory_of(self, subject: PredictionKey, reading: Reading) -> MemoryCorrection | None:
        """What to add to a predicted peak; None where nothing observed bears on it."""
        of = self._memory(subject.part)[reading]
        return self._once((subject, reading), lambda: of.correction(for_memory(subject)))

    def peaks_of(self, subject: PredictionKey, usable_gib: float) -> LearnedPeaks:
        """All of the above that bears on a peak, looked up at once."""
        return self._once(
            (subject, "peaks", usable_gib),
            lambda: LearnedPeaks(
                {reading: self.memory_of(subject, reading) for reading in READINGS},
                self.batch_bounds(subject, usable_gib),
            ),
        )

    def times_of(
        self, subjects: Sequence[PredictionKey], shares: Floats, card_log_sd: Sequence[float]
    ) -> TimeCorrection | None:
        """`time_of` of many steps on one device at once. shares: shape (n, parts)."""
        return self._nudged(self._time().corrections(subjects, shares, card_log_sd), subjects, shares)

    @cached_property
    def _alone(self) -> Mapping[PredictionKey, float]:
        return self._by_one()

    def _nudged(
        self, found: TimeCorrection | None, subjects: Sequence[PredictionKey], shares: Floats
    ) -> TimeCorrection | None:
        """With what one key alone told of these very cases: each moves by up to `MOST_BY_ONE`, and its
        interval is as much wider."""
        models = {key.model for key in self._alone}
        said = np.array([
            self._alone.get(replace(s, device=""), np.nan) if s.model in models else np.nan for s in subjects
        ]) if models else np.empty(0)  # fmt: skip
        if not np.isfinite(said).any():
            return found
        if found is None:
            none = np.zeros(len(subjects))
            found = TimeCorrection(none, np.zeros_like(shares), none + np.inf, basis=_BY_ONE)
        apart = said - found.log_shift - np.sum(shares * found.parts, axis=1)
        moved = np.nan_to_num(np.clip(apart, -MOST_BY_ONE, MOST_BY_ONE))
        return replace(found, log_shift=found.log_shift + moved, wider=np.abs(moved))

    def memories_of(self, subjects: PredictionKeys) -> dict[Reading, MemoryCorrection | None]:
        """`memory_of` of many peaks at once, by reading."""
        observed = {posterior.observed for posterior in self._memory().values()}
        known = subjects.known
        if known.keys() != observed:  # another thread may replace it meanwhile
            known = subjects.known = {
                keys: known.get(keys) or MemorySubjects.of(subjects, keys) for keys in observed
            }
        return {
            reading: posterior.corrections(known[posterior.observed])
            for reading, posterior in self._memory().items()
        }

    @property
    def bounded_models(self) -> Container[str]:
        """Networks of which `batch_bounds` has anything to say."""
        return self._chosen()[1].models

    def batch_bounds(self, subject: PredictionKey, usable_gib: float) -> Bounds:
        """The largest batch that ran and the smallest that ran out of memory, for this case and memory."""
        return self._once(
            (subject, "bounds", usable_gib), lambda: self._chosen()[1].bounds(subject, usable_gib)
        )

    @property
    def set_aside(self) -> tuple[Observation, ...]:
        """Observations of time too far from what is known to count yet."""
        return self._time().aside
