"""What do observed runs say of the next prediction? Residuals of time and memory, shrunk through nested
levels.

Time: ln(observed / predicted) of a step is a sum of effects, one for each level the run belongs to
(everything, the card, the card at this precision and layout, the device, the family anywhere, on the card and
on the device, the architecture, this very case), of effects in proportion to the share of each class of work
on that card, and of noise; `domain.shrinkage` weighs them all at once. Memory: the same in GiB.

What says nothing of the device's speed is left out (contended, throttled, loader-bound). An observation
further off than a factor of three from what is known is set aside until three runs agree. A time-out is a
lower bound; an out-of-memory refuses its batch until a later success there (`domain.fits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any, Literal

from memory_service.domain.cold import PARTS, Cold, Predict, Subject, precision_class, subject_of
from memory_service.domain.fits import Bounds, Fits
from memory_service.domain.observation import Observation
from memory_service.domain.shrinkage import Loadings, Posterior

__all__ = ["FLOOR_SD", "Learned", "MemoryCorrection", "RatioLearned", "TimeCorrection", "learn"]

Reading = Literal["allocated", "reserved", "driver"]
READINGS: tuple[Reading, ...] = ("allocated", "reserved", "driver")

MOST_OBSERVATIONS = 384
"""Kept in all, the newest of every device in turn: the posterior over them is solved once a revision, in well
under a second."""

MOST_OF_A_CASE = 6
"""Of one case on one device, newest first: further ones say the same again, and software moves on."""

TIME_SD = {
    "all": 0.01,  # one law for every card: what is common to all is in its coefficients already
    "setting": 0.02,  # a card at one precision and layout
    "device": 0.10,  # hosts and software; 0.25 made few runs of a well-predicted card do harm
    "family": 0.05,  # left in families that the fit did not see, on any card; likewise "card family"
    "card family": 0.05,
    "here": 0.30,  # a family on one device: wide, so that three runs of it settle it to 5 %
    "model": 0.07,  # the same network in two layouts shares 0.09 on the RTX 3090, less elsewhere
    "case": 0.09,  # what a network at one size, precision and layout has to itself
}
"""Standard deviation of log step time at each level. Estimated once from the residuals of the public tables
with cards and families left out of the fit, then rounded; `benchmarks/observe.py` shows what they do."""

PART_SD = 0.07
"""The same for the rate of one class of work on a card at one precision and layout. 0.04 to 0.12 are as good
at 8 and 40 rows; less carries over less to a card nobody measured, more moves a well-known one."""

NOISE_SD = 0.02
STEP_NOISE_SD = 0.05
TABLE_NOISE_SD = 0.10
"""Noise of a median: 2 % between nominally equal hosts however long they ran (research/sizing.md), 5 % of one
step or epoch, which falls with how many there were, and 10 % of a published figure, whose host and software
are not known: with 0.05 one row of the V100 did harm, with 0.15 eight rows of the RTX 4090 taught too
little."""

FLOOR_SD = 0.02
"""No interval is narrower."""

FREEDOM = 2.0
"""Tails of Student's t."""

OWN_LEVELS = ("case", "model", "here", "card family")
"""All that one network alone says anything of: whether the device or the network is odd, a second one must
tell. Without this rule a single row of a well-predicted card does its other rows 2 to 5 % more error."""

FAR = log(3.0)
FAR_IN_TABLES = log(2.0)
FAR_SDS = 2.5
FAR_GIB = 2.0
FAR_SHARE = 2.0
AGREE = log(1.35)
ENOUGH_RUNS = 3
"""An observation is far beyond a factor of three (or 2.5 standard deviations of what was expected, where that
is more), a published one, which may have been read wrongly, beyond two; a peak beyond 2 GiB and thrice the
prediction. Three runs within a third of each other are believed."""

