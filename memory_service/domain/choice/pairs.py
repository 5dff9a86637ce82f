"""Two trainings before either has run: which scores higher, which is done sooner, each with its probability.

By the quality model and the timetables alone; nothing is executed and no language model is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.quality.quality_model import QualityModel
from memory_service.domain.quality.ranking import Candidate, difference_variance, probability_better


@dataclass(frozen=True, slots=True)
class Side:
    """One training: what is expected of its quality and its minutes; None where that cannot be told."""

    name: str
    quality: Candidate | None
    minutes: Estimate | None


def compare(sides: Sequence[Side], model: QualityModel, table: str) -> list[dict[str, Any]]:
    """Of each two sides: `{first, second, better, p_better, points, sooner, p_sooner}`. `better` and `sooner`
    name the likelier one, None where it cannot be told. table: the kind of data (`Kind.table`)."""
    known = [side.quality for side in sides if side.quality is not None]
    variance = difference_variance(known, model, table) if known else np.zeros((0, 0))
    at = {id(candidate): place for place, candidate in enumerate(known)}
    out = []
    for first, second in combinations(sides, 2):
        row: dict[str, Any] = {"first": first.name, "second": second.name}
        row |= dict.fromkeys(("better", "p_better", "points", "sooner", "p_sooner"))
        a, b = first.quality, second.quality
        if a is not None and b is not None:
            sd = float(variance[at[id(a)], at[id(b)]]) ** 0.5
            ahead = float(probability_better(a.index, b.index, sd))
            row |= {"points": round(a.index - b.index, 2)} | _likelier(row, ahead, "better")
        if first.minutes is not None and second.minutes is not None:
            row |= _likelier(row, _sooner(first.minutes, second.minutes), "sooner")
        out.append(row)
    return out


def _likelier(row: dict[str, Any], of_first: float, what: str) -> dict[str, Any]:
    name = row["first" if of_first >= 0.5 else "second"]
    return {what: name, f"p_{what}": round(max(of_first, 1.0 - of_first), 4)}


def _sooner(first: Estimate, second: Estimate) -> float:
    """Probability that the first of two independent times, normal in their logarithms, is the shorter."""
    sds = [log(max(t.high / t.value, 1.001)) / SD_OF_P90 for t in (first, second)]
    return float(probability_better(log(second.value), log(first.value), (sds[0] ** 2 + sds[1] ** 2) ** 0.5))
