"""Numbers of a plan that people may correct in rows of the strategy tables, with their defaults.

A row steers plans when it is followed and holds a number that can be meant: then what it says holds from the
next question on, and the plan names it. What a row cannot say (deleted, not followed, out of any sense) the
default says. All other rows inform: they are shown, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from types import MappingProxyType
from typing import Any

from memory_service.domain.planning.budget import MEDIAN_SHARE, RESERVE_SHARE

Row = Mapping[str, Any]
Place = tuple[str, str, int]

_BATCHES: Mapping[Place, int] = {
    ("a100", "image", 224): 256, ("a100", "image", 384): 128, ("a100", "image", 512): 64,
    ("a10", "image", 224): 128, ("a10", "image", 384): 64,
    ("a100", "table", 0): 8192, ("a10", "table", 0): 4096,
    ("a100", "segmentation_tile", 256): 32, ("a100", "segmentation_tile", 512): 16,
}  # fmt: skip
"""R03: (card, input kind, input size; 0 = any) -> batch. The a100 row stands for cards of 40 GB, the a10 row
for cards of 24 GB; where there is none, half of the larger card's holds."""

LARGE_GIB, MIDDLE_GIB = 36.0, 18.0
"""From here on a card counts as of 40 GB, as of 24 GB (usable memory)."""

LARGEST_BATCH = 65_536
_REACH = {224: 288}
"""A row of 224 px holds up to 288 px; any other up to its own size. Beyond the largest row: half of it."""