MEMORY_SD_GIB = {"card": 0.05, "device": 0.3, "here": 0.1, "case": 0.1}
MEMORY_SHARE_SD = {"card": 0.005, "device": 0.01, "family": 0.03, "here": 0.03, "model": 0.02, "case": 0.015}
MEMORY_NOISE_GIB = 0.03
MEMORY_NOISE_SHARE = 0.02
"""Of peaks: GiB whatever the batch (context, libraries: 0.3 to 1 GiB between drivers, research/sizing.md) and
shares of what the step allocates (workspaces, caching). Set on the A100 table: `benchmarks/observe.py`."""

FIRST_EPOCH_SD = {"all": 0.2, "device": 0.3, "here": 0.1, "case": 0.1}
FIRST_EPOCH_NOISE_SD = 0.1


@dataclass(frozen=True, slots=True)
class TimeCorrection:
    """Multiply a predicted step by exp(log_shift), and each part of its work by exp of its own shift.

    parts     shift of each of `domain.cold.PARTS`
    log_sd    what remains unsure, as a standard deviation of log time
    n         observations at the closest level that has any; 0: none bears on it
    exact     this very model, input size, precision and layout was observed on this device or GPU model
    """

    log_shift: float
    parts: tuple[float, ...]
    log_sd: float
    n: int
    basis: str
    exact: bool


@dataclass(frozen=True, slots=True)
class MemoryCorrection:
    """Add fixed_gib + share x allocated GiB to a predicted peak. Other fields as in `TimeCorrection`."""

    fixed_gib: float
    share: float
    covariance: tuple[float, float, float]
    n: int
    basis: str
    exact: bool

    def shift_gib(self, allocated_gib: float) -> float:
        return self.fixed_gib + self.share * allocated_gib

    def sd_gib(self, allocated_gib: float) -> float:
        """What remains unsure at a predicted allocation."""
        fixed, both, share = self.covariance
        return sqrt(max(fixed + 2.0 * both * allocated_gib + share * allocated_gib**2, 0.0))


@dataclass(frozen=True, slots=True)
class LearnedPeaks:
    """What bears on the three readings of a peak, and on the batch."""

    allocated: MemoryCorrection | None
    reserved: MemoryCorrection | None
    driver: MemoryCorrection | None
    bounds: Bounds

    @property
    def is_empty(self) -> bool:
        return not (
            self.allocated or self.reserved or self.driver or self.bounds.proven or self.bounds.refused
        )


@dataclass(frozen=True, slots=True)
class RatioLearned:
    """First epoch / later ones, with the standard deviation of its logarithm."""

    ratio: float
    log_sd: float
    n: int
    basis: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """An observation that can be used, beside what was predicted for it."""

    what: Observation
    subject: Subject
    cold: Cold


def learn(observations: Iterable[Observation], predict: Predict) -> Learned:
    """All that the observations say, in whatever order they come; built once per knowledge revision.

    predict   the prediction for an observation without learning (`domain.observed.cold_of`); None where there
              is no profile or no such card: then nothing is learned from it
    """
    taken: Counter[Hashable] = Counter()
    of_device: Counter[Hashable] = Counter()
    ranked: list[tuple[int, Observation]] = []
    for observation in sorted(observations, key=_newest, reverse=True):
        case = (subject_of(observation), observation.out_of_memory)
        taken[case] += 1
        if taken[case] <= MOST_OF_A_CASE:
            here = (observation.device or observation.gpu, observation.out_of_memory)
            of_device[here] += 1
            ranked.append((of_device[here], observation))
    seen: list[_Seen] = []
    fits: list[tuple[Observation, float]] = []
    for _, observation in sorted(ranked, key=lambda one: one[0]):
        if len(seen) >= MOST_OBSERVATIONS and not observation.out_of_memory:
            continue
        cold = predict(observation)
        if cold is None:
            continue
        fits.append((observation, cold.usable_gib))
        if not observation.out_of_memory:
            seen.append(_Seen(observation, subject_of(observation), cold))
    return Learned(seen, Fits(fits))


def _newest(o: Observation) -> tuple[Any, ...]:
    return (o.at, o.run_id, o.source, o.device, o.gpu, o.model, o.input_size, o.precision, o.layout, o.mode,
            o.batch_size, o.step_seconds or 0.0, o.peak_driver_gib or 0.0)  # fmt: skip


