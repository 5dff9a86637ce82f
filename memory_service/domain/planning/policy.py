"""Numbers of a plan that people may correct in rows of the strategy tables, with their defaults.

A row steers plans when it is followed and holds a number that can be meant: then what it says holds from the
next question on, and the plan names it. What a row cannot say (deleted, not followed, out of any sense) the
default says. All other rows inform: they are shown, and change nothing. What of a card's memory stays free is
no row's: `domain.prediction.peak_memory_curve.LIMIT_MARGIN`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from types import MappingProxyType
from typing import Any

from memory_service.domain.common.tables import shipped_table

Row = Mapping[str, Any]
Place = tuple[str, str, int]

RESERVE_SHARE = 0.15
"""R14: of the budget, always kept for inference and writing the submission."""

MEDIAN_SHARE = 0.80
"""R12: an estimate over 80 % of the budget means fewer folds or epochs; here: no such plan is made."""

_TABLE = shipped_table(__package__, "policy.toml")
_BATCHES: Mapping[Place, int] = {
    (card, kind, int(size)): batch
    for card, kinds in _TABLE["batches"].items()
    for kind, sizes in kinds.items()
    for size, batch in sizes.items()
}
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
    if row["rule"] != "R03" or set(key) - {"gpu", "input_kind", "image_size"}:
        return None
    if key.get("gpu") not in ("a100", "a10"):
        return None
    kind, size = key.get("input_kind"), key.get("image_size", 0)
    sized = kind in ("image", "segmentation_tile")
    if (not sized and kind != "table") or sized != bool(_number(size, 1, 100_000)):
        return None
    return str(key["gpu"]), str(kind), int(size)


@dataclass(frozen=True, slots=True)
class _Said:
    """Where a row says a number of the policy: of `part`, one field or the least and the most of a range."""

    name: str
    part: str
    fields: Sequence[str]
    least: float
    most: float


_SAID = {row: _Said(*said) for row, said in _TABLE["said"].items()}


def unreadable(row: Row) -> dict[tuple[str, str], str]:
    """Numbers that a row steers plans with, missing or out of their range: (part, field) -> what is wrong."""
    place, said = _place(row), _SAID.get(row["id"])
    if place is not None:
        said = _Said("batches", "value", ("batch_size",), 1, LARGEST_BATCH)
    if said is None:
        return {}
    values = row[said.part]
    wrong = {
        (said.part, name): f"must be a number from {said.least:g} to {said.most:g}"
        for name in said.fields
        if (name in values or place is None) and _number(values.get(name), said.least, said.most) is None
    }
    low, high = said.fields[0], said.fields[-1]
    if not wrong and low in values and values[low] > values[high]:
        wrong[said.part, high] = f"must not be less than {low}"
    return wrong


def _stated(row: Row) -> dict[str, Any] | None:
    """Fields of the policy that a row says; None where it steers none."""
    said = _SAID.get(row["id"])
    if said is None:
        return None
    numbers = [_number(row[said.part].get(name), said.least, said.most) for name in said.fields]
    low, high = numbers[0], numbers[-1]
    if low is None or high is None or low > high:
        return None
    if said.name.endswith("_share"):
        return {said.name: round(low * 0.01, 6)}
    pair = int(low), int(high)
    if said.name == "folds":
        return dict(zip(("folds", "folds_max"), pair, strict=True))
    if said.name == "every_seconds":
        return {said.name: sum(pair) // 2}
    return {said.name: pair if len(said.fields) > 1 else pair[0]}


def _number(value: Any, least: float, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value) if least <= value <= most else None
