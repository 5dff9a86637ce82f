"""Effect of a recipe's choices: what runs of the very competition say of its families and techniques."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memory_service.domain.recipe.recipe import Recipe
from memory_service.domain.recipe.votes import Vote
from memory_service.domain.runs.pattern_effect import Tally

PRIOR_PAIRS = 2.0
"""Comparisons won, and lost, that are supposed before any run was seen."""


def with_runs(recipe: Recipe, tallies: Mapping[str, Tally]) -> Recipe:
    """The recipe with what runs of the very competition say of its families and techniques: a family's share
    moves by the odds that following it was better.

    tallies   "family:<name>", "technique:<name>" -> what runs there say of it
    """

    def judged(kind: str, vote: Vote) -> Vote:
        tally = tallies.get(f"{kind}:{vote.name}")
        if tally is None or tally.weight <= 0.0:
            return vote
        odds = (tally.won + PRIOR_PAIRS) / (tally.weight - tally.won + PRIOR_PAIRS)
        chance = vote.share * odds / (vote.share * odds + 1.0 - vote.share)
        return replace(vote, share=chance if kind == "family" else vote.share, runs=tally.sentence)

    families = sorted((judged("family", one) for one in recipe.families), key=lambda one: -one.share)
    techniques = tuple(judged("technique", one) for one in recipe.techniques)
    return replace(recipe, families=tuple(families), techniques=techniques)
