"""What has a run said so far, in a few kilobytes whatever it said?

Events fold into a `Summary` one by one, in any order: every part of it is a maximum, a minimum, a sum of
whole numbers, the latest by (own time, seq), or the largest K keys of such parts. All of these are
commutative and associative, so the same set of events gives the same summary in every order of arrival, and
two halves folded apart can be merged. A key outside the largest K can never come back in, so forgetting it
loses no exactness. Times are whole microseconds and memory whole KiB: sums of floats depend on their order.

Each event must be folded once (the store drops a repeated seq before it comes here).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import add
from typing import Any

from memory_service.domain.watch_event import MEMORY_FIELDS, Event, is_bad_loss, loss_of, number_of

__all__ = ["EPOCHS_KEPT", "SETTINGS", "SLOTS_KEPT", "SLOT_SECONDS", "FoldSummary", "Summary", "fold_in"]

EPOCHS_KEPT = 48
"""The latest epochs are kept exactly; trends and projections look at no more."""

SLOT_SECONDS = 10
SLOTS_KEPT = 32
"""Samples and steps add up per 10 s of the run's time; the latest 320 s are kept, two check intervals."""

FOLDS_KEPT = 32
BATCHES_KEPT = 16
MOST_EPOCH = 1_000_000
"""An epoch, fold or step number beyond any real one is counted as odd and otherwise left alone."""

US, KIB_PER_GIB = 1_000_000, 1 << 20

SETTINGS = (
    "batch_size", "epochs", "folds", "learning_rate", "num_workers", "prefetch_factor", "cpu_count",
    "n_train", "precision", "grad_accumulation", "patience", "total_gib", "total_steps", "gpu_name",
    "steps_per_epoch", "persistent_workers",
)  # fmt: skip
"""What a run may state about itself at any time; the latest statement holds."""

_SETTINGS = frozenset(SETTINGS)
_MEMORY = frozenset((*MEMORY_FIELDS, "memory_percent"))
_NOT_NUMBERS: dict[str, type] = {"gpu_name": str, "precision": str, "persistent_workers": bool}
_EPOCH_NUMBERS = ("seconds", "samples", "loader_wait_percent", "utilization_percent", "memory_percent")
_EPOCH_SCORES = ("train_loss", "valid_loss", "metric")

Stamped = tuple[int, int, Any]
"""(own time in microseconds, seq, value): the larger (time, seq) wins."""

Slot = tuple[int, ...]
"""Sums of one stretch, at these places."""

STEPS, BUSY, TOLD, WAITED, SAMPLES, UTILIZATION, SAMPLED, HOT = range(8)
"""Steps, their microseconds, the part of these whose waiting for the loader is known, the waiting, samples,
the sum of utilisation in 1/1000 % and how often it was sampled; HOT is a maximum, in 1/10 C."""


