"""Every plan that a problem allows, priced: networks on the cards, boosted trees on the processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.boosting_plan import price_trees
from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.plan_search import Field, Flags, Pick, price_field
from memory_service.domain.planning.problem import Case, Shelf

__all__ = ["Choice", "Lanes", "Search", "precision_for", "search_case"]

_PRECISION_ORDER = ("fp32", "fp16", "bf16")

TREES_LEAVE_OUT = {"epochs", "batch_size", "precision", "image_size", "seq_len"}
"""Who pins one of these has a network in mind: boosted trees are then no answer unless they are asked for by
name."""


@dataclass(frozen=True, slots=True)
class Search:
    """One lane of a case, everything priced: networks on the cards, or boosted trees on the processor.

    loader   data loader settings of the contract
    """

    case: Case
    precision: str
    loader: Mapping[str, Any]
    table: CostTable
    field: Field


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan that won in its lane."""

    search: Search
    pick: Pick

    @property
    def batch_size(self) -> int:
        return int(self.search.field.batches.batch_size[self.pick.row])


@dataclass(frozen=True, slots=True)
class Lanes:
    """Every lane of a case: what both the plan and the refusal are read from."""

    case: Case
    searches: tuple[Search, ...]

    def best(
        self, objective: str, minutes: float, keep: Callable[[CostTable], Flags] | None = None
    ) -> Choice | None:
        """The plan of highest utility over all lanes that `minutes` allow; None when none does."""
        winner: Choice | None = None
        for search in self.searches:
            flags = None if keep is None else keep(search.table)
            pick = search.field.best(objective, minutes, flags)
            if pick is not None and (winner is None or pick.utility > winner.pick.utility):
                winner = Choice(search, pick)
        return winner

    def least_minutes(self) -> float:
        """The smallest budget that any plan holds; infinite when memory allows none."""
        return min((float(s.field.minutes.min()) for s in self.searches if s.table.options), default=inf)


def precision_for(cards: Sequence[Gpu]) -> str:
    """The best precision that every card runs in hardware: bf16, else fp16 on tensor cores, else fp32."""
    common = min((card.preferred_precision() for card in cards), key=_PRECISION_ORDER.index)
    return common if all(card.supports(common) for card in cards) else "fp32"


def search_case(case: Case, shelf: Shelf) -> Lanes:
    """Price every option of the case; raises nothing: what cannot run is never the best."""
    precision = case.question.precision or precision_for(case.cards)
    loader = loader_settings(case.cpu_count, case.task)
    table = shelf.table(case, case.cards, precision)
    searches = [Search(case, precision, loader, table, price_field(case, table, int(loader["num_workers"])))]
    trees = shelf.trees(case)
    if trees.options and (case.model is not None or not TREES_LEAVE_OUT & set(case.question.pinned)):
        searches.append(Search(case, "fp32", loader, trees, price_trees(case, trees)))
    return Lanes(case, tuple(searches))