class Learned:
    """All that observed runs say; attach the same one to every card (`Gpu.learned`)."""

    def __init__(self, seen: Sequence[_Seen], fits: Fits) -> None:
        self._time = _TimePosterior(seen)
        self._memory = {reading: _MemoryPosterior(seen, reading) for reading in READINGS}
        self._first = _FirstEpoch(seen)
        self._fits = fits
        self._known_time: dict[Hashable, TimeCorrection | None] = {}
        self._known_memory: dict[Hashable, MemoryCorrection | None] = {}
        self._known_bounds: dict[Hashable, Bounds] = {}
        self._known_peaks: dict[Hashable, LearnedPeaks] = {}

    def time_of(self, subject: Subject, shares: Sequence[float], card_log_sd: float) -> TimeCorrection | None:
        """What to do to a predicted step; None where nothing observed bears on it.

        shares        of the step's time at a usual batch, by PARTS: they weigh what remains unsure
        card_log_sd   as in `Cold`
        """
        key = (subject, card_log_sd)
        if key not in self._known_time:
            self._known_time[key] = self._time.correction(subject, shares, card_log_sd)
        return self._known_time[key]

    def memory_of(self, subject: Subject, reading: Reading) -> MemoryCorrection | None:
        """What to add to a predicted peak; None where nothing observed bears on it."""
        key = (subject, reading)
        if key not in self._known_memory:
            self._known_memory[key] = self._memory[reading].correction(_for_memory(subject))
        return self._known_memory[key]

    def peaks_of(self, subject: Subject, usable_gib: float) -> LearnedPeaks:
        """All of the above that bears on a peak, looked up at once."""
        key = (subject, usable_gib)
        if key not in self._known_peaks:
            self._known_peaks[key] = LearnedPeaks(
                self.memory_of(subject, "allocated"),
                self.memory_of(subject, "reserved"),
                self.memory_of(subject, "driver"),
                self.batch_bounds(subject, usable_gib),
            )
        return self._known_peaks[key]

    def batch_bounds(self, subject: Subject, usable_gib: float) -> Bounds:
        """The largest batch that ran and the smallest that ran out of memory, for this case and memory."""
        key = (subject, usable_gib)
        if key not in self._known_bounds:
            self._known_bounds[key] = self._fits.bounds(subject, usable_gib)
        return self._known_bounds[key]

    def refused_batch(self, subject: Subject, usable_gib: float) -> int | None:
        """No plan may offer this batch or more: it ran out of memory, and nothing later says otherwise."""
        return self.batch_bounds(subject, usable_gib).refused

    def first_epoch(self, subject: Subject) -> RatioLearned | None:
        """How much longer the first epoch takes than later ones (page cache, autotuning); None: not
        observed."""
        return self._first.ratio(subject)

    @property
    def set_aside(self) -> tuple[Observation, ...]:
        """Observations of time too far from what is known to be believed yet."""
        return self._time.aside


class _Levels:
    """How many observations stand behind each level, and how to say so."""

    def __init__(self, seen: Iterable[_Seen], lone: Container[str] = ()) -> None:
        self._runs: dict[Hashable, set[Hashable]] = {}
        for index, one in enumerate(seen):
            run = one.what.run_id or index
            for level, key in _level_keys(one.subject, _is_own(one.what)).items():
                if level in OWN_LEVELS or _where(one) not in lone:
                    self._runs.setdefault(key, set()).add(run)

    def closest(self, subject: Subject) -> tuple[int, str, bool]:
        """(n, basis, exact) of the most specific level that has observations."""
        for level, key in _level_keys(subject, True).items():
            n = len(self._runs.get(key, ()))
            if n:
                runs = f"residual of {n} run{'s' if n > 1 else ''}"
                return n, f"{runs} {_WORDS[level].format(s=subject, here=_here(subject))}", level == "case"
        return 0, "", False


