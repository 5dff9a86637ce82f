"""Memory of the host that a plan takes: a table as it is read, and what fits on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import table_memory
from memory_service.domain.planning.boosting_plan import cost_of
from memory_service.domain.planning.cost_table import with_memory
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.plan_search import PlanGrid
from memory_service.domain.planning.problem import PlanningProblem


def host_memory(problem: PlanningProblem, option: Option, rounds: Any) -> Estimate | None:
    """GiB of the process that trains the option on the problem's table; None where files are read one by one.
    rounds: of boosting, a number or an array of them."""
    if option.is_trees:
        return cost_of(problem, option, problem.n_train, rounds).memory_gib
    if option.model.input_kind != "n_features":
        return None
    return table_memory(problem.n_train, problem.n_features)


def host_limit_gib(problem: PlanningProblem) -> float:
    """What a process may use of the smallest host whose memory is known: of a processor that is planned for;
    infinite beside cards, whose hosts nobody described."""
    vram = problem.question.vram_gib
    hosts = (card for card in problem.cards if card.kind == "cpu")
    return min((with_memory(h, vram).usable_gib if vram else h.usable_gib for h in hosts), default=inf)


def host_share(problem: PlanningProblem, options: Iterable[Option]) -> float | None:
    """How many times the host holds the option that needs least of it; None where none is limited by it."""
    needs = [m.high for option in options if (m := host_memory(problem, option, 1)) is not None]
    limit = host_limit_gib(problem)
    return limit / min(needs) if needs and limit < inf else None


def within_host(problem: PlanningProblem, options: Sequence[Option], grid: PlanGrid) -> PlanGrid:
    """The grid without what the host cannot hold nine times in ten."""
    limit = host_limit_gib(problem)
    if limit == inf:
        return grid
    over = np.zeros((len(options), len(grid.epochs), 1), dtype=bool)
    for row, option in enumerate(options):
        memory = host_memory(problem, option, np.array(grid.epochs, dtype=np.float64))
        if memory is not None:
            over[row, :, 0] = memory.high + grid.batches.peak_high_gib[row] > limit
    on = grid.minutes_on
    return replace(
        grid,
        minutes=np.where(over, inf, grid.minutes),
        minutes_on=None if on is None else np.where(over, inf, on),
    )
