"""How does one more event enter what is known of a run? In any order, at a few microseconds each.

Every part of a `Summary` is a maximum, a minimum, a sum of whole numbers, the latest by (own time, seq), or
the largest K keys of such parts: commutative and associative, so the same set of events gives the same
summary in every order of arrival. A key outside the largest K can never come back in, so forgetting it loses
no exactness. Each event must be folded once (the store drops a repeated seq before it comes here).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import add
from typing import Any

from memory_service.domain.watch_event import MEMORY_FIELDS, Event, is_bad_loss, loss_of, number_of
from memory_service.domain.watch_summary import (
    BATCHES_KEPT,
    EPOCHS_KEPT,
    FOLDS_KEPT,
    HOT,
    KIB_PER_GIB,
    SETTINGS,
    SLOT_SECONDS,
    SLOTS_KEPT,
    US,
    FoldSummary,
    Slot,
    Stamped,
    Summary,
)

__all__ = ["fold_in"]

MOST_EPOCH = 1_000_000
"""An epoch, fold or step number beyond any real one is counted as odd and otherwise left alone."""

SLOT_US = SLOT_SECONDS * US
MOVED_ONCE = (0, 0, 0, 0, 0, 0, 0, 1, 0)

_SETTINGS = frozenset(SETTINGS)
_MEMORY = frozenset((*MEMORY_FIELDS, "memory_percent"))
_NOT_NUMBERS: dict[str, type] = {"gpu_name": str, "precision": str, "persistent_workers": bool}
_EPOCH_NUMBERS = ("seconds", "samples", "loader_wait_percent", "utilization_percent", "memory_percent")
_EPOCH_SCORES = ("train_loss", "valid_loss", "metric")


def fold_in(summary: Summary, events: Iterable[Event]) -> Summary:
    """The summary with more events in it, whatever their order. Costs O(events) + O(size of the summary)."""
    tally = _Tally(summary)
    for event in events:
        tally.add(event)
    return tally.summary()


_FIELDS = tuple(f.name for f in fields(Summary))
_MAPPINGS = ("counts", "peaks", "settings", "batches", "epochs", "folds", "slots", "slot_peaks")


class _Tally:
    """A summary while it is being added to."""

    __slots__ = (*_FIELDS, "own")

    events: int
    odd: int
    last_us: int
    steps: int
    busy_us: int
    samples: int
    top_step: int
    first_step_us: int | None
    step_us: int | None
    bad_loss_us: int | None
    good_loss_us: int | None
    out_of_memory_us: int | None
    error_us: int | None
    throttled_us: int | None
    shared_us: int | None
    reading_us: int | None
    counts: dict[str, int]
    peaks: dict[str, int]
    settings: dict[str, Stamped]
    batches: dict[int, tuple[int, int]]
    progress: Stamped | None
    epochs: dict[tuple[int, int], dict[str, Stamped]]
    folds: dict[int, FoldSummary]
    slots: dict[int, Slot]
    slot_peaks: dict[int, dict[str, int]]
    own: set[int]
    """Stretches whose peaks were copied: these may be changed in place."""

    def __init__(self, start: Summary) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(start, name))
        for name in _MAPPINGS:
            setattr(self, name, dict(getattr(start, name)))
        self.own = set()

    def summary(self) -> Summary:
        return Summary(**{name: getattr(self, name) for name in _FIELDS})

    def add(self, event: Event) -> None:
        kind, seq, at, body = event.kind, event.seq, event.at_seconds, event.fields
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
        if not _SETTINGS.isdisjoint(body):
            self._settings(us, seq, body)
        if not _MEMORY.isdisjoint(body):
            self._memory(us, body)
        if kind == "batch":
            self._batch(us, seq, body)
        elif kind == "epoch":
            self._epoch(us, seq, body)
        elif kind == "fold":
            self._fold(us, body)
        if "utilization_percent" in body or "temperature_c" in body:
            self._sample(us, body)
        if "train_loss" in body or "loss" in body:
            self._loss(us, body)
        if body.get("out_of_memory") is True:
            self.out_of_memory_us = _latest(self.out_of_memory_us, us)
        if body.get("error") is True:
            self.error_us = _latest(self.error_us, us)
        if body.get("throttled") is True:
            self.throttled_us = _latest(self.throttled_us, us)
        if body.get("other_processes") and number_of(body["other_processes"]):
            self.shared_us = _latest(self.shared_us, us)

    def _settings(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        for name in _SETTINGS & body.keys():
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
            self.settings[name] = _newer(self.settings.get(name), (us, seq, value))
            if name == "batch_size" and isinstance(value, int) and 0 < value < 1 << 40:
                self._stated(value, us)

    def _stated(self, batch: int, us: int) -> None:
        first, last = self.batches.get(batch, (us, us))
        self.batches[batch] = (min(first, us), max(last, us))
        if len(self.batches) > BATCHES_KEPT:
            del self.batches[min(self.batches)]

    def _memory(self, us: int, body: Mapping[str, Any]) -> None:
        for name, kind in MEMORY_FIELDS.items():
            given = body.get(name)
            if given is None or (name == "used_gib" and body.get("process_gib") is not None):
                continue
            gib = number_of(given, most=1e6)
            if gib is None:
                self.odd += 1
                continue
            self._peak(us, kind, round(gib * KIB_PER_GIB))
        percent = number_of(body.get("memory_percent"), most=1000.0)
        if percent is not None:
            self._peak(us, "unstated_percent", round(percent * 1000))

    def _peak(self, us: int, kind: str, kib: int) -> None:
        if kib >= self.peaks.get(kind, 0):
            self.peaks[kind] = kib
        if self.reading_us is None or us > self.reading_us:
            self.reading_us = us
        slot, known = us // SLOT_US, self.slot_peaks
        if slot not in self.own:
            known[slot] = dict(known.get(slot, {}))
            self.own.add(slot)
            if len(known) > SLOTS_KEPT:
                oldest = min(known)
                del known[oldest]
                self.own.discard(oldest)
                if oldest == slot:
                    return
        mine = known[slot]
        if kib >= mine.get(kind, 0):
            mine[kind] = kib

    def _batch(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        steps = number_of(body.get("steps"), most=1e9)
        step = number_of(body.get("step"), most=1e9)
        if steps is None and step is None:
            steps = 1.0
        if steps:
            seconds = number_of(body.get("seconds"), most=1e7) or 0.0
            waited = number_of(body.get("loader_wait_seconds"), most=1e7)
            percent = number_of(body.get("loader_wait_percent"), most=100.0)
            if waited is None and percent is not None:
                waited = seconds * percent / 100.0
            count, busy_us = int(steps), round(seconds * US)
            samples = int(number_of(body.get("samples"), most=1e12) or 0.0)
            self.steps += count
            self.busy_us += busy_us
            self.samples += samples
            told_us, waited_us = (0, 0) if waited is None else (busy_us, min(busy_us, round(waited * US)))
            self._slot(us, (count, busy_us, told_us, waited_us, samples, 0, 0, 1, 0))
        if step is not None:
            self.top_step = max(self.top_step, int(step))
            where = [number_of(body.get(name), most=1e9) for name in ("fold", "epoch", "of")]
            elapsed = number_of(body.get("elapsed_seconds"), most=1e8)
            scope = body.get("scope") if body.get("scope") in ("epoch", "run") else None
            line = [*(None if w is None else int(w) for w in where), int(step), elapsed, scope]
            self.progress = _newer(self.progress, (us, seq, line))
        if steps or step:
            self._moved(us)
            if not steps:
                percent = number_of(body.get("loader_wait_percent"), most=100.0)
                waited = None if percent is None else round(percent * US / 100.0)
                self._slot(us, MOVED_ONCE if waited is None else (0, 0, US, waited, 0, 0, 0, 1, 0))

    def _moved(self, us: int) -> None:
        if self.step_us is None or us > self.step_us:
            self.step_us = us
        if self.first_step_us is None or us < self.first_step_us:
            self.first_step_us = us

    def _epoch(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        epoch, fold = number_of(body.get("epoch")), number_of(body.get("fold", 1))
        if epoch is None or fold is None or epoch > MOST_EPOCH or fold > MOST_EPOCH:
            self.odd += 1
            return
        key = (int(fold), int(epoch))
        record: dict[str, Stamped] = {"done": (us, seq, 1)}
        for name in _EPOCH_NUMBERS:
            given = body.get(name)
            if given is None:
                continue
            value = number_of(given)
            if value is None:
                self.odd += 1
            else:
                record[name] = (us, seq, value)
        for name in _EPOCH_SCORES:
            given = body.get(name)
            score = loss_of(given)
            if score is not None:
                record[name] = (us, seq, score)
            elif is_bad_loss(given):
                record[name] = (us, seq, None)
        for name, kind in MEMORY_FIELDS.items():
            gib = number_of(body.get(name), most=1e6)
            if gib is not None and not (name == "used_gib" and body.get("process_gib") is not None):
                record[kind] = (us, seq, round(gib * KIB_PER_GIB))
        self._record(key, record)
        loss, metric = loss_of(body.get("valid_loss")), loss_of(body.get("metric"))
        self._fold_record(key[0], FoldSummary(
            key[1], key[1],
            None if loss is None else (loss, key[1]),
            None if metric is None else (metric, key[1]),
            None if metric is None else (metric, key[1]),
            us,
        ))  # fmt: skip
        self._moved(us)
        self._slot(us, MOVED_ONCE)

    def _record(self, key: tuple[int, int], record: Mapping[str, Stamped]) -> None:
        mine = dict(self.epochs.get(key, {}))
        for name, told in record.items():
            mine[name] = _newer(mine.get(name), told)
        self.epochs[key] = mine
        if len(self.epochs) > EPOCHS_KEPT:
            del self.epochs[min(self.epochs)]

    def _fold(self, us: int, body: Mapping[str, Any]) -> None:
        number = number_of(body.get("fold"))
        if number is None or number > MOST_EPOCH:
            self.odd += 1
            return
        self._fold_record(int(number), FoldSummary(begun_us=us, done=body.get("done") is True))
        if body.get("done") is True:
            self._moved(us)
            self._slot(us, MOVED_ONCE)

    def _fold_record(self, number: int, told: FoldSummary) -> None:
        known = self.folds.get(number)
        self.folds[number] = told if known is None else _both(known, told)
        if len(self.folds) > FOLDS_KEPT:
            del self.folds[max(self.folds)]

    def _sample(self, us: int, body: Mapping[str, Any]) -> None:
        busy = number_of(body.get("utilization_percent"), most=100.0)
        hot = number_of(body.get("temperature_c"), most=200.0)
        if busy is None and hot is None:
            return
        milli, n = (0, 0) if busy is None else (round(busy * 1000), 1)
        self._slot(us, (0, 0, 0, 0, 0, milli, n, 0, round((hot or 0.0) * 10)))

    def _slot(self, us: int, sums: Slot) -> None:
        slots, slot = self.slots, us // SLOT_US
        mine = slots.get(slot)
        if mine is None:
            slots[slot] = sums
            if len(slots) > SLOTS_KEPT:
                del slots[min(slots)]
            return
        slots[slot] = (*map(add, mine[:HOT], sums[:HOT]), max(mine[HOT], sums[HOT]))

    def _loss(self, us: int, body: Mapping[str, Any]) -> None:
        told = body.get("train_loss", body.get("loss"))
        if told is None:
            return
        if is_bad_loss(told):
            self.bad_loss_us = _latest(self.bad_loss_us, us)
        elif loss_of(told) is not None:
            self.good_loss_us = _latest(self.good_loss_us, us)


def _latest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _earliest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _newer(known: Stamped | None, told: Stamped) -> Stamped:
    return told if known is None or told[:2] > known[:2] else known


def _both(a: FoldSummary, b: FoldSummary) -> FoldSummary:
    losses = [x for x in (a.lowest_loss, b.lowest_loss) if x is not None]
    low = [x for x in (a.lowest_metric, b.lowest_metric) if x is not None]
    high = [x for x in (a.highest_metric, b.highest_metric) if x is not None]
    return FoldSummary(
        _earliest(a.first_epoch, b.first_epoch),
        _latest(a.last_epoch, b.last_epoch),
        min(losses, default=None),
        min(low, default=None),
        max(high, key=lambda told: (told[0], -told[1]), default=None),
        _earliest(a.begun_us, b.begun_us),
        a.done or b.done,
    )