_WORDS = {
    "case": "of {s.model} at {s.input_size} on {here}",
    "model": "of {s.model} on this GPU model",
    "here": "of {s.family} on {here}",
    "card family": "of {s.family} on this GPU model",
    "device": "of other models on {here}",
    "setting": "of other models in {s.precision} on this GPU model",
    "card": "of other models on this GPU model",
    "family": "of {s.family} on other cards",
    "all": "on other cards",
}


def _here(subject: Subject) -> str:
    return subject.device or subject.gpu


def _level_keys(s: Subject, own: bool) -> dict[str, tuple[Any, ...]]:
    """Level -> key, most specific first; `own`: observed by a run here, not read in a table."""
    here = s.device or s.gpu
    setting = (s.precision, s.layout, s.mode, s.compiled, s.stack)
    keys: dict[str, tuple[Any, ...]] = {
        "case": ("case", s.gpu, s.model, s.input_size, setting),
        "model": ("model", s.gpu, s.model, s.mode),
        "here": ("here", here, s.family, s.precision, s.mode, s.compiled),
        "card family": ("card family", s.gpu, s.family),
        "device": ("device", here),
        "setting": ("setting", s.gpu, setting),
        "card": ("card", s.gpu),
        "family": ("family", s.family),
        "all": ("all",),
    }
    if not own:
        del keys["here"], keys["device"]
    return keys


def _robust(
    rows: Sequence[Loadings],
    values: Sequence[float],
    noise: Sequence[float],
    far: Sequence[float],
    groups: Sequence[Hashable],
    runs: Sequence[Hashable],
) -> tuple[Posterior | None, list[int]]:
    """The posterior of what can be believed, and which observations cannot (yet).

    An observation further than `far` from zero is believed when two others from other runs of its group agree
    with it, or when the rest already brings it near; one that the rest leaves far is not.
    """
    near = {i for i, value in enumerate(values) if abs(value) <= far[i]}
    kept = near | {i for i in range(len(values)) if i not in near and _agreed(i, values, groups, runs)}
    agreed = kept - near
    for _ in range(2):
        posterior = _posterior(rows, values, noise, sorted(kept))
        expected = [0.0 if posterior is None else posterior.mean(row) for row in rows]
        if posterior is not None:
            for i, others in zip(sorted(kept), posterior.from_others.tolist(), strict=True):
                expected[i] = others
        believed = agreed | {i for i, v in enumerate(values) if abs(v - expected[i]) <= far[i]}
        if believed == kept:
            break
        kept = believed
    else:
        posterior = _posterior(rows, values, noise, sorted(kept))
    return posterior, [i for i in range(len(values)) if i not in kept]


def _agreed(i: int, values: Sequence[float], groups: Sequence[Hashable], runs: Sequence[Hashable]) -> bool:
    with_it = {
        runs[j] for j in range(len(values))
        if groups[j] == groups[i] and abs(values[j] - values[i]) <= AGREE
    }  # fmt: skip
    return len(with_it) >= ENOUGH_RUNS


def _posterior(
    rows: Sequence[Loadings], values: Sequence[float], noise: Sequence[float], kept: Sequence[int]
) -> Posterior | None:
    if not kept:
        return None
    return Posterior([rows[i] for i in kept], [values[i] for i in kept], [noise[i] for i in kept], FREEDOM)


def _where(one: _Seen) -> str:
    return one.subject.device or one.subject.gpu


