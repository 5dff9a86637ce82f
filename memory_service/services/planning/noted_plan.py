"""Plans around what a person noted here as the best."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.planning.candidates import CandidateSets, price_candidates
from memory_service.domain.planning.plan import Plan, Refusal
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.portfolio.portfolio_plan import plan_portfolio
from memory_service.domain.recipe.notes import Note
from memory_service.services.knowledge.snapshot import Knowledge


class Planned(NamedTuple):
    """A problem, its candidates, those that the plan was chosen from, and the plan."""

    case: PlanningProblem
    sets: CandidateSets
    chosen_from: CandidateSets
    plan: Plan | Refusal


def planned(knowledge: Knowledge, case: PlanningProblem) -> Planned:
    """The plan, made around what a person noted here as the best where that fits: model, size and folds, else
    fewer of them; with the reason where nothing of it does."""
    note, question, sets = case.noted_best, case.question, price_candidates(case, knowledge)
    why: tuple[Sentence, ...] = ()
    for pins in () if note is None or question.model is not None else _pins_of(knowledge, case, note):
        said = f"{note.source} notes it: {note.text}"
        pinned = replace(case, question=replace(question, **pins), model=pins["model"], noted=said)
        chosen_from = price_candidates(pinned, knowledge)
        plan = plan_portfolio(pinned, knowledge, chosen_from)
        if isinstance(plan, Plan):
            return Planned(case, sets, chosen_from, replace(plan, rationale=(*plan.rationale, *why)))
        asked = ", ".join(f"{name} {value}" for name, value in pins.items())
        why = why or (sentence("note-does-not-fit", source=note.source, asked=asked, why=plan.why),)
    plan = plan_portfolio(case, knowledge, sets)
    return Planned(case, sets, sets, replace(plan, warnings=(*plan.warnings, *why)))


def _pins_of(knowledge: Knowledge, case: PlanningProblem, note: Note) -> Iterator[dict[str, Any]]:
    """What a note pins, all of it first; nothing that the question itself pins."""
    model = knowledge.models[note.prefer[0]]
    question = case.question
    pins: dict[str, Any] = {"model": model.name}
    sized = note.size and model.input_kind in ("image_size", "seq_len")
    if sized and getattr(question, model.input_kind) is None:
        pins[model.input_kind] = note.size
    if question.folds is None and note.folds:
        yield {**pins, "folds": note.folds}
    yield pins
    if len(pins) > 1:
        yield {"model": model.name}
