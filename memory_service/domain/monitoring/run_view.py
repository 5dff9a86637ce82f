"""Derived figures of a run at its present batch: epoch times, throughput, waiting, losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

from memory_service.domain.monitoring.event import MEMORY_KINDS
from memory_service.domain.monitoring.plausibility import FAR_BEYOND
from memory_service.domain.monitoring.state import State
from memory_service.domain.monitoring.summary import BUCKET_SECONDS, MAX_BUCKETS, FoldSummary, TimeBucket
from memory_service.domain.planning.fits import split_of

GIB = 1 / (1 << 20)
MID_EPOCH = 0.97
LATE_SLACK, LATE_SLACK_SECONDS = 1.1, 10.0
"""Epochs of a fold that took longer than the run's own time, by this much, were told afterwards."""


@dataclass(frozen=True, slots=True)
class FinishedEpoch:
    """One finished epoch. seconds: as reported, else between its end and the previous one's; None = unknown.

    first   it includes what only a first epoch has: cold page cache, kernels being chosen
    """

    fold: int
    epoch: int
    at_seconds: float
    seconds: float | None
    first: bool
    loader_wait_percent: float | None
    utilization_percent: float | None
    memory_gib: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Position:
    """Where the run is. Counts from 0 = nothing done.

    fold_index   finished folds before the present one; epochs_done in the present fold
    per_fold     epochs that finished folds took (early stopping may end them sooner), in order
    """

    fold_index: int
    epochs_done: int
    per_fold: tuple[int, ...]


