"""Outcome of a run from its events: epochs, use of the device, memory.

The same set of events gives the same outcome in every order of arrival: they are read by seq.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from memory_service.domain.monitoring.event import OWN_FIT, SERVER_SEQ, Event, number_of
from memory_service.domain.monitoring.plausibility import SET_ASIDE
from memory_service.domain.planning.fits import split_of

EPOCHS_SHOWN = 2_000
"""The latest that a summary keeps one by one; boosted trees report a round as an epoch."""

STALL_SECONDS = 120.0
STALL_TIMES = 3.0
"""A pause is a stall when it is over both: two minutes, and three times the usual pause of the run."""

VALIDATION_COST = 1 / 3
"""Of a held-out sample, in trained ones: a forward pass, where the backward one takes twice as long."""

WARM_STEPS = 10
"""Steps before these choose kernels and fill the loader's queues."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most memory that was reported, by kind (GiB); None = not reported. driver: of this process on the
    card; host: of it and its children in the host's memory."""

    allocated_gib: float | None = None
    reserved_gib: float | None = None
    driver_gib: float | None = None
    host_gib: float | None = None

    def __or__(self, other: Peaks) -> Peaks:
        return Peaks(*(_most(getattr(self, name), getattr(other, name)) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Epoch:
    """One finished epoch. `seconds` without validation as far as reported apart (`valid_seconds`).

    samples   trained on in `seconds`; None when neither reported nor known from n_train and folds
    validated   held-out samples whose time is in `seconds`, too, and was not told apart
    """

    fold: int
    epoch: int
    seq: int
    at_seconds: float
    batch_size: int | None
    seconds: float | None
    valid_seconds: float | None
    samples: float | None
    loader_wait_percent: float | None
    reported: Mapping[str, Any]
    validated: float = 0.0

    @property
    def step_seconds(self) -> float | None:
        """A step of this epoch, waiting for the loader and validation taken off; None where something is
        missing. All rows in one batch are a round of boosted trees: its validation is in its prediction."""
        if not self.seconds or not self.samples or not self.batch_size:
            return None
        busy = self.seconds * (1.0 - (self.loader_wait_percent or 0.0) / 100.0)
        if self.batch_size < self.samples:
            busy *= self.samples / (self.samples + VALIDATION_COST * self.validated)
        return busy / -(-self.samples // self.batch_size) if busy > 0.0 else None


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Steps that a batch event summed up; `first`: the run had not made `WARM_STEPS` before it."""

    batch_size: int | None
    steps: int
    seconds: float
    waited_seconds: float
    first: bool

    @property
    def step_seconds(self) -> float:
        return max(self.seconds - self.waited_seconds, 0.0) / self.steps


@dataclass(frozen=True, slots=True)
class FinishedFit:
    """A fit of an estimator, told as a whole or by its rounds (1 where there are none).

    rows and columns: None where they were not told.
    """

    model: str
    fold: int
    seconds: float
    rounds: int = 1
    rows: float | None = None
    columns: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What the samples of the device say. Shares are of the samples that report it; None when none does.
    crowded: threads of the run were ready in over a tenth of the time and other work had the cores."""

    samples: int = 0
    utilization_percent: float | None = None
    used_gib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    shared: float | None = None
    throttled: float | None = None
    crowded: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did, as far as reported.

    epochs    by fold and epoch; of two that claim one place the later seq counts, of a log what else it told
    peaks     batch size -> most memory while it was used (None: no batch size was ever reported)
    last_seconds   own time of the latest event
    first_submission_seconds   own time of the first note that a submission was written
    stalled_seconds   in long pauses between two signs of progress, over the usual pause
    """

    epochs: tuple[Epoch, ...] = ()
    step_windows: tuple[StepWindow, ...] = ()
    use: DeviceUse = field(default_factory=DeviceUse)
    peaks: Mapping[int | None, Peaks] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    last_seconds: float | None = None
    out_of_memory: bool = False
    first_submission_seconds: float | None = None
    stalled_seconds: float = 0.0
    fits_told: tuple[FinishedFit, ...] = ()

    @property
    def fits(self) -> tuple[FinishedFit, ...]:
        """Fits as they were told; where none was, of the rounds that were reported as epochs."""
        if self.fits_told:
            return self.fits_told
        folds: dict[int, list[Epoch]] = {}
        for epoch in self.epochs:
            if epoch.seconds:
                folds.setdefault(epoch.fold, []).append(epoch)
        return tuple(
            FinishedFit(OWN_FIT, fold, sum(s * n for s, n in told), sum(n for _, n in told), some[0].samples)
            for fold, some in folds.items()
            for told in [[(one.seconds or 0.0, one.epoch - before) for before, one in _after(some)]]
        )

    @property
    def first(self) -> Epoch | None:
        """The epoch that ran first: it fills the page cache and chooses kernels."""
        return min(self.epochs, key=lambda epoch: epoch.seq, default=None)

    @property
    def steady(self) -> tuple[Epoch, ...]:
        """All epochs but the first."""
        first = self.first
        return tuple(epoch for epoch in self.epochs if epoch is not first)

    @property
    def peak(self) -> Peaks:
        total = Peaks()
        for peaks in self.peaks.values():
            total |= peaks
        return total

    @property
    def epoch_seconds(self) -> float | None:
        """Median of the steady epochs, validation and loader included."""
        return _median(e.seconds + (e.valid_seconds or 0.0) for e in self.steady if e.seconds)

    @property
    def loader_wait_percent(self) -> float | None:
        """Median over the steady epochs that report it, else over the batch events."""
        waits = [e.loader_wait_percent for e in self.steady if e.loader_wait_percent is not None]
        if waits:
            return _median(waits)
        waits = [100.0 * s.waited_seconds / s.seconds for s in self.step_windows if s.seconds and not s.first]
        return _median(waits)

    def as_dict(self) -> dict[str, Any]:
        """The wire form: what a run's page shows and a summary keeps."""
        shown = self.epochs[-EPOCHS_SHOWN:]
        return {
            "epochs_done": len(self.epochs),
            "folds_seen": len({epoch.fold for epoch in self.epochs}),
            "epoch_seconds": self.epoch_seconds,
            "loader_wait_percent": self.loader_wait_percent,
            "peak_memory_gib": asdict(self.peak),
            "device": asdict(self.use),
            "events": dict(self.counts),
            "last_event_after_seconds": self.last_seconds,
            "first_submission_seconds": self.first_submission_seconds,
            "epochs": [dict(epoch.reported) for epoch in shown],
            "epochs_left_out": len(self.epochs) - len(shown),
        }


def _after(rounds: Sequence[Epoch]) -> Iterator[tuple[int, Epoch]]:
    """Each reported round with the number of the one reported before it: its seconds are the mean of those
    since."""
    before = -1 if min(one.epoch for one in rounds) == 0 else 0
    for one in sorted(rounds, key=lambda each: each.epoch):
        yield before, one
        before = one.epoch


def _validated(fields: Mapping[str, Any], n_train: int | None, samples: float | None) -> float:
    """Held-out samples that an epoch's time holds: those of the split, if it reports a result on them and no
    `valid_seconds`."""
    results = (number_of(fields.get(name)) for name in ("valid_loss", "metric"))
    if not n_train or not samples or all(value is None for value in results):
        return 0.0
    return max(0.0, n_train - samples) if number_of(fields.get("valid_seconds")) is None else 0.0


def trained_samples(n_train: int | None, folds: int | None) -> float | None:
    """Samples of one epoch's training part, where the run stated how its data is split."""
    return float(split_of(n_train, folds)[0]) if n_train and folds else None


def best_of(values: Iterable[float | None], direction: str | None) -> tuple[float, int] | None:
    """(best value, how many values up to it); None without values or a direction ("max" | "min")."""
    sign = {"max": -1.0, "min": 1.0}.get(direction or "")
    known = [(value, n) for n, value in enumerate(values, 1) if value is not None]
    if not known or sign is None:
        return None
    return min(known, key=lambda one: (sign * one[0], one[1]))


def outcome_of(
    events: Iterable[Event],
    *,
    batch_size: int | None = None,
    n_train: int | None = None,
    folds: int | None = None,
) -> Outcome:
    """The outcome of a run that began with these facts (None = not stated); what events say later wins."""
    ordered = sorted(events, key=lambda event: event.seq)
    logged = any(event.kind == "epoch" and event.seq >= SERVER_SEQ for event in ordered)
    reader = _Reader(int(logged), batch_size, n_train, trained_samples(n_train, folds))
    for event in ordered:
        reader.read(event)
    return reader.outcome(ordered)


def _ordinal(value: Any) -> int | None:
    """A whole number, also as text, as older clients sent it; None for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


class _Reader:
    """Reads events in the order of seq. A memory reading belongs to the batch of the epoch it is part of: the
    next one that states its batch, else the batch before."""

    def __init__(
        self, first_fold: int, batch_size: int | None, n_train: int | None, samples: float | None
    ) -> None:
        self.first_fold = first_fold
        self.batch = batch_size
        self.n_train = n_train
        self.usual_samples = samples
        self.epochs: dict[tuple[int, int], Epoch] = {}
        self.step_windows: list[StepWindow] = []
        self.peaks: dict[int | None, Peaks] = {}
        self.pending = Peaks()
        self.steps = 0
        self.out_of_memory = False
        self.fits: dict[tuple[str, int], FinishedFit] = {}

    def read(self, event: Event) -> None:
        fields = event.fields
        stated = number_of(fields.get("batch_size"))
        if stated:
            if self.batch not in (None, int(stated)) and event.kind not in ("epoch", "batch"):
                self._settle()
            self.batch = int(stated)
        if event.kind in ("gpu", "epoch"):
            self.pending |= _peaks(fields)
        if event.kind == "epoch" and "epoch" not in fields.get(SET_ASIDE, ()):
            self._epoch(event)
            self._settle()
        elif event.kind == "batch":
            self._step_window(fields)
        elif event.kind == "note":
            self.out_of_memory |= fields.get("out_of_memory") is True
            self._fit(fields)

    def _fit(self, fields: Mapping[str, Any]) -> None:
        name, seconds = fields.get("fit"), number_of(fields.get("seconds"))
        if not isinstance(name, str) or not seconds:
            return
        fold, columns = _ordinal(fields.get("fold")) or 0, _ordinal(fields.get("columns"))
        rounds, rows = _ordinal(fields.get("rounds")) or 1, number_of(fields.get("rows"))
        self.fits[name, fold] = FinishedFit(name, fold, seconds, rounds, rows or self.usual_samples, columns)

    def _settle(self) -> None:
        self.peaks[self.batch] = self.peaks.get(self.batch, Peaks()) | self.pending
        self.pending = Peaks()

    def _epoch(self, event: Event) -> None:
        fields = event.fields
        number = _ordinal(fields.get("epoch"))
        fold = _ordinal(fields.get("fold", self.first_fold)) or 0
        epoch = len(self.epochs) if number is None else number
        known = self.epochs.get((fold, epoch))
        if known is not None and event.seq >= SERVER_SEQ > known.seq:
            fields = {**fields, **known.reported}
            event = event._replace(seq=known.seq, at_seconds=known.at_seconds)
        seconds, valid = number_of(fields.get("seconds")), number_of(fields.get("valid_seconds"))
        if seconds is not None and valid is not None:
            seconds = max(seconds - valid, 0.0)
        self.epochs[fold, epoch] = Epoch(
            fold, epoch, event.seq, event.at_seconds, self.batch, seconds, valid,
            number_of(fields.get("samples")) or self.usual_samples,
            number_of(fields.get("loader_wait_percent")),
            {"fold": fold, "epoch": epoch, "batch_size": self.batch, **fields},
            _validated(fields, self.n_train, self.usual_samples),
        )  # fmt: skip

    def _step_window(self, fields: Mapping[str, Any]) -> None:
        steps, seconds = number_of(fields.get("steps")), number_of(fields.get("seconds"))
        if not steps or int(steps) < 1 or not seconds:
            return
        percent = number_of(fields.get("loader_wait_percent")) or 0.0
        waited = number_of(fields.get("loader_wait_seconds"))
        waited = seconds * percent / 100.0 if waited is None else waited
        first = self.steps < WARM_STEPS
        self.step_windows.append(StepWindow(self.batch, int(steps), seconds, min(waited, seconds), first))
        self.steps += int(steps)

    def outcome(self, events: Sequence[Event]) -> Outcome:
        if self.pending != Peaks():
            self._settle()
        times = [event.at_seconds for event in events]
        submitted = [event.at_seconds for event in events if event.fields.get("submission") is True]
        return Outcome(
            tuple(self.epochs[key] for key in sorted(self.epochs)),
            tuple(self.step_windows),
            _use([event.fields for event in events if event.kind == "gpu"]),
            self.peaks,
            dict(sorted(Counter(event.kind for event in events).items())),
            max(times, default=None),
            self.out_of_memory,
            min(submitted, default=None),
            _stalled([event.at_seconds for event in events if event.kind != "gpu"]),
            tuple(self.fits.values()),
        )


def _stalled(moments: Sequence[float]) -> float:
    ordered = sorted(moments)
    pauses = [after - before for before, after in pairwise(ordered) if after > before]
    if not pauses:
        return 0.0
    usual = float(np.median(pauses))
    limit = max(STALL_SECONDS, STALL_TIMES * usual)
    return sum(pause - usual for pause in pauses if pause > limit)


def _peaks(fields: Mapping[str, Any]) -> Peaks:
    """Never "allocated now": between steps that is about the weights only. The whole card's use counts as the
    process's where nobody else is said to use it and the process's own share is not reported."""
    driver = number_of(fields.get("process_gib"))
    if driver is None and not fields.get("other_processes"):
        driver = number_of(fields.get("used_gib"))
    return Peaks(
        number_of(fields.get("peak_allocated_gib")),
        _most(number_of(fields.get("peak_reserved_gib")), number_of(fields.get("reserved_gib"))),
        driver,
        number_of(fields.get("host_gib")),
    )


def _use(samples: Sequence[Mapping[str, Any]]) -> DeviceUse:
    def numbers(name: str) -> list[float]:
        return [value for s in samples if (value := number_of(s.get(name))) is not None]

    def share(flags: list[bool]) -> float | None:
        return sum(flags) / len(flags) if flags else None

    return DeviceUse(
        samples=len(samples),
        utilization_percent=_median(numbers("utilization_percent")),
        used_gib=max(numbers("used_gib"), default=None),
        power_w=_median(numbers("power_w")),
        temperature_c=max(numbers("temperature_c"), default=None),
        shared=share([value > 0 for value in numbers("other_processes")]),
        throttled=share([bool(s["throttled"]) for s in samples if s.get("throttled") is not None]),
        crowded=share([_is_crowded(s) for s in samples if s.get("cpu_wait_percent") is not None]),
    )


CROWDED_PERCENT, FREE_PERCENT = 10.0, 90.0
"""Waiting for a core, of the time that threads ran or were ready; a process that has more than so much of its
cores waits for itself."""


def _is_crowded(sample: Mapping[str, Any]) -> bool:
    waited, used = (number_of(sample.get(name)) for name in ("cpu_wait_percent", "cpu_percent"))
    return (waited or 0.0) > CROWDED_PERCENT and (used is None or used < FREE_PERCENT)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return float(np.median(found)) if found else None


def _most(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)