class _TimePosterior:
    def __init__(self, seen: Sequence[_Seen]) -> None:
        told = [s for s in seen if s.what.excluded is None]
        timed = [s for s in told if s.what.step_seconds is not None]
        self._lone = lone = _lone(told)
        rows = [_time_row(s, lone) for s in timed]
        values = [log((s.what.step_seconds or 0.0) / s.cold.step_seconds) for s in timed]
        noise = [_time_noise(s.what) for s in timed]
        far = [
            max(FAR if _is_own(s.what) else FAR_IN_TABLES, FAR_SDS * sqrt(sum(x * x for x in row.values())))
            for s, row in zip(timed, rows, strict=True)
        ]
        runs = [s.what.run_id or i for i, s in enumerate(timed)]
        self._posterior, aside = _robust(rows, values, noise, far, [_where(s) for s in timed], runs)
        used = [s for i, s in enumerate(timed) if i not in set(aside)]
        self.aside = tuple(timed[i].what for i in aside)
        late = [
            (s, _time_row(s, lone)) for s in told if s.what.step_seconds is None and s.what.at_least_seconds
        ]
        late = [(s, row) for s, row in late if self._least(s) > self._mean(row)]
        late = [(s, row) for s, row in late if self._least(s) - self._mean(row) <= FAR]
        if late:
            kept = [i for i in range(len(timed)) if i not in set(aside)]
            used += [s for s, _ in late]
            self._posterior = Posterior(
                [rows[i] for i in kept] + [row for _, row in late],
                [values[i] for i in kept] + [self._least(s) for s, _ in late],
                [noise[i] for i in kept] + [_time_noise(s.what) for s, _ in late],
                FREEDOM,
            )
        self._levels = _Levels(used, lone)

    @staticmethod
    def _least(one: _Seen) -> float:
        return log((one.what.at_least_seconds or 0.0) / one.cold.step_seconds)

    def _mean(self, row: Loadings) -> float:
        return 0.0 if self._posterior is None else self._posterior.mean(row)

    def correction(
        self, subject: Subject, shares: Sequence[float], card_log_sd: float
    ) -> TimeCorrection | None:
        n, basis, exact = self._levels.closest(subject)
        if self._posterior is None or not n:
            return None
        levels = _time_levels(subject, card_log_sd, own=True)
        parts = [_part_effects(subject, part) for part in PARTS]
        whole = {**levels, **_weighted(parts, shares)}
        if (subject.device or subject.gpu) in self._lone:
            whole = _own_levels(levels)
        return TimeCorrection(
            self._posterior.mean(levels),
            tuple(self._posterior.mean(part) for part in parts),
            sqrt(self._posterior.sd(whole) ** 2 + FLOOR_SD**2),
            n,
            basis,
            exact,
        )


def _time_noise(o: Observation) -> float:
    return sqrt(NOISE_SD**2 + STEP_NOISE_SD**2 / max(o.n, 1)) if _is_own(o) else TABLE_NOISE_SD


def _is_own(o: Observation) -> bool:
    """Observed by a run here, not read in a table."""
    return o.run_id != "" or o.device != ""


def _time_levels(subject: Subject, card_log_sd: float, own: bool) -> dict[Hashable, float]:
    sd = {**TIME_SD, "card": card_log_sd}
    return {key: sd[level] for level, key in _level_keys(subject, own).items()}


def _own_levels(levels: Mapping[Any, float]) -> dict[Hashable, float]:
    return {key: sd for key, sd in levels.items() if key[0] in OWN_LEVELS}


def _part_effects(s: Subject, part: str) -> dict[Hashable, float]:
    return {("part", part, s.gpu, s.precision, s.layout, s.mode, s.stack): PART_SD}


def _weighted(parts: Sequence[Loadings], shares: Sequence[float]) -> dict[Hashable, float]:
    return {
        effect: loading * share
        for part, share in zip(parts, shares, strict=True) if share > 0.0
        for effect, loading in part.items()
    }  # fmt: skip


def _lone(seen: Iterable[_Seen]) -> set[str]:
    """Devices on which only one network was observed."""
    models: dict[str, set[str]] = {}
    for one in seen:
        models.setdefault(_where(one), set()).add(one.subject.model)
    return {where for where, names in models.items() if len(names) < 2}


def _time_row(one: _Seen, lone: Container[str]) -> dict[Hashable, float]:
    levels = _time_levels(one.subject, one.cold.card_log_sd, _is_own(one.what))
    if _where(one) in lone:
        return _own_levels(levels)
    parts = [_part_effects(one.subject, part) for part in PARTS]
    return {**levels, **_weighted(parts, one.cold.shares)}