@dataclass(frozen=True, slots=True)
class FoldSummary:
    """One fold: the least and greatest epoch number told of, and the best scores as (value, epoch)."""

    first_epoch: int | None = None
    last_epoch: int | None = None
    lowest_loss: tuple[float, int] | None = None
    lowest_metric: tuple[float, int] | None = None
    highest_metric: tuple[float, int] | None = None
    begun_us: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """A run so far. Empty: `Summary()`. Times in microseconds of the run's own time, memory in KiB.

    events        how many were folded; odd: values among them that no run can have
    last_us       the latest time told of: "now" for every verdict
    steps         training steps counted one by one; top_step: the greatest position in a progress line
    first_step_us, step_us   when training first and last moved; bad_loss_us, good_loss_us: when the
                  training loss last was not a number, last was one
    throttled_us, shared_us   when the card last said that it was throttled, or used by others too
    peaks         memory kind -> [(time us, KiB)]: highest so far, and the latest reading
    settings      name -> the latest statement; batches: batch size -> [first, last time it was stated]
    progress      the latest position line
    epochs        "fold:epoch" -> field -> Stamped, the latest EPOCHS_KEPT; `done` marks a finished one
    slots         number of a stretch of SLOT_SECONDS -> its sums, the latest SLOTS_KEPT
    slot_peaks    the same stretches -> memory kind -> highest KiB
    """

    events: int = 0
    odd: int = 0
    last_us: int = 0
    steps: int = 0
    busy_us: int = 0
    samples: int = 0
    top_step: int = 0
    first_step_us: int | None = None
    step_us: int | None = None
    bad_loss_us: int | None = None
    good_loss_us: int | None = None
    out_of_memory_us: int | None = None
    error_us: int | None = None
    throttled_us: int | None = None
    shared_us: int | None = None
    reading_us: int | None = None
    peaks: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Stamped] = field(default_factory=dict)
    batches: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    progress: Stamped | None = None
    epochs: Mapping[tuple[int, int], Mapping[str, Stamped]] = field(default_factory=dict)
    folds: Mapping[int, FoldSummary] = field(default_factory=dict)
    slots: Mapping[int, Slot] = field(default_factory=dict)
    slot_peaks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """The latest statement of a setting; None when there was none."""
        told = self.settings.get(name)
        return None if told is None else told[2]

    def merged(self, other: Summary) -> Summary:
        """Both halves of a run's events as one; commutative and associative."""
        tally = _Tally(self)
        tally.add_summary(other)
        return tally.summary()

    def as_dict(self) -> dict[str, Any]:
        """JSON form, a few kilobytes; keys that JSON cannot hold become text."""
        out: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        out["epochs"] = [[*key, record] for key, record in sorted(self.epochs.items())]
        out["folds"] = {number: asdict(fold) for number, fold in self.folds.items()}
        for name in ("batches", "slots", "slot_peaks", "folds"):
            out[name] = {str(key): value for key, value in sorted(out[name].items())}
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Summary:
        """Inverse of `as_dict`, also after JSON; unknown keys are left out."""
        known = {f.name for f in fields(cls)}
        data = {name: value for name, value in raw.items() if name in known}
        data["settings"] = {name: tuple(told) for name, told in data.get("settings", {}).items()}
        data["epochs"] = {
            (int(f), int(e)): {name: tuple(told) for name, told in record.items()}
            for f, e, record in data.get("epochs", [])
        }
        for name in ("batches", "slots"):
            data[name] = {int(key): tuple(value) for key, value in data.get(name, {}).items()}
        data["slot_peaks"] = {int(key): value for key, value in data.get("slot_peaks", {}).items()}
        data["folds"] = {int(key): _fold_from(value) for key, value in data.get("folds", {}).items()}
        if data.get("progress") is not None:
            data["progress"] = tuple(data["progress"])
        return cls(**data)


def fold_in(summary: Summary, events: Iterable[Event]) -> Summary:
    """The summary with more events in it, whatever their order. Costs O(events) + O(size of the summary)."""
    tally = _Tally(summary)
    for event in events:
        tally.add(event)
    return tally.summary()


