"""Summary of a run in a few kilobytes, whatever it reported.

A `Summary` is a value that JSON can hold; `reducer` adds events to it. Times are whole microseconds of the
run's own time and memory whole KiB: sums of floats would depend on their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

MAX_EPOCHS = 48
"""The latest epochs are stored exactly; trends and projections look at no more."""

BUCKET_SECONDS = 10
MAX_BUCKETS = 32
"""Samples and steps add up per 10 s of the run's time; the latest 320 s are stored, two check intervals."""

MAX_FOLDS = 128
MAX_RANKS = 64
MAX_BATCH_SIZES = 16

US, KIB_PER_GIB = 1_000_000, 1 << 20

Stamped = tuple[int, int, Any]
"""(own time in microseconds, seq, value): the larger (time, seq) wins."""

RankSums = tuple[int, int, int, int, int, int]
"""Of one process of a distributed training: steps, their microseconds, the part of these whose waiting for
the loader is known, the waiting, samples; and its highest memory in KiB, as driver or torch say."""

_STORED_NAMES = {"time_buckets": "slots", "bucket_peaks": "slot_peaks"}
"""Field -> its key in stored summaries, where that is another."""


@dataclass(slots=True)
class TimeBucket:
    """Sums of `BUCKET_SECONDS`: steps, their microseconds, the part of these whose waiting for the loader is
    known, the waiting, samples, utilization in 1/1000 % and how often it was sampled, how often progress of
    training was reported; temperature is a maximum, in 1/10 C."""

    steps: int = 0
    busy: int = 0
    wait_known: int = 0
    waited: int = 0
    samples: int = 0
    utilization: int = 0
    sampled: int = 0
    progress: int = 0
    temperature: int = 0


_SUMS = TimeBucket.__slots__


@dataclass(frozen=True, slots=True)
class FoldSummary:
    """One fold: the least and greatest epoch number reported, and the best scores as (value, epoch)."""

    first_epoch: int | None = None
    last_epoch: int | None = None
    lowest_loss: tuple[float, int] | None = None
    lowest_metric: tuple[float, int] | None = None
    highest_metric: tuple[float, int] | None = None
    begun_us: int | None = None
    done: bool = False