class _MemoryPosterior:
    def __init__(self, seen: Sequence[_Seen], reading: Reading) -> None:
        told = [
            replace(s, subject=_for_memory(s.subject)) for s in seen if _peak(s.what, reading) is not None
        ]
        rows = [
            {**_fixed_row(s.subject, own), **_share_row(s.subject, own, s.cold.allocated_gib)}
            for s in told for own in [_is_own(s.what)]
        ]  # fmt: skip
        predicted = [_cold_peak(s, reading) for s in told]
        values = [float(_peak(s.what, reading) or 0.0) - p for s, p in zip(told, predicted, strict=True)]
        noise = [MEMORY_NOISE_GIB + MEMORY_NOISE_SHARE * p for p in predicted]
        far = [max(FAR_GIB, FAR_SHARE * p) for p in predicted]
        runs = [s.what.run_id or i for i, s in enumerate(told)]
        self._posterior, aside = _robust(rows, values, noise, far, [_where(s) for s in told], runs)
        self._levels = _Levels(s for i, s in enumerate(told) if i not in set(aside))

    def correction(self, subject: Subject) -> MemoryCorrection | None:
        n, basis, exact = self._levels.closest(subject)
        if self._posterior is None or not n:
            return None
        fixed, share = _fixed_row(subject, True), _share_row(subject, True, 1.0)
        a, c = self._posterior.sd(fixed) ** 2, self._posterior.sd(share) ** 2
        both = self._posterior.sd({**fixed, **share}) ** 2
        slope = max(-0.5, self._posterior.mean(share))
        return MemoryCorrection(
            self._posterior.mean(fixed), slope, (a, (both - a - c) / 2.0, c), n, basis, exact
        )


def _for_memory(s: Subject) -> Subject:
    """Memory follows the class of precision and whether gradients are kept, not layout or speed."""
    return replace(
        s, precision=precision_class(s.precision), layout="", optimizer="", compiled=False, stack=""
    )


def _cold_peak(one: _Seen, reading: Reading) -> float:
    """PyTorch counts cuDNN's workspace as allocated while it lives, so anything from live tensors alone to
    all that is reserved agrees with the prediction."""
    if reading == "allocated":
        seen = one.what.peak_allocated_gib or 0.0
        return min(max(seen, one.cold.allocated_gib), max(one.cold.reserved_gib, one.cold.allocated_gib))
    return one.cold.reserved_gib if reading == "reserved" else one.cold.driver_gib


def _fixed_row(subject: Subject, own: bool) -> dict[Hashable, float]:
    keys = _level_keys(subject, own)
    return {("gib", keys[level]): sd for level, sd in MEMORY_SD_GIB.items() if level in keys}


def _share_row(subject: Subject, own: bool, allocated_gib: float) -> dict[Hashable, float]:
    keys = _level_keys(subject, own)
    return {
        ("share", keys[level]): sd * allocated_gib
        for level, sd in MEMORY_SHARE_SD.items() if level in keys
    }  # fmt: skip


def _peak(o: Observation, reading: Reading) -> float | None:
    return {
        "allocated": o.peak_allocated_gib,
        "reserved": o.peak_reserved_gib,
        "driver": o.peak_driver_gib,
    }[reading]


class _FirstEpoch:
    def __init__(self, seen: Sequence[_Seen]) -> None:
        told = [s for s in seen if s.what.first_epoch_ratio is not None]
        rows = [self._row(s.subject) for s in told]
        values = [log(s.what.first_epoch_ratio or 1.0) for s in told]
        self._posterior = (
            Posterior(rows, values, [FIRST_EPOCH_NOISE_SD] * len(rows), FREEDOM) if rows else None
        )
        self._levels = _Levels(told)

    @staticmethod
    def _row(subject: Subject) -> dict[Hashable, float]:
        keys = _level_keys(subject, True)
        return {keys[level]: sd for level, sd in FIRST_EPOCH_SD.items()}

    def ratio(self, subject: Subject) -> RatioLearned | None:
        n, basis, _ = self._levels.closest(subject)
        if self._posterior is None or not n:
            return None
        row = self._row(subject)
        spread = sqrt(self._posterior.sd(row) ** 2 + FIRST_EPOCH_NOISE_SD**2)
        return RatioLearned(exp(self._posterior.mean(row)), spread, n, basis)
