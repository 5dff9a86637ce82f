"""How many index points is it worth that similar winners used a family? For docs/methods/memory.md.

A conditional logit: of the families that could be planned for a competition, its winners used one with a
chance that grows with exp(a index + b log(share + floor)). b / a says how far winners follow winners: points
of the index per e-fold of the share. The index is that of the best plan of a family in ten hours on an A100
without memory; the share is that of similar competitions of earlier years alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.recipe.preferences import SHARE_FLOOR
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.errors import MemoryServiceError
from memory_service.schemas.recommend import plan_request
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.planning_problem import case_of

MINUTES = 600
USUAL_ROWS = 40_000
KINDS = ("image", "text", "tabular")
LEAST = 5
"""Fewer competitions are not fitted."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """Families that one competition allowed: index and log share of each, and how often winners used it."""

    task: str
    index: Array
    log_share: Array
    used: Array


@dataclass(frozen=True)
class Fit:
    """points: of the index per e-fold of the share, None where either says nothing; gains: mean log
    likelihood of a competition over a guess, by index alone, share alone, and both."""

    kind: str
    competitions: int
    points: float | None
    gains: tuple[float, float, float]


def choice(
    knowledge: Knowledge, task: str, n_train: int | None, share: Mapping[str, float], families: Sequence[str]
) -> Choice | None:
    """What winners of a task chose from. share: of similar winners; families: of these winners, as often as
    they named them. None where nothing of it can be planned."""
    asked = {"task": task, "gpu": "a100", "minutes": MINUTES, "mode": "blind", "cpu_count": 12}
    try:
        case = case_of(knowledge, plan_request({**asked, "n_train": n_train or USUAL_ROWS}))
        sets = price_candidates(case, knowledge).sets
    except MemoryServiceError:
        return None
    best: dict[str, float] = {}
    for one in sets:
        index = np.where(one.grid.minutes <= MINUTES, one.grid.quality, -np.inf).max(axis=(1, 2))
        for option, points in zip(one.table.options, index, strict=True):
            for family in families_of(option.model.name, option.model.family) if np.isfinite(points) else ():
                best[family] = max(best.get(family, -np.inf), float(points))
    used = Counter(family for family in families if family in best)
    if not used or len(best) < 2:
        return None
    shares = np.log([share.get(family, 0.0) + SHARE_FLOOR for family in best])
    return Choice(task, np.array(list(best.values())), shares, np.array([used[family] for family in best]))


def _misfit(choices: Sequence[Choice], a: float, b: float) -> float:
    """Mean negative log likelihood of a competition's winners."""
    total = 0.0
    for one in choices:
        score = a * one.index + b * one.log_share
        total -= float((one.used / one.used.sum()) @ (score - np.logaddexp.reduce(score)))
    return total / len(choices)


def fit(kind: str, choices: Sequence[Choice]) -> Fit:
    guess = _misfit(choices, 0.0, 0.0)
    both = minimize(lambda x: _misfit(choices, x[0], x[1]), (0.1, 1.0))
    index = minimize(lambda x: _misfit(choices, x[0], 0.0), (0.1,))
    share = minimize(lambda x: _misfit(choices, 0.0, x[0]), (1.0,))
    a, b = map(float, both.x)
    gains = (guess - float(index.fun), guess - float(share.fun), guess - float(both.fun))
    return Fit(kind, len(choices), b / a if a > 0.01 and b > 0.01 else None, gains)


def fits(choices: Sequence[Choice]) -> list[Fit]:
    """All together, then by the first word of the task."""
    parts = [("all", list(choices))]
    parts += [(kind, [one for one in choices if one.task.startswith(kind)]) for kind in KINDS]
    return [fit(kind, some) for kind, some in parts if len(some) >= LEAST]


def table(found: Sequence[Fit]) -> Iterator[str]:
    yield "| tasks | competitions | points per e-fold | gain by index | by share | by both |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        points = "—" if one.points is None else f"{one.points:.1f}"
        gains = " | ".join(f"{gain:.2f}" for gain in one.gains)
        yield f"| {one.kind} | {one.competitions} | {points} | {gains} |"