@dataclass(slots=True)
class Summary:
    """A run so far. Empty: `Summary()`. Times in microseconds of the run's own time, memory in KiB. Once made
    it is not changed: the reducer adds to a copy.

    events        how many were folded, counts: of each kind; odd: values among them that no run can have
    last_us       the latest time reported: "now" for every verdict
    steps         training steps counted one by one; top_step: the greatest position in a progress line
    first_step_us, step_us   when training first and last moved; bad_loss_us, good_loss_us: when the
                  training loss last was not a number, last was one
    throttled_us, shared_us   when the card last said that it was throttled, or used by others too
    peaks         memory kind -> [(time us, KiB)]: highest so far, and the latest reading
    settings      name -> the latest statement; batches: batch size -> [first, last time it was stated]
    progress      the latest position line
    epochs        "fold:epoch" -> field -> Stamped, the latest MAX_EPOCHS; `done` marks a finished one
    time_buckets  number of a bucket of BUCKET_SECONDS -> its sums, the latest MAX_BUCKETS
    bucket_peaks  the same buckets -> memory kind -> highest KiB
    ranks         processes of a distributed training that said their rank; steps, busy_us and the buckets'
                  are of the first alone, which all others keep step with, samples and peaks of all
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
    counts: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Stamped] = field(default_factory=dict)
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    progress: Stamped | None = None
    epochs: dict[tuple[int, int], Mapping[str, Stamped]] = field(default_factory=dict)
    folds: dict[int, FoldSummary] = field(default_factory=dict)
    time_buckets: dict[int, TimeBucket] = field(default_factory=dict)
    bucket_peaks: dict[int, dict[str, int]] = field(default_factory=dict)
    ranks: dict[int, RankSums] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """The latest statement of a setting; None when there was none."""
        stamped = self.settings.get(name)
        return None if stamped is None else stamped[2]

    def as_dict(self) -> dict[str, Any]:
        """JSON form, a few kilobytes; keys that JSON cannot hold become text."""
        out = {_STORED_NAMES.get(f.name, f.name): getattr(self, f.name) for f in fields(Summary)}
        out["epochs"] = [[*key, record] for key, record in sorted(self.epochs.items())]
        out["folds"] = {number: asdict(fold) for number, fold in self.folds.items()}
        out["slots"] = {n: [getattr(one, name) for name in _SUMS] for n, one in self.time_buckets.items()}
        for name in ("batches", "slots", "slot_peaks", "folds", "ranks"):
            out[name] = {str(key): value for key, value in sorted(out[name].items())}
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Summary:
        """Inverse of `as_dict`, also after JSON; unknown keys are left out."""
        known = {f.name for f in fields(cls)}
        data = {name: value for name, value in raw.items() if name in known}
        data["settings"] = {name: tuple(stamped) for name, stamped in data.get("settings", {}).items()}
        data["epochs"] = {
            (int(f), int(e)): {name: tuple(stamped) for name, stamped in record.items()}
            for f, e, record in data.get("epochs", [])
        }
        data["batches"] = {int(key): tuple(value) for key, value in data.get("batches", {}).items()}
        data["time_buckets"] = {int(key): _bucket_from(value) for key, value in raw.get("slots", {}).items()}
        data["bucket_peaks"] = {int(key): value for key, value in raw.get("slot_peaks", {}).items()}
        data["ranks"] = {int(key): tuple(value) for key, value in data.get("ranks", {}).items()}
        data["folds"] = {int(key): _fold_from(value) for key, value in data.get("folds", {}).items()}
        if data.get("progress") is not None:
            data["progress"] = tuple(data["progress"])
        return cls(**data)


def _fold_from(raw: Mapping[str, Any]) -> FoldSummary:
    data = dict(raw)
    for name in ("lowest_loss", "lowest_metric", "highest_metric"):
        data[name] = None if data.get(name) is None else tuple(data[name])
    return FoldSummary(**data)


def _bucket_from(raw: list[int]) -> TimeBucket:
    """Written before progress was counted, it has none."""
    return TimeBucket(*(raw if len(raw) == len(_SUMS) else [*raw[:-1], 0, raw[-1]]))


def latest(a: int | None, b: int | None) -> int | None:
    """The larger of two moments or numbers; None is "not reported"."""
    return b if a is None else a if b is None else max(a, b)


def earliest(a: int | None, b: int | None) -> int | None:
    """The smaller of the two."""
    return b if a is None else a if b is None else min(a, b)


def newer(known: Stamped | None, reported: Stamped) -> Stamped:
    """The later statement by (own time, seq)."""
    if known is None or reported[0] > known[0]:
        return reported
    return reported if reported[0] == known[0] and reported[1] > known[1] else known


def merge_latest(known: Mapping[str, Stamped], reported: Mapping[str, Stamped]) -> Mapping[str, Stamped]:
    """Of each name the later statement."""
    return {**known, **{name: newer(known.get(name), stated) for name, stated in reported.items()}}


def merge_folds(a: FoldSummary, b: FoldSummary) -> FoldSummary:
    """One fold from two parts of its reports."""
    losses = [x for x in (a.lowest_loss, b.lowest_loss) if x is not None]
    low = [x for x in (a.lowest_metric, b.lowest_metric) if x is not None]
    high = [x for x in (a.highest_metric, b.highest_metric) if x is not None]
    return FoldSummary(
        earliest(a.first_epoch, b.first_epoch),
        latest(a.last_epoch, b.last_epoch),
        min(losses, default=None),
        min(low, default=None),
        max(high, key=lambda score: (score[0], -score[1]), default=None),
        earliest(a.begun_us, b.begun_us),
        a.done or b.done,
    )
