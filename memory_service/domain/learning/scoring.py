"""Errors of predictions against what happened, beside those of naive guesses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NAIVE_FIXED_GIB = 1976.0 / 1024.0
NAIVE_SLOPE = 1.108
"""The line that research found for fake-tensor traces against nvidia-smi: the one to beat."""

NAIVE_METHODS = {
    "samples_per_second": "FLOPs only, fitted on these runs",
    "peak_memory_gib": "1976 MiB + 1.108 x traced",
}

_MEMORY = (
    ("peak_memory_gib", "peak_driver_gib"),
    ("peak_reserved_gib", "peak_reserved_gib"),
    ("peak_allocated_gib", "peak_allocated_gib"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure of one run. `excluded`: why it is shown and not scored. naive: GFLOP per sample for a speed,
    GiB of the naive line for the driver's peak.

    error    relative: +0.1 = 10 % more was predicted than happened
    inside   whether what happened lies in low..high, the central 80 %
    """

    quantity: str
    predicted: Mapping[str, Any]
    actual: float
    excluded: str | None = None
    naive: float | None = None
    error: float = field(init=False)
    inside: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", float(self.predicted["value"]) / self.actual - 1.0)
        inside = bool(self.predicted["low"] <= self.actual <= self.predicted["high"])
        object.__setattr__(self, "inside", inside)

    def as_dict(self) -> dict[str, Any]:
        return {
            "quantity": self.quantity,
            "predicted": dict(self.predicted),
            "actual": self.actual,
            "error_percent": 100.0 * self.error,
            "inside": self.inside,
            "excluded": self.excluded,
        }


def error_words(percent: float, excluded: str | None = None) -> str:
    """`+12 %`; from tenfold on `16 times what it was`; of a run that was too short to compare only that."""
    if excluded == "too_short":
        return "too short to compare"
    return f"{percent:+.0f} %" if percent < 900.0 else f"{1.0 + percent / 100.0:,.0f} times what it was"


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of one quantity over n runs, in percent: absolute median and p90, signed median, share inside
    the 80 % interval; the naive method beside it where there is one."""

    quantity: str
    n: int
    median_percent: float
    p90_percent: float
    bias_percent: float
    inside_percent: float
    naive: Mapping[str, Any] | None = None


def pairs_of(
    run: Mapping[str, Any], prediction: Mapping[str, Any], observations: Iterable[Mapping[str, Any]]
) -> list[Pair]:
    """Every figure that was both predicted and observed.

    run   the figures of the run as a whole: batch_size, samples_per_second, epoch_seconds, total_minutes
    observations   of the run, as `Observation.as_dict` writes them
    """
    excluded = run.get("excluded")
    slow = excluded if excluded != "loader_bound" else None
    short = excluded if excluded in ("too_short", "implausible", "by_person") else None
    naive: Mapping[str, float] = prediction.get("naive") or {}
    mine = own_observation(observations, run.get("batch_size"))
    found: list[tuple[str, float | None, str | None, float | None]] = [
        ("samples_per_second", run.get("samples_per_second"), excluded, naive.get("gflops_per_sample")),
        ("epoch_seconds", run.get("epoch_seconds"), slow, None),
        ("total_minutes", run.get("total_minutes"), slow, None),
    ]
    if mine is not None:
        line = NAIVE_FIXED_GIB + NAIVE_SLOPE * naive["traced_gib"] if "traced_gib" in naive else None
        for quantity, name in _MEMORY:
            guess = line if quantity == "peak_memory_gib" else None
            found.append((quantity, mine[name], short, guess))
    return [
        Pair(quantity, prediction[quantity], actual, why, guess)
        for quantity, actual, why, guess in found
        if actual and prediction.get(quantity)
    ]


def own_observation(
    observations: Iterable[Mapping[str, Any]], batch_size: int | None
) -> Mapping[str, Any] | None:
    """That of the run itself: of its steps at its own batch, or of its fits."""
    for one in observations:
        part = one.get("part", "step")
        if part == "fit" or (part == "step" and one["batch_size"] == batch_size):
            return one
    return None


def score(pairs: Iterable[Pair]) -> list[Score]:
    """One score a quantity, over the pairs that are not excluded."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.excluded is None:
            groups.setdefault(pair.quantity, []).append(pair)
    return [_score(quantity, members) for quantity, members in groups.items()]


def _score(quantity: str, pairs: Sequence[Pair]) -> Score:
    errors = np.array([pair.error for pair in pairs])
    signed, inside = float(np.median(errors)), float(np.mean([pair.inside for pair in pairs]))
    median, p90, bias, share = map(_percent, (*_spread(errors), signed, inside))
    return Score(quantity, len(pairs), median, p90, bias, share, _naive(quantity, pairs))


def _naive(quantity: str, pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """The naive method on the same runs; the one for speed is fitted on them, in its favour."""
    if quantity not in NAIVE_METHODS or any(pair.naive is None for pair in pairs):
        return None
    guess = np.array([float(pair.naive or 0.0) for pair in pairs])
    actual = np.array([pair.actual for pair in pairs])
    if quantity == "samples_per_second":
        work = np.maximum(guess, 1e-9)
        guess = 1.0 / (np.median(1.0 / actual / work) * work)
    median, p90 = map(_percent, _spread(guess / actual - 1.0))
    return {"method": NAIVE_METHODS[quantity], "median_percent": median, "p90_percent": p90}


def _spread(errors: Any) -> tuple[float, float]:
    median, p90 = np.quantile(np.abs(errors), (0.5, 0.9))
    return float(median), float(p90)


def _percent(share: float) -> float:
    return round(100.0 * share, 2)
