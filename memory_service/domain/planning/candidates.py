"""Every plan that a problem allows, priced: networks on the cards, boosted trees on the processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.batch_choice import Flags
from memory_service.domain.planning.boosting_plan import price_trees
from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.host_memory import within_host
from memory_service.domain.planning.plan_search import GridIndex, PlanGrid, price_grid
from memory_service.domain.planning.problem import CostProvider, PlanningProblem

_PRECISION_ORDER = ("fp32", "fp16", "bf16")

TREES_LEAVE_OUT = {"epochs", "batch_size", "precision", "image_size", "seq_len"}
"""Who pins one of these has a network in mind: boosted trees are then no answer unless they are asked for by
name."""


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """One kind of candidates, everything priced: networks on the cards, or boosted trees on the processor.

    loader   data loader settings of the contract
    """

    problem: PlanningProblem
    precision: str
    loader: Mapping[str, Any]
    table: CostTable
    grid: PlanGrid


@dataclass(frozen=True, slots=True)
class Candidate:
    """The plan that won in its set."""

    candidates: CandidateSet
    pick: GridIndex

    @property
    def batch_size(self) -> int:
        return int(self.candidates.grid.batches.batch_size[self.pick.row])


@dataclass(frozen=True, slots=True)
class CandidateSets:
    """Every set of a problem: what both the plan and the refusal are read from."""

    problem: PlanningProblem
    sets: tuple[CandidateSet, ...]

    def best(
        self, objective: str, minutes: float, keep: Callable[[CostTable], Flags] | None = None
    ) -> Candidate | None:
        """The plan of highest utility over all all_sets that `minutes` allow; None when none does."""
        winner: Candidate | None = None
        for candidates in self.sets:
            flags = None if keep is None else keep(candidates.table)
            pick = candidates.grid.best(objective, minutes, flags)
            if pick is not None and (winner is None or pick.utility > winner.pick.utility):
                winner = Candidate(candidates, pick)
        return winner

    def least_minutes(self, model: str | None = None) -> float:
        """The smallest budget that any plan, or any of one model, holds; infinite when memory allows none."""
        rows = [
            s.grid.minutes[slice(None) if model is None else s.table.columns.names == model]
            for s in self.sets
        ]
        return min((float(minutes.min()) for minutes in rows if minutes.size), default=inf)

    def best_of_families(self, families: Sequence[str]) -> dict[str, str | None]:
        """Family -> the model of highest utility of it that fits; None where none does."""
        question = self.problem.question
        best: dict[str, tuple[float, str]] = {}
        for candidates in self.sets:
            utility = candidates.grid.best_utility(question.objective, question.minutes)
            columns = candidates.table.columns
            for code, names in enumerate(columns.families):
                rows = np.flatnonzero(columns.family == code)
                row = rows[np.argmax(utility[rows])]
                for name in names:
                    if name in families and utility[row] > best.get(name, (-inf, ""))[0]:
                        best[name] = (float(utility[row]), str(columns.names[row]))
        return {name: best[name][1] if name in best else None for name in families}


def precision_for(cards: Sequence[Gpu]) -> str:
    """The best precision that every card runs in hardware: bf16, else fp16 on tensor cores, else fp32."""
    common = min((card.preferred_precision() for card in cards), key=_PRECISION_ORDER.index)
    return common if all(card.supports(common) for card in cards) else "fp32"


def price_candidates(problem: PlanningProblem, costs: CostProvider) -> CandidateSets:
    """Price every option of the problem; raises nothing: what cannot run is never the best."""
    precision = problem.question.precision or precision_for(problem.cards)
    loader = loader_settings(problem.cpu_count, problem.task)
    table = costs.table(problem, problem.cards, precision)
    grid = within_host(problem, table.options, price_grid(problem, table, int(loader["num_workers"])))
    sets = [CandidateSet(problem, precision, loader, table, grid)]
    trees = costs.trees(problem)
    if trees.options and (problem.model is not None or not TREES_LEAVE_OUT & set(problem.question.pinned)):
        grid = within_host(problem, trees.options, price_trees(problem, trees))
        sets.append(CandidateSet(problem, "fp32", loader, trees, grid))
    return CandidateSets(problem, tuple(sets))