class _Tally:
    """A summary while it is being added to."""

    def __init__(self, start: Summary) -> None:
        self.now = {f.name: getattr(start, f.name) for f in fields(Summary)}
        for name in ("peaks", "settings", "batches", "epochs", "folds", "slots", "slot_peaks"):
            self.now[name] = dict(self.now[name])
        self.own: set[int] = set()
        """Stretches whose peaks were copied: these may be changed in place."""

    def summary(self) -> Summary:
        return Summary(**self.now)

    def add(self, event: Event) -> None:
        now, body = self.now, event.fields
        seconds = number_of(event.at_seconds, most=1e9)
        us = round((seconds or 0.0) * US)
        now["odd"] += seconds is None
        now["events"] += 1
        if us > now["last_us"]:
            now["last_us"] = us
        stated = _SETTINGS & body.keys()
        if stated:
            self._settings(us, event.seq, body, stated)
        told = _MEMORY & body.keys()
        if told:
            self._memory(us, body, told)
        if event.kind == "batch":
            self._batch(us, event.seq, body)
        elif event.kind == "epoch":
            self._epoch(us, event.seq, body)
        elif event.kind == "fold":
            self._fold(us, body)
        self._sample(us, body)
        self._loss(us, body)
        if body.get("out_of_memory") is True:
            now["out_of_memory_us"] = _latest(now["out_of_memory_us"], us)
        if body.get("error") is True:
            now["error_us"] = _latest(now["error_us"], us)
        if body.get("throttled") is True:
            now["throttled_us"] = _latest(now["throttled_us"], us)
        if body.get("other_processes") and number_of(body["other_processes"]):
            now["shared_us"] = _latest(now["shared_us"], us)

    def add_summary(self, other: Summary) -> None:
        now = self.now
        for name in ("events", "odd", "steps", "busy_us", "samples"):
            now[name] += getattr(other, name)
        for name in ("last_us", "top_step"):
            now[name] = max(now[name], getattr(other, name))
        for name in (
            "step_us",
            "bad_loss_us",
            "good_loss_us",
            "out_of_memory_us",
            "error_us",
            "reading_us",
            "throttled_us",
            "shared_us",
        ):
            now[name] = _latest(now[name], getattr(other, name))
        now["first_step_us"] = _earliest(now["first_step_us"], other.first_step_us)
        now["progress"] = _newer(now["progress"], other.progress)
        for kind, kib in other.peaks.items():
            now["peaks"][kind] = max(now["peaks"].get(kind, 0), kib)
        for name, told in other.settings.items():
            now["settings"][name] = _newer(now["settings"].get(name), told)
        for batch, (first, last) in other.batches.items():
            self._stated(batch, first, last)
        for key, record in other.epochs.items():
            self._record(key, record)
        for number, fold in other.folds.items():
            self._fold_record(number, fold)
        for slot, sums in other.slots.items():
            self._add_slot(slot, tuple(sums))
        for slot, peaks in other.slot_peaks.items():
            for kind, kib in peaks.items():
                self._slot_peak(slot, kind, kib)

    def _settings(self, us: int, seq: int, body: Mapping[str, Any], stated: Iterable[str]) -> None:
        for name in stated:
            value = body[name]
            if value is None:
                continue
            if name not in _NOT_NUMBERS:
                number = number_of(value)
                value = None if number is None else int(number) if number.is_integer() else number
            elif not isinstance(value, _NOT_NUMBERS[name]) or len(str(value)) > 200:
                value = None
            if value is None:
                self.now["odd"] += 1
                continue
            self.now["settings"][name] = _newer(self.now["settings"].get(name), (us, seq, value))
            if name == "batch_size" and isinstance(value, int) and 0 < value < 1 << 40:
                self._stated(value, us, us)

    def _stated(self, batch: int, first: int, last: int) -> None:
        batches = self.now["batches"]
        known = batches.get(batch, (first, last))
        batches[batch] = (min(known[0], first), max(known[1], last))
        if len(batches) > BATCHES_KEPT:
            del batches[min(batches)]

    def _memory(self, us: int, body: Mapping[str, Any], told: Iterable[str]) -> None:
        for name in told:
            if name == "memory_percent":
                continue
            kind = MEMORY_FIELDS[name]
            if name == "used_gib" and body.get("process_gib") is not None:
                continue
            gib = number_of(body[name], most=1e6)
            if gib is None:
                self.now["odd"] += body[name] is not None
                continue
            self._peak(us, kind, round(gib * KIB_PER_GIB))
        percent = number_of(body.get("memory_percent"), most=1000.0)
        if percent is not None:
            self._peak(us, "unstated_percent", round(percent * 1000))

    def _peak(self, us: int, kind: str, kib: int) -> None:
        peaks = self.now["peaks"]
        peaks[kind] = max(peaks.get(kind, 0), kib)
        self.now["reading_us"] = _latest(self.now["reading_us"], us)
        self._slot_peak(us // (SLOT_SECONDS * US), kind, kib)

    def _slot_peak(self, slot: int, kind: str, kib: int) -> None:
        known = self.now["slot_peaks"]
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
            samples = number_of(body.get("samples"), most=1e12) or 0.0
            self.now["steps"] += int(steps)
            self.now["busy_us"] += round(seconds * US)
            self.now["samples"] += int(samples)
            busy_us = round(seconds * US)
            told_us, waited_us = (0, 0) if waited is None else (busy_us, min(busy_us, round(waited * US)))
            self._slot(us, (int(steps), busy_us, told_us, waited_us, int(samples), 0, 0, 0))
        if step is not None:
            self.now["top_step"] = max(self.now["top_step"], int(step))
            where = [number_of(body.get(name), most=1e9) for name in ("fold", "epoch", "of")]
            elapsed = number_of(body.get("elapsed_seconds"), most=1e8)
            scope = body.get("scope") if body.get("scope") in ("epoch", "run") else None
            line = [*(None if w is None else int(w) for w in where), int(step), elapsed, scope]
            self.now["progress"] = _newer(self.now["progress"], (us, seq, line))
        if steps or step:
            self._moved(us)

    def _moved(self, us: int) -> None:
        self.now["step_us"] = _latest(self.now["step_us"], us)
        self.now["first_step_us"] = _earliest(self.now["first_step_us"], us)

    def _epoch(self, us: int, seq: int, body: Mapping[str, Any]) -> None:
        epoch, fold = number_of(body.get("epoch")), number_of(body.get("fold", 1))
        if epoch is None or fold is None or epoch > MOST_EPOCH or fold > MOST_EPOCH:
            self.now["odd"] += 1
            return
        key = (int(fold), int(epoch))
        record: dict[str, Stamped] = {"done": (us, seq, 1)}
        for name in _EPOCH_NUMBERS:
            value = number_of(body.get(name))
            self.now["odd"] += value is None and body.get(name) is not None
            if value is not None:
                record[name] = (us, seq, value)
        for name in _EPOCH_SCORES:
            score = loss_of(body.get(name))
            if score is not None:
                record[name] = (us, seq, score)
            elif is_bad_loss(body.get(name)):
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

    def _record(self, key: tuple[int, int], record: Mapping[str, Stamped]) -> None:
        epochs = self.now["epochs"]
        mine = dict(epochs.get(key, {}))
        for name, told in record.items():
            mine[name] = _newer(mine.get(name), told)
        epochs[key] = mine
        if len(epochs) > EPOCHS_KEPT:
            del epochs[min(epochs)]

    def _fold(self, us: int, body: Mapping[str, Any]) -> None:
        number = number_of(body.get("fold"))
        if number is None or number > MOST_EPOCH:
            self.now["odd"] += 1
            return
        self._fold_record(int(number), FoldSummary(begun_us=us, done=body.get("done") is True))

    def _fold_record(self, number: int, told: FoldSummary) -> None:
        folds = self.now["folds"]
        known = folds.get(number)
        folds[number] = told if known is None else _both(known, told)
        if len(folds) > FOLDS_KEPT:
            del folds[max(folds)]

    def _sample(self, us: int, body: Mapping[str, Any]) -> None:
        if "utilization_percent" not in body and "temperature_c" not in body:
            return
        busy = number_of(body.get("utilization_percent"), most=100.0)
        hot = number_of(body.get("temperature_c"), most=200.0)
        if busy is None and hot is None:
            return
        milli, n = (0, 0) if busy is None else (round(busy * 1000), 1)
        self._slot(us, (0, 0, 0, 0, 0, milli, n, round((hot or 0.0) * 10)))

    def _slot(self, us: int, sums: Slot) -> None:
        self._add_slot(us // (SLOT_SECONDS * US), sums)

    def _add_slot(self, slot: int, sums: Slot) -> None:
        slots = self.now["slots"]
        mine = slots.get(slot)
        if mine is None:
            slots[slot] = sums
            if len(slots) > SLOTS_KEPT:
                del slots[min(slots)]
            return
        hot = max(mine[HOT], sums[HOT])
        slots[slot] = (*map(add, mine[:HOT], sums[:HOT]), hot)

    def _loss(self, us: int, body: Mapping[str, Any]) -> None:
        told = body.get("train_loss", body.get("loss"))
        if told is None:
            return
        if is_bad_loss(told):
            self.now["bad_loss_us"] = _latest(self.now["bad_loss_us"], us)
        elif loss_of(told) is not None:
            self.now["good_loss_us"] = _latest(self.now["good_loss_us"], us)


def _latest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _earliest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _newer(known: Stamped | None, told: Stamped | None) -> Stamped | None:
    if known is None or told is None:
        return known or told
    return told if told[:2] > known[:2] else known


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


def _fold_from(raw: Mapping[str, Any]) -> FoldSummary:
    data = dict(raw)
    for name in ("lowest_loss", "lowest_metric", "highest_metric"):
        data[name] = None if data.get(name) is None else tuple(data[name])
    return FoldSummary(**data)
