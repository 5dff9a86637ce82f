"""The recipe of a question: solutions of similar competitions, weighed and counted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.request import Question
from memory_service.domain.recipe.families import families_of
from memory_service.domain.recipe.neighbourhood import (
    FACT_WEIGHTS,
    Neighbourhood,
    competition_weights,
    neighbourhood,
)
from memory_service.domain.recipe.notes import Note
from memory_service.domain.recipe.recipe import Recipe, make_recipe
from memory_service.domain.recipe.validation import SplitFact, decide_validation
from memory_service.recall.structure import answer_of
from memory_service.services.competitions.neighbours import Signals
from memory_service.services.knowledge.solution_memory import SolutionMemory

PITFALLS_FROM = 5
OWN_WEIGHT = 3.0
"""Of the very competition, by the nearest other one's: its cosine to itself would leave no other a say."""

_BY_TASK: Mapping[str, Callable[[str], str | None]] = {
    "task": lambda task: task,
    "modality": modality_of,
    "answer": answer_of,
}
"""Facts that follow from the task, which is uncertain where it was read from a text."""


def similarity_weights(signals: Signals, as_of: int | None) -> NDArray[np.float64]:
    """Weight of each stored competition for the question (C,)."""
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
    weights = competition_weights(meaning, agreement, snapshot.years, as_of, left_out, signals.year)
    if signals.own is not None and weights[signals.own] > 0.0:
        others = np.delete(weights, signals.own)
        weights[signals.own] = OWN_WEIGHT * others.max(initial=1.0 / OWN_WEIGHT)
    return weights


class TasksOfFamilies(dict[str, set[str]]):
    """Family -> the tasks that models of a catalogue serve of it."""

    def __init__(self, models: Iterable[CatalogueModel]) -> None:
        for model in models:
            for family in families_of(model.name, model.family):
                self.setdefault(family, set()).update(model.tasks)


def recipe_of(
    memory: SolutionMemory,
    slugs: Sequence[str],
    weights: NDArray[np.float64],
    task: str,
    as_of: int | None,
    split: SplitFact | None,
    served: TasksOfFamilies | None = None,
) -> tuple[Recipe, Neighbourhood]:
    """The recipe for a task, and the solutions it came from.

    slugs, weights   of all stored competitions (C,), as `similarity_weights` gives them
    served           by the catalogue: families that it has for other tasks only are not named, unless a
                     solution of the task used them
    """
    near = neighbourhood(weights, slugs, memory.by_competition, memory.known(as_of))
    nearest = ((slug, memory.competitions[slug]) for slug in near.competitions[:PITFALLS_FROM])
    pitfalls = [(slug, one_line(str(row["pitfalls"]))) for slug, row in nearest if row.get("pitfalls")]
    base = memory.base(modality_of(task), as_of)
    of_others = {family for family, tasks in (served or {}).items() if task not in tasks}
    of_others -= memory.families_of_task(task, as_of)
    validation = decide_validation(near, task, split)
    return make_recipe(near, validation, task, base, pitfalls, of_others), near


def split_fact(
    question: Question, said: InferredFacts | None, record: Mapping[str, Any], notes: Sequence[Note]
) -> SplitFact | None:
    """What is known of the way the hidden test differs: as asked > the text > a note of a person > the record
    of the very competition > a shipped note of it."""
    if question.group_by or question.n_groups:
        by, groups = question.group_by, question.n_groups
        if groups is None and said is not None and said.group_by == by:
            groups = said.n_groups
        return SplitFact("group", f"Asked: the rows come from groups ({by or groups}).", by, groups=groups)
    read = split_read(said) if said is not None else None
    if read is not None:
        return replace(read, folds=next((note.folds for note in notes if note.here and note.folds), None))
    here = next((note for note in notes if note.here and note.split), None)
    shipped = next((note for note in notes if note.split), None)
    if here is not None:
        folds = here.folds or next((note.folds for note in notes if note.here and note.folds), None)
        return _split_noted(replace(here, folds=folds))
    if record.get("split") in ("group", "time"):
        by, slug = record.get("group_by"), str(record["slug"])
        about = f" ({by})" if by else ""
        because = f"The record of {slug}: the test differs by {record['split']}{about}."
        firm = record["split"] == "time" or bool(by)
        return SplitFact(record["split"], because, by, source=(slug,), firm=firm)
    return None if shipped is None else _split_noted(shipped)


def _split_noted(note: Note) -> SplitFact:
    return SplitFact(str(note.split), f"Noted: {note.text}", note.by, note.folds, (note.source,))


def split_read(said: InferredFacts) -> SplitFact | None:
    """What a text says of the way the hidden test differs: groups that rows come in count unless it speaks of
    the future or of a random test, for series as for anything else."""
    by = said.group_by
    words = said.words.get("split") or said.words.get("group_by") or said.words.get("n_groups")
    quoted = f'The text says "{words}".' if words else f"The text says that the test differs by {said.split}."
    if said.split == "time":
        return SplitFact("time", quoted, by)
    if said.split == "group" or (by is not None and said.split is None):
        return SplitFact("group", quoted, by, groups=said.n_groups)
    return None
