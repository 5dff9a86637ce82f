"""Selects, of all observed runs, those that bear on one card, when the card is asked about.

However many runs there are, a card is judged by a bounded number of different ones: what ran on it, what ran
on other devices of its model, and, for what families of networks have in common, what ran elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import merge
from itertools import chain, islice
from math import log
from statistics import median

from memory_service.domain.learning.batch_bounds import BatchBounds, bounding
from memory_service.domain.learning.corrections import (
    MOST_OF_A_CASE,
    Evidence,
    LearnedCorrections,
    TrainingSet,
    evidence_of,
    in_turn,
    newest_last,
)
from memory_service.domain.learning.hierarchy import MatchedObservation
from memory_service.domain.learning.observation import (
    BaselinePrediction,
    Observation,
    Part,
    Predict,
    PredictionKey,
    observation_key,
    priced_as,
)
from memory_service.domain.learning.shrinkage import equal_shares

MOST_BATCHES = 64
OWN_BATCHES, BATCHES_OF_MODEL = 40, 16
"""Cases at one batch each, of which a card's own are at most so many, then those of its model; what one of
them leaves free the others take. Solving takes some 50 ms with 64 and grows with their cube; the
observations of one case at one batch, up to MOST_OF_A_CASE, cost nothing more."""

Batch = tuple[Observation, ...]
"""Observations that one baseline prediction stands for (`priced_as`), the newest first."""


@dataclass(frozen=True, eq=False)
class Place:
    """What was observed on one device, or on a GPU model where no device was named; the newest first."""

    observations: tuple[Observation, ...]

    @property
    def gpu(self) -> str:
        return self.observations[0].gpu

    @cached_property
    def reporters(self) -> frozenset[str]:
        return frozenset(o.reporter for o in self.observations)

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """All that ran, of each case the latest few, of its reporters in turn."""
        told: dict[PredictionKey, dict[str, list[Observation]]] = {}
        for o in self.observations:
            if not o.out_of_memory:
                told.setdefault(observation_key(o), {}).setdefault(o.reporter, []).append(o)
        found: dict[Hashable, list[Observation]] = {}
        for reporters in told.values():
            latest = islice(in_turn(reporters.values()), MOST_OF_A_CASE)
            for o in sorted(latest, key=newest_last, reverse=True):
                found.setdefault(priced_as(o), []).append(o)
        return tuple(sorted(map(tuple, found.values()), key=_newest, reverse=True))


class ObservationSelection:
    """All observations, by where they were made (safe to share between threads).

    predict   as in `domain.learning.corrections.learn`; one answer stands for all observations of a case at
              one batch
    by_one    what one key alone told, which is not who asks
    """

    def __init__(
        self, observations: Iterable[Observation], predict: Predict, by_one: Sequence[Observation] = ()
    ) -> None:
        self.predict, self._by_one = predict, by_one
        self._baselines: dict[Hashable, BaselinePrediction | None] = {}
        of_place: dict[Part, dict[str, list[Observation]]] = {}
        for o in sorted(observations, key=newest_last, reverse=True):
            of_place.setdefault(o.part, {}).setdefault(o.device or o.gpu, []).append(o)
        self._places = {
            part: {where: Place(tuple(found)) for where, found in places.items()}
            for part, places in of_place.items()
        }
        self._evidence: dict[tuple[int, ...], Evidence] = {}
        self._of_one: dict[str, Mapping[PredictionKey, float]] = {}
        self._about: dict[tuple[str, str], LearnedCorrections] = {}

    def renewed(
        self, observations: Iterable[Observation], by_one: Sequence[Observation] = ()
    ) -> ObservationSelection:
        """The same of other observations; what was predicted for some of them is not predicted again."""
        renewed = ObservationSelection(observations, self.predict, by_one)
        renewed._baselines = self._baselines
        return renewed

    def about(self, device: str, gpu: str) -> LearnedCorrections:
        """What they say of a device ("" = of the GPU model as such)."""
        if (device, gpu) not in self._about:
            self._about[device, gpu] = LearnedCorrections(
                lambda part: self._chosen(part, device or gpu, gpu), lambda: self._alone(gpu)
            )
        return self._about[device, gpu]

    def _alone(self, gpu: str) -> Mapping[PredictionKey, float]:
        """Case -> median log of its time beside its prediction, each key's own median once, of what one key
        alone told of the card and nobody who is heard timed."""
        if gpu in self._of_one:
            return self._of_one[gpu]
        places = [p for p in self._places.get("step", {}).values() if p.gpu == gpu]
        timed = {None, *(_timed(o) for p in places for batch in p.batches for o in batch)}
        told: dict[str, list[Observation]] = {}
        for o in reversed(self._by_one):
            if o.gpu == gpu and _timed(o) not in timed:
                told.setdefault(o.reporter, []).append(o)
        found: dict[PredictionKey, dict[str, list[float]]] = {}
        for o in islice(in_turn(told.values()), MOST_BATCHES * MOST_OF_A_CASE):
            if (key := _timed(o)) and o.step_seconds and (baseline := self._baseline_of(o)):
                apart = log(o.step_seconds / baseline.step_seconds)
                found.setdefault(key, {}).setdefault(o.reporter, []).append(apart)
        self._of_one[gpu] = {key: median(map(median, by.values())) for key, by in found.items()}
        return self._of_one[gpu]

    def count(self, device: str) -> int:
        """Observations of a device."""
        return sum(len(places.get(device, Place(())).observations) for places in self._places.values())

    def _chosen(self, part: Part, where: str, gpu: str) -> TrainingSet:
        places = self._places.get(part, {})
        own = places.get(where, Place(()))
        model = [p for name, p in places.items() if p.gpu == gpu and name != where]
        others = [p for p in places.values() if p.gpu != gpu and p is not own]
        batches = sorted(self._in_order(own, model, others), key=_newest)
        evidence = self._evidence.get(same := tuple(map(id, batches)))
        if evidence is None:
            evidence = self._evidence[same] = evidence_of(self._matched(batches))
        of_model = [own, *model] if not own.observations or own.gpu == gpu else model
        newest = merge(*(p.observations for p in of_model), key=newest_last, reverse=True)
        bounds = ((o, self._baseline_of(o)) for o in bounding(newest))
        known = ((o, baseline.usable_gib) for o, baseline in bounds if baseline is not None)
        return evidence, BatchBounds(known)

    def _matched(self, batches: Sequence[Batch]) -> tuple[MatchedObservation, ...]:
        return tuple(
            MatchedObservation(o, key, baseline)
            for batch in batches for baseline in [self._baseline_of(batch[0])]
            if baseline is not None
            for key in [observation_key(batch[0])]  # one object for all: it is looked up by identity
            for o in batch
        )  # fmt: skip

    def _in_order(self, own: Place, model: Sequence[Place], others: Sequence[Place]) -> Iterator[Batch]:
        mine, of_model, elsewhere = (
            filter(lambda batch: self._baseline_of(batch[0]) is not None, batches)
            for batches in (own.batches, in_turn(_batches(model)), in_turn(_batches(others)))
        )
        first = [*islice(mine, OWN_BATCHES), *islice(of_model, BATCHES_OF_MODEL)]
        return islice(chain(first, elsewhere, mine, of_model), MOST_BATCHES)

    def _baseline_of(self, o: Observation) -> BaselinePrediction | None:
        key = priced_as(o)
        if key not in self._baselines:
            self._baselines[key] = self.predict(o)
        return self._baselines[key]


def _batches(places: Sequence[Place]) -> list[tuple[Batch, ...]]:
    """Of each reporter what it told of its devices in turn, the newest first: many devices of one push out
    nobody else's, and on a GPU model count no more often than the second most of one, spread over new and
    old."""
    newest = sorted(places, key=lambda place: _newest(place.observations), reverse=True)
    told: dict[str, list[tuple[Batch, ...]]] = {}
    for n in equal_shares([(place.gpu, place.reporters, n) for n, place in enumerate(newest)]):
        told.setdefault(newest[n].observations[0].reporter, []).append(newest[n].batches)
    return [tuple(in_turn(batches)) for batches in told.values()]


def _timed(o: Observation) -> PredictionKey | None:
    """The case on any device of the card, where the observation tells its time."""
    return replace(observation_key(o), device="") if o.step_seconds and o.excluded is None else None


def _newest(batch: Batch) -> tuple[object, ...]:
    return newest_last(batch[0])
