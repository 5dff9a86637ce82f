"""What a description says, fact by fact with its words, and what it leaves open, before a plan is made."""

from dataclasses import replace
from typing import Any

from memory_service.domain.description.known_facts import Fact, Sources, facts_of
from memory_service.domain.planning.request import Question
from memory_service.errors import InvalidInput
from memory_service.schemas.recommend import RecommendRequest
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.checked_request import with_resources
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.questions import open_questions, unplanned
from memory_service.services.planning.request_text import RequestText, read_request_text

_NEEDED = ("task", "metric", "n_train", "gpu", "minutes")


def brief(database: Database, question: Question) -> dict[str, Any]:
    """`facts` that are known, `not_said` with what a plan assumes instead (null: nothing), `questions` worth
    asking, `outside`: the kind that no plan is made for, if it is one, and `json_schema` of the fields that
    say it. Raises as `recommend` does, but not for a card or task that nobody names."""
    text = read_request_text(database, question)
    knowledge = knowledge_of(database)
    facts, asked = _facts(knowledge, question, text)
    usual = {fact.name: fact.value for fact in facts if fact.source == "usual"}
    lacking = dict.fromkeys(name for name in _NEEDED if name not in {fact.name for fact in facts})
    return {
        "facts": [fact.as_dict() for fact in facts if fact.source != "usual"],
        "not_said": [{"name": name, "assumed": value} for name, value in {**lacking, **usual}.items()],
        "questions": asked,
        "outside": text.facts.outside if text.facts is not None else None,
        "json_schema": RecommendRequest.model_json_schema(),
    }


def _facts(
    knowledge: Knowledge, question: Question, text: RequestText
) -> tuple[tuple[Fact, ...], list[dict[str, Any]]]:
    """The facts, and what is worth asking, of which nothing is planned here."""
    try:
        unread = unplanned(knowledge, replace(question, gpus=()), text)
        if unread is None:
            case = case_of(knowledge, question, text)
            asked = [each.as_dict(None) for each in open_questions(knowledge, question, text, case)]
            return case.facts, asked
        return _without_task(knowledge, question, text), unread["needs"]
    except InvalidInput as error:
        unnamed = {each.field for each in error.errors if each.given is None}
        if unnamed == {"task"}:
            return _without_task(knowledge, question, text), []
        if unnamed != {"gpu"}:
            raise
        found, asked = _facts(knowledge, replace(question, gpus=("cpu",)), text)
        return tuple(fact for fact in found if fact.name not in ("gpu", "cpu_count")), asked


def _without_task(knowledge: Knowledge, question: Question, text: RequestText) -> tuple[Fact, ...]:
    """What is said, without the task: a guess that no plan is made of."""
    resources = with_resources(knowledge, question)[1]
    said = (*facts_of(Sources(question.canonical(), {}, text.said)), *resources)
    return tuple(fact for fact in said if fact.name != "task")
