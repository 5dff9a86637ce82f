"""The recipe of a question: solutions of similar competitions, weighed and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.recipe.neighbourhood import (
    FACT_WEIGHTS,
    Neighbourhood,
    competition_weights,
    neighbourhood,
)
from memory_service.domain.recipe.recipe import Recipe, make_recipe
from memory_service.domain.recipe.validation import SplitFact, decide_validation
from memory_service.recall.structure import answer_of
from memory_service.services.competitions.neighbours import Signals
from memory_service.services.knowledge.solution_memory import SolutionMemory

PITFALLS_FROM = 5

_BY_TASK: Mapping[str, Callable[[str], str | None]] = {
    "task": lambda task: task,
    "modality": modality_of,
    "answer": answer_of,
}
"""Facts that follow from the task, which is uncertain where it was read from a text."""


def similar_solutions(memory: SolutionMemory, signals: Signals, as_of: int | None) -> Neighbourhood:
    """The solutions of the competitions that are most similar to the question."""
    snapshot = signals.snapshot
    structure = snapshot.structure
    certain = {name: weight for name, weight in FACT_WEIGHTS.items() if name not in _BY_TASK}
    agreement = structure.shared_weight(signals.kind, certain).astype(np.float64)
    for name, value_of in _BY_TASK.items():
        likely: dict[str, float] = {}
        for task, probability in signals.tasks.items():
            value = value_of(task)
            if value is not None:
                likely[value] = likely.get(value, 0.0) + probability
        agreement += FACT_WEIGHTS[name] * structure.probability(name, likely)
    left_out = np.zeros(len(agreement), dtype=np.bool_) if signals.left_out is None else signals.left_out
    meaning = None if signals.meaning is None else signals.meaning.astype(np.float64)
    weights = competition_weights(meaning, agreement, snapshot.years, as_of, left_out)
    return neighbourhood(weights, snapshot.slugs, memory.by_competition, memory.known(as_of))


def recipe_of(
    memory: SolutionMemory, signals: Signals, task: str, as_of: int | None, split: SplitFact | None
) -> tuple[Recipe, Neighbourhood]:
    """The recipe for a task, and the solutions it came from."""
    near = similar_solutions(memory, signals, as_of)
    pitfalls = [
        (slug, str(memory.competitions[slug]["pitfalls"]))
        for slug in near.competitions[:PITFALLS_FROM]
        if memory.competitions[slug].get("pitfalls")
    ]
    base = memory.base(modality_of(task), as_of)
    return make_recipe(near, decide_validation(near, task, split), base, pitfalls), near


def split_of_text(read: InferredFacts) -> SplitFact | None:
    """What a text says of the way the hidden test differs."""
    if read.split not in ("group", "time"):
        return None
    return SplitFact(read.split, f"The text says that the test differs by {read.split}.")
