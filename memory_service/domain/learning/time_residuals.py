"""How much slower or faster steps, fits and loaders are than predicted: by card, family and model."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Any

import numpy as np

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.step_time import PARTS
from memory_service.domain.learning.hierarchy import (
    OWN_LEVELS,
    MatchedObservation,
    is_own,
    level_keys,
    lone_devices,
    where,
)
from memory_service.domain.learning.observation import PredictionKey
from memory_service.domain.learning.residuals import Residuals
from memory_service.domain.learning.shrinkage import Floats, Loadings

_SD: Mapping[str, Mapping[str, float]] = shipped_table(__package__, "levels.toml")
TIME_SD, HOST_SD = _SD["steps"], _SD["host"]
"""Standard deviation of log step time at each level; the same of what a processor does."""

PART_SD = 0.07
"""The same for the rate of one class of work on a card at one precision and layout. 0.04 to 0.12 are as good
at 8 and 40 rows; less carries over less to a card nobody measured, more moves a well-known one."""

STEP_NOISE_SD = 0.05
SECOND_NOISE_SD = 0.03
TABLE_NOISE_SD = 0.10
"""Noise of a median beside that from run to run: 5 % of one step or epoch, which falls with how many there
were; 3 % of a figure timed for one second, which falls with the seconds (neighbouring epochs of one run on a
processor: docs/methods/learning.md); and 10 % of a published figure, whose host and software are not known:
with 0.05 one row of the V100 did harm, with 0.15 eight rows of the RTX 4090 taught too little."""

RUN_SD, PROCESSOR_RUN_SD = 0.02, 0.04
"""From run to run of one case on one device, as long as no repeats say: 2 % between nominally equal hosts
however long they ran (public tables); on a processor 2.9 % alone on its core and 5.6 % beside other work
(docs/methods/learning.md), so the middle of them."""

FAR = log(3.0)
FAR_IN_TABLES = log(2.0)
FAR_SDS = 2.5
"""An observation is far beyond a factor of three (or 2.5 standard deviations of what was expected, where that
is more), a published one, which may have been read wrongly, beyond two."""


@dataclass(frozen=True, slots=True)
class TimeCorrection:
    """Of n predicted steps: multiply each by exp(log_shift), and each part of its work by exp of its own
    shift. A step that nothing observed bears on is left as it is, with an infinite log_sd.

    log_shift   shape (n,)
    parts       shift of each of `domain.cost.step_time.PARTS`, shape (n, parts)
    log_sd      what remains unsure, as a standard deviation of log time, shape (n,)
    n           of one step: observations at the closest level that has any
    wider       how much wider the interval is for what one key alone told, as a log of time
    exact       of one step: this very model, input size, precision and layout was observed on this device or
                GPU model
    """

    log_shift: Floats
    parts: Floats
    log_sd: Floats
    n: int = 0
    basis: str = ""
    exact: bool = False
    wider: Floats | float = 0.0


class TimePosterior(Residuals):
    """Everything observed of steps (or fits, or loaders), solved once."""

    def __init__(self, matched: Sequence[MatchedObservation]) -> None:
        self._observed = [s for s in matched if s.observation.excluded is None]
        timed = [s for s in self._observed if _is_time(s.observation.step_seconds)]
        super().__init__(timed, lone_devices(self._observed))
        self._parts: dict[Hashable, tuple[tuple[Loadings, ...], tuple[float, ...]]] = {}

    def _bounds(self) -> list[tuple[MatchedObservation, float]]:
        others = ((s, self._bound(s)) for s in self._observed if s.observation.step_seconds is None)
        return [(s, bound) for s, bound in others if bound is not None]

    def _residual(self, one: MatchedObservation) -> float:
        return log((one.observation.step_seconds or 0.0) / one.baseline.step_seconds)

    def _usual_sd(self, one: MatchedObservation) -> float:
        o = one.observation
        if not is_own(o):
            return TABLE_NOISE_SD
        timed = 0.0 if o.timed_seconds is None else SECOND_NOISE_SD**2 / max(o.timed_seconds, 1e-3)
        return sqrt(_usual_run_sd(one.key) ** 2 + STEP_NOISE_SD**2 / max(o.n, 1) + timed)

    def _far(self, one: MatchedObservation, row: Loadings) -> float:
        least = FAR if is_own(one.observation) else FAR_IN_TABLES
        return max(least, FAR_SDS * sqrt(sum(x * x for x in row.values())))

    def _loadings(self, one: MatchedObservation) -> Loadings:
        levels = _time_levels(one.key, one.baseline.card_log_sd, is_own(one.observation))
        if where(one) in self._lone:
            return _own_levels(levels)
        parts = zip(PARTS, one.baseline.shares, strict=True)
        effects = ((_part_effects(one.key, part), share) for part, share in parts if share > 0.0)
        return levels | {name: loading * share for of, share in effects for name, loading in of.items()}

    def _bound(self, one: MatchedObservation) -> float | None:
        """The bound that the observation is, where what is expected lies beyond it, and not too far."""
        o = one.observation
        for seconds, sign, far in ((o.at_least_seconds, 1.0, FAR), (o.at_most_seconds, -1.0, inf)):
            if seconds is not None and _is_time(seconds):
                bound = log(seconds / one.baseline.step_seconds)
                return bound if 0.0 < sign * (bound - self._mean(self._loadings(one))) <= far else None
        return None

    def correction(self, subject: PredictionKey, shares: Floats, card_log_sd: float) -> TimeCorrection | None:
        """None where nothing observed bears on it."""
        n, basis, exact = self._levels.closest(subject)
        of_one = self.corrections([subject], shares, [card_log_sd]) if n else None
        return None if of_one is None else replace(of_one, n=n, basis=basis, exact=exact)

    def corrections(
        self, subjects: Sequence[PredictionKey], shares: Floats, card_log_sd: Sequence[float]
    ) -> TimeCorrection | None:
        """`correction` of many subjects on one device. shares: shape (n, parts)."""
        posterior = self._posterior
        if posterior is None:
            return None
        levels = [_time_levels(s, sd, own=True) for s, sd in zip(subjects, card_log_sd, strict=True)]
        weights, unseen = posterior.weights(levels)
        log_shift = posterior.many_means(weights)
        parts = np.zeros_like(shares)
        settings: dict[Hashable, list[int]] = {}
        for place, subject in enumerate(subjects):
            settings.setdefault(subject.config, []).append(place)
        if (subjects[0].device or subjects[0].gpu) in self._lone:
            weights, unseen = posterior.weights([_own_levels(level) for level in levels])
        else:
            for places in settings.values():
                effects, _ = self._of_setting(subjects[places[0]])
                of_part, unseen_of_part = posterior.weights(effects)
                weights[places] += shares[places] @ of_part
                unseen[places] += shares[places] ** 2 @ unseen_of_part
        for places in settings.values():
            parts[places] = self._of_setting(subjects[places[0]])[1]
        noise = [
            self._noise.variance(s.device or s.gpu, next(iter(level)), _usual_run_sd(s))
            for s, level in zip(subjects, levels, strict=True)
        ]
        sd = np.sqrt(posterior.many_explained(weights)[0] + unseen + noise)
        known = np.array([self._levels.bears_on(subject) for subject in subjects])
        parts = np.where(known[:, None], parts, 0.0)
        return TimeCorrection(np.where(known, log_shift, 0.0), parts, np.where(known, sd, inf))

    def _of_setting(self, s: PredictionKey) -> tuple[tuple[Loadings, ...], tuple[float, ...]]:
        """(effects of each part of a step's work, what is expected of them): one for all networks."""
        key = (s.gpu, s.config)
        if key not in self._parts:
            effects = tuple(_part_effects(s, part) for part in PARTS)
            self._parts[key] = effects, tuple(self._mean(part) for part in effects)
        return self._parts[key]


def _is_time(figure: float | None) -> bool:
    return figure is not None and 0.0 < figure < inf


def _usual_run_sd(key: PredictionKey) -> float:
    return RUN_SD if key.cores is None else PROCESSOR_RUN_SD


def _time_levels(subject: PredictionKey, card_log_sd: float, own: bool) -> dict[Hashable, float]:
    sd = {"card": card_log_sd, **(TIME_SD if subject.part == "step" else HOST_SD)}
    return {key: sd[level] for level, key in level_keys(subject, own).items()}


def _own_levels(levels: Mapping[Any, float]) -> dict[Hashable, float]:
    return {key: sd for key, sd in levels.items() if key[0] in OWN_LEVELS}


def _part_effects(s: PredictionKey, part: str) -> dict[Hashable, float]:
    c = s.config
    return {("part", part, s.gpu, c.precision, c.layout, c.mode, c.stack): PART_SD}
