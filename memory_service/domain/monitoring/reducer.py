"""Reduces events into a summary, in any order.

Every part of a `Summary` is a maximum, a minimum, a sum of whole numbers, the latest by (own time, seq), or
the largest K keys of such parts: commutative and associative, so the same set of events gives the same
summary in every order of arrival. A key outside the largest K can never come back in, so forgetting it loses
no exactness. Each event must be folded once (the store drops a repeated seq before it comes here).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, NamedTuple

from memory_service.domain.monitoring.event import (
    AS_TOLD,
    MEMORY_FIELDS,
    SETTING_FIELDS,
    Event,
    is_bad_loss,
    loss_of,
    number_of,
)
from memory_service.domain.monitoring.plausibility import SET_ASIDE
from memory_service.domain.monitoring.summary import (
    BUCKET_SECONDS,
    KIB_PER_GIB,
    MAX_BATCH_SIZES,
    MAX_BUCKETS,
    MAX_EPOCHS,
    MAX_FOLDS,
    MAX_RANKS,
    US,
    FoldSummary,
    RankSums,
    Stamped,
    Summary,
    TimeBucket,
    latest,
    merge_folds,
    merge_latest,
    newer,
)

SETTINGS = frozenset(SETTING_FIELDS)
_FLAGS = frozenset(("out_of_memory", "error", "throttled", "other_processes", "fit"))


class SummaryParts(NamedTuple):
    """What an event with these fields may add to. A run has few kinds of them: each is looked at once."""

    settings: bool
    memory: tuple[tuple[str, str], ...]
    percent: bool
    sample: bool
    loss: bool
    flags: bool
    aside: bool
    rank: bool


@lru_cache(1_000)
def parts_of(*names: str) -> SummaryParts:
    """The parts that an event with these fields can add to."""
    known = frozenset(names)
    return SummaryParts(
        settings=not known.isdisjoint(SETTINGS),
        memory=tuple((name, kind) for name, kind in MEMORY_FIELDS.items() if name in known),
        percent="memory_percent" in known,
        sample="utilization_percent" in known or "temperature_c" in known,
        loss="train_loss" in known or "loss" in known,
        flags=not known.isdisjoint(_FLAGS),
        aside=SET_ASIDE in known,
        rank="rank" in known,
    )


NO_RANK_SUMS: RankSums = (0,) * 6
MOST_SUM = 2**62
"""JSON is written with whole numbers of 64 bits: no sum goes beyond this, in whatever order it came to be."""


def _within(*sums: int) -> list[int]:
    return [min(one, MOST_SUM) for one in sums]


def batch_sums(body: Mapping[str, Any], steps: float) -> tuple[int, int, int, int, int]:
    """(steps, busy us, of these us whose waiting is known, us waited for the loader, samples) of an event
    about so many steps."""
    seconds = number_of(body.get("seconds"), most=1e7) or 0.0
    waited = number_of(body.get("loader_wait_seconds"), most=1e7)
    percent = number_of(body.get("loader_wait_percent"), most=100.0)
    if waited is None and percent is not None:
        waited = seconds * percent / 100.0
    busy_us = round(seconds * US)
    known_us, waited_us = (0, 0) if waited is None else (busy_us, min(busy_us, round(waited * US)))
    return int(steps), busy_us, known_us, waited_us, int(number_of(body.get("samples"), most=1e12) or 0.0)


def with_event(
    sums: RankSums, kind: str, body: Mapping[str, Any], memory: Iterable[tuple[str, str]]
) -> RankSums:
    """The sums of a process with one event more of it. memory: (name, kind) of the fields that say some."""
    *counted, peak = sums
    gib = [number_of(body[name], most=1e6) for name, _ in memory]
    peak = max([peak, *(round(each * KIB_PER_GIB) for each in gib if each is not None)])
    if kind == "batch":
        more = batch_sums(body, number_of(body.get("steps"), most=1e9) or 0.0)
        counted = _within(*map(sum, zip(counted, more, strict=True)))
    steps, busy, known, waited, samples = counted
    return steps, busy, known, waited, samples, peak


MAX_EPOCH_NUMBER = 1_000_000
"""An epoch, fold or step number beyond any real one is counted as odd and otherwise left alone."""

BUCKET_US = BUCKET_SECONDS * US

_NOT_NUMBERS: dict[str, type] = {
    "gpu_name": str, "precision": str, "metric_name": str, "persistent_workers": bool, "unread_line": str,
}  # fmt: skip
_EPOCH_NUMBERS = ("seconds", "samples", "loader_wait_percent", "utilization_percent", "memory_percent")
_EPOCH_SCORES = ("train_loss", "valid_loss", "metric")


def add_events(summary: Summary, events: Iterable[Event]) -> Summary:
    """The summary with more events in it, whatever their order. Costs O(events) + O(size of the summary)."""
    accumulator = SummaryAccumulator(**{name: copy(getattr(summary, name)) for name in _FIELDS})
    for event in events:
        accumulator.add(event)
    accumulator.busy_us, accumulator.samples = _within(accumulator.busy_us, accumulator.samples)
    for one in accumulator.open_buckets.values():
        one.busy, one.wait_known, one.waited, one.samples = _within(
            one.busy, one.wait_known, one.waited, one.samples
        )
    return Summary(**{name: getattr(accumulator, name) for name in _FIELDS})


_FIELDS = tuple(f.name for f in fields(Summary))


@dataclass(slots=True)
class SummaryAccumulator(Summary):
    """A summary while it is being added to. open_buckets: those that were copied and may be changed in place;
    owned_peaks: of those that were, the peaks."""

    open_buckets: dict[int, TimeBucket] = field(default_factory=dict)
    owned_peaks: dict[int, dict[str, int]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        seq, kind, at, body = event
        if at.__class__ is float and 0.0 <= at <= 1e9:
            us = round(at * US)
        else:
            seconds = number_of(at, most=1e9)
            us = round((seconds or 0.0) * US)
            self.odd += seconds is None
        self.events += 1
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if us > self.last_us:
            self.last_us = us
        settings, memory, percent, sample, loss, flags, aside, ranked = parts_of(*body)
        if aside:
            self.odd += 1
            if "epoch" in body[SET_ASIDE]:
                return
        if settings:
            self._settings(us, seq, body)
        if memory or percent:
            self._memory(us, body, memory)
        rank = self._rank(kind, body, memory) if ranked else 0
        if kind == "batch" and rank == 0:
            self._batch(us, seq, body)
        elif kind == "batch":
            self._samples_of_another(us, body)
        elif kind == "epoch":
            self._epoch(us, seq, body, memory)
        elif kind == "fold":
            self._fold(us, body)
        if sample:
            self._sample(us, body)
        if loss:
            self._loss(us, body)
        if flags:
            self._flags(us, body)

    def _flags(self, us: int, body: Mapping[str, Any]) -> None:
        for flag in ("out_of_memory", "error", "throttled"):
            if body.get(flag) is True:
                setattr(self, f"{flag}_us", latest(getattr(self, f"{flag}_us"), us))
        if body.get("other_processes") and number_of(body["other_processes"]):
            self.shared_us = latest(self.shared_us, us)
        if body.get("fit"):
            self._moved(us)
            self._bucket_sums(us).progress += 1

    def _settings(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        for name in SETTINGS & body.keys():
            value = body[name]
            if value is None:
                continue
            if name not in _NOT_NUMBERS:
                number = number_of(value)
                value = None if number is None else int(number) if number.is_integer() else number
            elif not isinstance(value, _NOT_NUMBERS[name]) or len(str(value)) > 200:
                value = None
            if value is None:
                self.odd += 1
                continue
            self.settings[name] = newer(self.settings.get(name), (us, seq, value))
            if name == "batch_size" and isinstance(value, int) and 0 < value < 1 << 40:
                first, last = self.batches.get(value, (us, us))
                self.batches[value] = (min(first, us), max(last, us))
                if len(self.batches) > MAX_BATCH_SIZES:
                    del self.batches[min(self.batches)]

    def _memory(self, us: int, body: Mapping[str, Any], reported: Iterable[tuple[str, str]]) -> None:
        for name, kind in reported:
            raw = body[name]
            if raw is None or (name == "used_gib" and body.get("process_gib") is not None):
                continue
            gib = raw if raw.__class__ is float and 0.0 <= raw <= 1e6 else number_of(raw, most=1e6)
            if gib is None:
                self.odd += 1
                continue
            self._peak(us, kind, round(gib * KIB_PER_GIB))
        if "memory_percent" in body:
            percent = number_of(body["memory_percent"], most=1000.0)
            if percent is not None:
                self._peak(us, "unstated_percent", round(percent * 1000))

    def _peak(self, us: int, kind: str, kib: int) -> None:
        if kib >= self.peaks.get(kind, 0):
            self.peaks[kind] = kib
        if self.reading_us is None or us > self.reading_us:
            self.reading_us = us
        bucket = us // BUCKET_US
        mine = self.owned_peaks.get(bucket)
        if mine is None:
            known = self.bucket_peaks
            mine = self.owned_peaks[bucket] = known[bucket] = dict(known.get(bucket, {}))
            if len(known) > MAX_BUCKETS:
                oldest = min(known)
                del known[oldest]
                self.owned_peaks.pop(oldest, None)
        if kib >= mine.get(kind, 0):
            mine[kind] = kib

    def _batch(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        steps = number_of(body.get("steps"), most=1e9)
        step = number_of(body.get("step"), most=1e9)
        if steps is None and step is None:
            steps = 1.0
        if steps:
            count, busy_us, reported_us, waited_us, samples = batch_sums(body, steps)
            self.steps += count
            self.busy_us += busy_us
            self.samples += samples
            sums = self._bucket_sums(us)
            sums.steps += count
            sums.busy += busy_us
            sums.wait_known += reported_us
            sums.waited += waited_us
            sums.samples += samples
            sums.progress += 1
        if step is not None:
            self.top_step = max(self.top_step, int(step))
            where = [number_of(body.get(name), most=1e9) for name in ("fold", "epoch", "of")]
            elapsed = number_of(body.get("elapsed_seconds"), most=1e8)
            scope = body.get("scope") if body.get("scope") in ("epoch", "run") else None
            line = [*(None if w is None else int(w) for w in where), int(step), elapsed, scope]
            self.progress = newer(self.progress, (us, seq, line))
        if steps or step:
            self._moved(us)
            if not steps:
                percent = number_of(body.get("loader_wait_percent"), most=100.0)
                sums = self._bucket_sums(us)
                sums.progress += 1
                if percent is not None:
                    sums.wait_known += US
                    sums.waited += round(percent * US / 100.0)

    def _rank(self, kind: str, body: Mapping[str, Any], memory: Iterable[tuple[str, str]]) -> int:
        """The rank of an event, whose sums it adds to."""
        rank = int(number_of(body["rank"], most=1e6) or 0)
        self.ranks[rank] = with_event(self.ranks.get(rank, NO_RANK_SUMS), kind, body, memory)
        if len(self.ranks) > MAX_RANKS:
            del self.ranks[max(self.ranks)]
        return rank

    def _samples_of_another(self, us: int, body: Mapping[str, Any]) -> None:
        samples = int(number_of(body.get("samples"), most=1e12) or 0.0)
        self.samples += samples
        self._bucket_sums(us).samples += samples

    def _moved(self, us: int) -> None:
        if self.step_us is None or us > self.step_us:
            self.step_us = us
        if self.first_step_us is None or us < self.first_step_us:
            self.first_step_us = us

    def _epoch(self, us: int, seq: int, body: Mapping[str, Any], memory: Iterable[tuple[str, str]]) -> None:
        epoch, fold = number_of(body.get("epoch")), number_of(body.get("fold", 1))
        if epoch is None or fold is None or epoch > MAX_EPOCH_NUMBER or fold > MAX_EPOCH_NUMBER:
            self.odd += 1
            return
        key = (int(fold), int(epoch))
        record: dict[str, Stamped] = {"done": (us, seq, 1)}
        for name in _EPOCH_NUMBERS:
            if body.get(name) is None:
                continue
            value = number_of(body[name])
            if value is None:
                self.odd += 1
            else:
                record[name] = (us, seq, value)
        for name in _EPOCH_SCORES:
            score = loss_of(body.get(name))
            if score is not None or is_bad_loss(body.get(name)):
                record[name] = (us, seq, score)
        for name, kind in memory:
            gib = number_of(body[name], most=1e6)
            if gib is not None and not (name == "used_gib" and body.get("process_gib") is not None):
                record[kind] = (us, seq, round(gib * KIB_PER_GIB))
        if other := body.get(AS_TOLD):
            shift = [other.get("fold", key[0]) - key[0], other.get("epoch", key[1]) - key[1]]
            record[AS_TOLD] = us, seq, shift
        self._record(key, record)
        told = (loss_of(body.get(name)) for name in ("valid_loss", "metric"))
        loss, metric = (None if score is None else (score, key[1]) for score in told)
        self._fold_record(key[0], FoldSummary(key[1], key[1], loss, metric, metric, us))
        self._moved(us)
        self._bucket_sums(us).progress += 1

    def _record(self, key: tuple[int, int], record: Mapping[str, Stamped]) -> None:
        known = self.epochs.get(key)
        self.epochs[key] = record if known is None else merge_latest(known, record)
        if len(self.epochs) > MAX_EPOCHS:
            del self.epochs[min(self.epochs)]

    def _fold(self, us: int, body: Mapping[str, Any]) -> None:
        number = number_of(body.get("fold"))
        if number is None or number > MAX_EPOCH_NUMBER:
            self.odd += 1
            return
        self._fold_record(int(number), FoldSummary(begun_us=us, done=body.get("done") is True))
        if body.get("done") is True:
            self._moved(us)
            self._bucket_sums(us).progress += 1

    def _fold_record(self, number: int, reported: FoldSummary) -> None:
        known = self.folds.get(number)
        self.folds[number] = reported if known is None else merge_folds(known, reported)
        if len(self.folds) > MAX_FOLDS:
            del self.folds[max(self.folds)]

    def _sample(self, us: int, body: Mapping[str, Any]) -> None:
        busy, hot = body.get("utilization_percent"), body.get("temperature_c")
        busy = busy if busy is None else number_of(busy, most=100.0)
        hot = hot if hot is None else number_of(hot, most=200.0)
        if busy is None and hot is None:
            return
        sums = self._bucket_sums(us)
        if busy is not None:
            sums.utilization += round(busy * 1000)
            sums.sampled += 1
        if hot is not None:
            sums.temperature = max(sums.temperature, round(hot * 10))

    def _bucket_sums(self, us: int) -> TimeBucket:
        """The sums of the stretch, to be added to."""
        bucket = us // BUCKET_US
        mine = self.open_buckets.get(bucket)
        if mine is None:
            time_buckets = self.time_buckets
            known = copy(time_buckets.get(bucket)) or TimeBucket()
            mine = self.open_buckets[bucket] = time_buckets[bucket] = known
            if len(time_buckets) > MAX_BUCKETS:
                oldest = min(time_buckets)
                del time_buckets[oldest]
                self.open_buckets.pop(oldest, None)
        return mine

    def _loss(self, us: int, body: Mapping[str, Any]) -> None:
        reported = body.get("train_loss", body.get("loss"))
        if reported is None:
            return
        if is_bad_loss(reported):
            self.bad_loss_us = latest(self.bad_loss_us, us)
        elif loss_of(reported) is not None:
            self.good_loss_us = latest(self.good_loss_us, us)
