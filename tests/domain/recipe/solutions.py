"""Solutions made up for tests: what a test does not say is not known."""

from __future__ import annotations

from typing import Any

from memory_service.domain.recipe.neighbourhood import Neighbourhood
from memory_service.domain.recipe.solution import Solution


def solution(competition: str = "leaves", rank: int = 1, **said: Any) -> Solution:
    values: dict[str, Any] = {"basis": "read", "families": (), "techniques": (), "loss": (), **said}
    return Solution(id=f"{competition}#{rank}", competition=competition, rank=rank, **values)


def near(*found: tuple[Solution, float]) -> Neighbourhood:
    """A neighbourhood of solutions with their weights."""
    solutions = tuple(one for one, _ in found)
    return Neighbourhood(
        solutions,
        tuple(weight for _, weight in found),
        tuple(dict.fromkeys(one.competition for one in solutions)),
        len(solutions),
    )