@dataclass(frozen=True, slots=True)
class BatchDefault:
    """A default batch and the row that says it; None = no row does."""

    batch_size: int
    row: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Numbers that plans are made with.

    batches            R03, see `default_batch`
    reserve_share      R14: of the budget, kept for inference and writing
    median_share       R12: the estimate's median may take so much of the budget
    updates_per_epoch  S04: a batch leaves so many; under about 50 the optimizer starves however full the card
                       (the fixed-budget series of karpathy/autoresearch PR 299 shows the same turn)
    folds, folds_max   R17: of a first plan
    patience           R16: (least, most) epochs without gain before a network's training stops
    target_percent     R04: fill that is reported as right; kill_percent: R20, fill that is far too little
    every_seconds      R21: between two looks at a run
    steering           rows that say any of this; changed: those that say another number than the default
    """

    batches: Mapping[Place, BatchDefault] = field(
        default_factory=lambda: {place: BatchDefault(batch) for place, batch in _BATCHES.items()}
    )
    reserve_share: float = RESERVE_SHARE
    median_share: float = MEDIAN_SHARE
    updates_per_epoch: int = 50
    folds: int = 1
    folds_max: int = 3
    patience: tuple[int, int] = (3, 5)
    target_percent: tuple[int, int] = (70, 90)
    kill_percent: int = 50
    every_seconds: int = 150
    steering: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()

    @property
    def fold_choices(self) -> tuple[int, ...]:
        return tuple(sorted({self.folds, self.folds_max}))

    def default_batch(self, kind: str, input_size: int, usable_gib: float) -> BatchDefault | None:
        """R03's batch for a kind of input on a card with so much usable memory (GiB), before any floor; None
        for kinds without rows. It never falls when memory grows: a smaller card's row counts up to the larger
        card's."""
        sizes = sorted(size for card, of, size in self.batches if (card, of) == ("a100", kind))
        if not sizes:
            return None
        size = next((s for s in sizes if s == 0 or input_size <= _REACH.get(s, s)), None)
        beyond = size is None
        size = sizes[-1] if size is None else size
        large = self.batches["a100", kind, size]
        if usable_gib >= LARGE_GIB:
            return replace(large, batch_size=max(1, large.batch_size // 2)) if beyond else large
        own = self.batches.get(("a10", kind, size))
        middle = BatchDefault(large.batch_size // 2, large.row)
        if own is not None:
            middle = own if own.batch_size <= large.batch_size else large
        share = (2 if beyond else 1) * (2 if usable_gib < MIDDLE_GIB and kind == "image" else 1)
        return replace(middle, batch_size=max(1, middle.batch_size // share))


def policy_of(rows: Iterable[Row]) -> Policy:
    """The numbers that these rows of the strategy tables say."""
    default = Policy()
    values: dict[str, Any] = {}
    batches = dict(default.batches)
    steering: set[str] = set()
    changed: set[str] = set()
    for row in rows:
        if not row.get("followed", True):
            continue
        stated = _stated(row)
        place = _place(row)
        if place is not None:
            batch = _number(row["value"].get("batch_size"), 1, LARGEST_BATCH)
            if batch is not None:
                batches[place] = BatchDefault(int(batch), row["id"])
                steering.add(row["id"])
                if int(batch) != _BATCHES.get(place):
                    changed.add(row["id"])
        elif stated is not None:
            steering.add(row["id"])
            if any(value != getattr(default, name) for name, value in stated.items()):
                changed.add(row["id"])
            for name, value in stated.items():
                values[name] = min(value, values.get(name, value)) if name == "median_share" else value
    whole = {name: value for name, value in values.items() if name in {f.name for f in fields(Policy)}}
    return Policy(
        batches=MappingProxyType(batches), steering=frozenset(steering), changed=frozenset(changed), **whole
    )


def _place(row: Row) -> Place | None:
    """Where a row of R03 says the default: a card, a kind of input and its size, and nothing more."""
    key = row["key"]
    if row["rule"] != "R03" or set(key) - {"gpu", "input_kind", "image_size"} or key.get("gpu") not in (
        "a100", "a10",
    ):  # fmt: skip
        return None
    kind, size = key.get("input_kind"), key.get("image_size", 0)
    sized = kind in ("image", "segmentation_tile")
    if (not sized and kind != "table") or sized != bool(_number(size, 1, 100_000)):
        return None
    return str(key["gpu"]), str(kind), int(size)


def _stated(row: Row) -> dict[str, Any] | None:
    """Fields of the policy that a row says; None where it steers none."""
    key, value = row["key"], row["value"]
    rule = row["id"]
    if rule == "R14-reserve":
        return _one("reserve_share", _number(value.get("reserve_percent"), 0, 60), 0.01)
    if rule in ("R12-fewer-folds", "R12-fewer-epochs"):
        return _one("median_share", _number(key.get("estimate_over_budget_percent"), 20, 100), 0.01)
    if rule == "S04-updates-per-epoch":
        return _one("updates_per_epoch", _number(value.get("updates_per_epoch_at_least"), 1, 10_000))
    if rule == "R17-start":
        return _pair(("folds", "folds_max"), value.get("folds"), value.get("folds_max"), 1, 20)
    if rule == "R16-patience":
        least, most = value.get("early_stopping_patience_min"), value.get("early_stopping_patience_max")
        return _range("patience", least, most, 1, 1_000)
    if rule == "R04-report":
        return _range(
            "target_percent", value.get("target_percent_from"), value.get("target_percent_to"), 1, 100
        )
    if rule == "R20-under-50":
        return _one("kill_percent", _number(key.get("fill_percent_below"), 1, 95))
    if rule == "R21-every":
        stated = _range("every", value.get("every_seconds_min"), value.get("every_seconds_max"), 5, 36_000)
        return None if stated is None else {"every_seconds": sum(stated["every"]) // 2}
    return None


def _number(value: Any, least: float, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value) if least <= value <= most else None


def _one(name: str, number: float | None, scale: float | None = None) -> dict[str, Any] | None:
    if number is None:
        return None
    return {name: int(number) if scale is None else round(number * scale, 6)}


def _pair(names: tuple[str, str], a: Any, b: Any, least: float, most: float) -> dict[str, Any] | None:
    low, high = _number(a, least, most), _number(b, least, most)
    if low is None or high is None or low > high:
        return None
    return {names[0]: int(low), names[1]: int(high)}


def _range(name: str, a: Any, b: Any, least: float, most: float) -> dict[str, Any] | None:
    stated = _pair(("low", "high"), a, b, least, most)
    return None if stated is None else {name: (stated["low"], stated["high"])}
