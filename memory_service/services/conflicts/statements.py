"""The statements of a conflict, and how far apart they are."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from memory_service.domain.common.estimate import Estimate, Grade

LEAST = 1e-9
_NUMBERS = ("low", "high", "value")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement about a quantity.

    high       None: no upper end was named
    set_aside  why it is not believed (yet) or says nothing of this; None: it counts
    """

    id: str
    grade: Grade
    low: float
    high: float | None
    unit: str | None
    source: str
    value: float | None = None
    n: int | None = None
    statement: str | None = None
    set_aside: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The wire form; what a side does not have is left out."""
        wire = {name: _short(value) if name in _NUMBERS else value for name, value in asdict(self).items()}
        return {name: value for name, value in wire.items() if value is not None or name in ("high", "unit")}


def claim_statement(row: Mapping[str, Any]) -> Statement:
    """What somebody wrote, its source beside it."""
    low, high = float(row["value_min"]), None if row.get("value_max") is None else float(row["value_max"])
    grade, source, said = row.get("grade", "claimed"), str(row["source"]), row.get("statement")
    return Statement(str(row["id"]), grade, low, high, row.get("unit"), source, statement=said)


def estimate_statement(estimate: Estimate, unit: str | None) -> Statement:
    """What is computed, with its 80 % interval."""
    return Statement(
        "estimate", estimate.grade, estimate.low, estimate.high, unit, estimate.basis, estimate.value,
        estimate.n,
    )  # fmt: skip


def divergence(statements: Sequence[Statement]) -> float:
    """The widest gap between two sides, as a ratio; 1 where all of them meet."""
    widest = 1.0
    for one in statements:
        for other in statements:
            upper = inf if other.high is None else other.high
            if one.low > upper:
                widest = max(widest, one.low / max(upper, LEAST))
    return widest


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