class RunView:
    """Figures derived from a state, each computed once, of the time since the batch last changed."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.summary = state.summary
        self.now = state.now_seconds

    @cached_property
    def used(self) -> float:
        """Seconds of the budget that are used: the run's own time, and what its epochs took before it began
        to report. Epochs that fit into that time, and times counted from the start, add nothing."""
        told = late = 0.0
        folds: dict[int, list[float]] = {}
        for (fold, epoch), record in sorted(self.summary.epochs.items()):
            if "seconds" in record and self._is_plausible(fold, epoch):
                folds.setdefault(fold, []).append(record["seconds"][2])
                told += record["seconds"][2]
                late = max(late, told - record["done"][0] / 1e6)
        counted_on = all(each == sorted(set(each)) and each[-1] <= self.now for each in folds.values())
        fits = max(map(sum, folds.values()), default=0.0) <= LATE_SLACK * self.now + LATE_SLACK_SECONDS
        return self.now + (0.0 if fits or counted_on else late)

    @cached_property
    def epochs(self) -> tuple[FinishedEpoch, ...]:
        """Finished epochs in their own order (fold, epoch), of the latest 48."""
        since, rows = self.state.since_us, sorted(self.summary.epochs.items())
        rows = [
            (key, record) for key, record in rows if record["done"][0] >= since and self._is_plausible(*key)
        ]
        out: list[FinishedEpoch] = []
        together = self._shared_epoch_seconds(rows)
        for (fold, epoch), record in rows:
            at = record["done"][0] / 1e6
            reported = record.get("seconds")
            seconds = reported[2] if reported else together.get(at) or self._between(out, fold, epoch, at)
            memory = {str(kind): record[kind][2] * GIB for kind in MEMORY_KINDS if kind in record}
            out.append(FinishedEpoch(
                fold, epoch, at, seconds if seconds and seconds > 0 else None,
                first=not out and epoch <= 1 and fold <= 1,
                loader_wait_percent=_value(record, "loader_wait_percent"),
                utilization_percent=_value(record, "utilization_percent"),
                memory_gib=memory,
            ))  # fmt: skip
        return tuple(out)

    def _shared_epoch_seconds(
        self, rows: Sequence[tuple[tuple[int, int], Mapping[str, Any]]]
    ) -> dict[float, float]:
        """Moment -> seconds an epoch, where several came at one moment: a log sent every few minutes has no
        times of its own, so its epochs share the time since the moment before."""
        units: dict[float, list[int]] = {}
        last: dict[int, int] = {}
        for (fold, epoch), record in rows:
            if "seconds" not in record:
                at = record["done"][0] / 1e6
                units.setdefault(at, []).append(max(1, epoch - last.get(fold, epoch - 1)))
            last[fold] = epoch
        moments = sorted({record["done"][0] / 1e6 for _, record in rows})
        begun = min((f.begun_us for f in self.summary.folds.values() if f.begun_us is not None), default=0)
        starts = [max(self.state.since_us, begun) / 1e6, *moments]
        before = {at: start for at, start in zip(moments, starts, strict=False) if start < at}
        if moments and moments[0] not in before:
            before[moments[0]] = self.state.since_us / 1e6
        return {at: (at - before[at]) / sum(each) for at, each in units.items() if len(each) > 1}

    def _between(self, before: list[FinishedEpoch], fold: int, epoch: int, at: float) -> float | None:
        if before and before[-1].fold == fold:
            return (at - before[-1].at_seconds) / (epoch - before[-1].epoch)
        known = self.summary.folds.get(fold, FoldSummary())
        if known.begun_us is not None and known.begun_us / 1e6 < at and known.first_epoch == epoch:
            return at - known.begun_us / 1e6
        if not before and epoch <= 1:
            return at - max(0.0, self.state.since_us / 1e6)
        return None

    @cached_property
    def first_number(self) -> int:
        """Number of the first epoch: 0 or 1, by the least that was reported."""
        first = [f.first_epoch for f in self.summary.folds.values() if f.first_epoch is not None]
        return 0 if min(first, default=1) == 0 else 1

    @cached_property
    def position(self) -> Position:
        """Folds and epochs done. Folds, too, may be counted from 0 or from 1."""
        folds, planned = self.summary.folds, self.state.whole("folds")
        begun = [n for n, f in folds.items() if f.last_epoch is not None or f.begun_us is not None]
        counts = {n: self._epochs_done(n) for n in begun if self._is_plausible(n)}
        if not counts:
            return Position(0, 0, ())
        *finished, present = sorted(counts)
        index = max(present - (0 if min(counts) == 0 else 1), len(finished))
        if planned:
            index = min(index, max(planned - 1, len(finished)))
        done = tuple(counts[n] for n in finished if counts[n] > 0)
        if folds[present].done:
            return Position(index + 1, 0, (*done, counts[present]))
        return Position(index, counts[present], done)

    def _epochs_done(self, fold: int) -> int:
        """At most the planned ones; a single number far beyond them is a slip."""
        last, planned = self.summary.folds[fold].last_epoch, self.state.whole("epochs")
        if last is None:
            return 0
        done = last - self.first_number + 1
        if not planned or done <= planned:
            return done
        if done <= FAR_BEYOND * planned:
            return planned
        plausible = [e.epoch for e in self.epochs if e.fold == fold]
        return min(planned, max(plausible, default=last) - self.first_number + 1)

    def _is_plausible(self, fold: int, epoch: int = 0) -> bool:
        """Whether a number can be meant: one far beyond the plan is a slip, unless all are beyond it."""
        folds, epochs = self.state.whole("folds"), self.state.whole("epochs")
        if folds and fold > folds and min(self.summary.folds, default=fold) <= folds:
            return False
        return not epochs or epoch <= FAR_BEYOND * epochs or self._all_far_beyond

    @cached_property
    def _all_far_beyond(self) -> bool:
        most = FAR_BEYOND * (self.state.whole("epochs") or 1)
        return all(epoch > most for _, epoch in self.summary.epochs)

    @cached_property
    def later_epoch_seconds(self) -> tuple[float, ...]:
        """Seconds of the epochs after the first, as far as they are known."""
        return tuple(e.seconds for e in self.epochs if not e.first and e.seconds is not None)

    @cached_property
    def first_epoch_seconds(self) -> float | None:
        return next((e.seconds for e in self.epochs if e.first), None)

    @property
    def train_losses(self) -> tuple[float, float]:
        """Of the first and the latest epoch of the present fold, of those that are kept; 0 where not told."""
        fold = [(e.fold, e.epoch) for e in self.epochs if e.fold == self.epochs[-1].fold]
        told = [self.summary.epochs[key].get("train_loss") for key in fold]
        losses = [loss[2] or 0.0 for loss in told if loss is not None]
        return (losses[0], losses[-1]) if losses else (0.0, 0.0)

    @cached_property
    def _buckets(self) -> list[tuple[int, TimeBucket]]:
        since = self.state.since_us // (BUCKET_SECONDS * 1_000_000)
        return [(n, sums) for n, sums in sorted(self.summary.time_buckets.items()) if n >= since]

    @cached_property
    def step_seconds(self) -> float | None:
        """Mean seconds a step, data-loader wait included: counted, else by the latest progress line."""
        steps = sum(s.steps for _, s in self._buckets if s.busy > 0)
        busy = sum(s.busy for _, s in self._buckets)
        if steps and busy:
            return busy / 1e6 / steps
        if self.summary.progress is not None:
            step, elapsed = self.summary.progress[2][3:5]
            if step and elapsed:
                return float(elapsed) / int(step)
        return None

    @cached_property
    def longest_pause_seconds(self) -> float:
        """The longest time between two reports of progress in the latest 320 s; 0 for fewer than two."""
        moved = [n for n, sums in self._buckets if sums.progress]
        return max((b - a for a, b in pairwise(moved)), default=0) * float(BUCKET_SECONDS)

    @cached_property
    def steps_seen(self) -> int | None:
        """Training steps so far; None where the run reports none."""
        return max(self.summary.steps, self.summary.top_step) or None

    @cached_property
    def reported_steps_per_epoch(self) -> int | None:
        """By a progress line or the run's own setting."""
        progress = self.summary.progress
        if progress is not None and progress[2][2] and progress[2][5] == "epoch":
            return int(progress[2][2])
        return self.state.whole("steps_per_epoch")

    @cached_property
    def steps_per_epoch(self) -> int | None:
        """As reported, else from the training samples and the batch size."""
        n_train, batch = self.state.whole("n_train"), self.state.batch_size
        if self.reported_steps_per_epoch or not n_train or not batch:
            return self.reported_steps_per_epoch
        fit, _ = split_of(n_train, self.state.whole("folds") or 1)
        return max(1, ceil(float(fit) / batch))

    @cached_property
    def in_mid_epoch(self) -> bool:
        """Whether the latest progress line lies well before the end of its epoch: no validation is due."""
        progress, of = self.summary.progress, self.reported_steps_per_epoch
        return progress is not None and of is not None and progress[2][3] < MID_EPOCH * of

    @cached_property
    def samples_per_second(self) -> float | None:
        """Throughput of training steps, data-loader wait included; None where steps are not reported."""
        batch = self.state.batch_size
        busy = sum(s.busy for _, s in self._buckets)
        samples = sum(s.samples for _, s in self._buckets)
        if busy and samples:
            return samples * 1e6 / busy
        if self.step_seconds and batch:
            return batch * max(1, len(self.summary.ranks)) / self.step_seconds
        return None

    @cached_property
    def epoch_samples_per_second(self) -> float | None:
        """Training samples over the whole time of an epoch: a lower bound of the throughput."""
        seconds = median(self.later_epoch_seconds) if self.later_epoch_seconds else self.first_epoch_seconds
        n_train = self.state.whole("n_train")
        if not seconds or not n_train:
            return None
        fit, _ = split_of(n_train, self.state.whole("folds") or 1)
        return float(fit) / seconds

    @cached_property
    def wait_percents(self) -> tuple[float, ...]:
        """Data-loader wait in percent of the time, averaged from the start to each time bucket."""
        out, known, waited = [], 0, 0
        for _, sums in self._buckets:
            if sums.wait_known > 0:
                known, waited = known + sums.wait_known, waited + sums.waited
                out.append(100.0 * waited / known)
        if out:
            return (*out[:-1], max(out[-1], self.slowest_wait_percent))
        values = [e.loader_wait_percent for e in self.epochs if e.loader_wait_percent is not None]
        return tuple(sum(values[:n]) / n for n in range(1, len(values) + 1))

    @cached_property
    def slowest_wait_percent(self) -> float:
        """Waiting for the loader of the process that waits most: the others wait for it in their exchange."""
        return max((100.0 * r[3] / r[2] for r in self.summary.ranks.values() if r[2]), default=0.0)

    @cached_property
    def utilization(self) -> float | None:
        """Mean share of time in which any kernel ran, percent, in training where that was sampled."""
        training, all_of_it = self._sampled
        for total, n in (training, all_of_it):
            if n:
                return total / 1000.0 / n
        values = [e.utilization_percent for e in self.epochs if e.utilization_percent is not None]
        return median(values) if values else None

    @cached_property
    def samples_in_training(self) -> int:
        """Samples of utilization since the first step."""
        return self._sampled[0][1]

    @cached_property
    def _sampled(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(sum of utilization, samples) since the first step, and in all."""
        first = (self.summary.first_step_us or 0) // (BUCKET_SECONDS * 1_000_000)
        sums = [(bucket >= first, s.utilization, s.sampled) for bucket, s in self._buckets]
        training = (sum(u for inside, u, _ in sums if inside), sum(n for inside, _, n in sums if inside))
        return training, (sum(u for _, u, _ in sums), sum(n for _, _, n in sums))

    def is_recent(self, when_us: int | None) -> bool:
        """Whether this moment lies within the time that the buckets cover (320 s)."""
        return when_us is not None and when_us / 1e6 >= self.now - BUCKET_SECONDS * MAX_BUCKETS

    @cached_property
    def max_temperature_c(self) -> float:
        return max((s.temperature for _, s in self._buckets), default=0) / 10.0

    def memory_since(self, kind: str) -> float | None:
        """Highest figure of a kind in GiB since the batch changed; None when there was none."""
        if self.state.since_us == 0:
            kib = self.summary.peaks.get(kind)
            return None if kib is None else kib * GIB
        first = self.state.since_us // (BUCKET_SECONDS * 1_000_000)
        values = [p[kind] * GIB for n, p in self.summary.bucket_peaks.items() if n >= first and kind in p]
        values += [e.memory_gib[kind] for e in self.epochs if kind in e.memory_gib]
        return max(values, default=None)


def _value(record: Mapping[str, tuple[int, int, object]], name: str) -> float | None:
    reported = record.get(name)
    return None if reported is None else float(reported[2])  # type: ignore[arg-type]
