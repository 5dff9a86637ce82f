"""What a description leaves open and what would change with the answer; and what no plan is made for.

unplanned(...)   the whole answer where the task is open or outside; None where a plan can be made
without_hardware(...)   the same where nobody names a card
brief(...)       what a description says, fact by fact, before a plan is made
questions(...)   at most three, the most telling first, each with the plan of its likeliest other answer
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.choice.offer import common_boxes
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN, modality_of
from memory_service.domain.description.known_facts import Fact, Sources, facts_of
from memory_service.domain.description.resources import cards_in, resources_in
from memory_service.domain.description.task_inference import OUTSIDE
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.planning.plan import gpu_facts, plan_id_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import Question
from memory_service.errors import InvalidInput
from memory_service.recall.recognition import is_named
from memory_service.schemas.recommend import RecommendRequest
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.checked_request import models_wanted, with_resources
from memory_service.services.planning.planning_problem import case_of, similar_answer, usual_n_test
from memory_service.services.planning.request_text import RequestText, read_request_text, task_asked

MOST_QUESTIONS, MOST_PLANS = 3, 2
SURE = 0.8
"""From this probability on nobody is asked for the task."""

_LIKELY = 0.05
_OPTIONS = 3

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; the first option is what the plan takes, the second its likeliest other answer."""

    field: str
    options: tuple[Values, ...]

    def as_dict(self, changes: str | None) -> Values:
        asked, options = sentence("asked", field=self.field), [dict(each) for each in self.options]
        return {"field": self.field, "question": str(asked), "options": options, "changes": changes}


def option(value: Any, why: str, probability: float | None = None, **values: Any) -> Values:
    shown = None if probability is None else round(probability, 2)
    return {"value": value, "why": str(sentence("option", why=why, **values)), "probability": shown}


def unplanned(knowledge: Knowledge, question: Question, text: RequestText) -> Values | None:
    """`feasible: false` where the description asks for what is no task here, or leaves the task open."""
    read = text.facts
    named = question.competition and knowledge.competition(question.competition).get("task")
    if read is None or named or task_asked(question, read) is not None or read.tells_task:
        return None
    wanted = models_wanted(knowledge, question.description)
    alone = knowledge.models.get(wanted[0].name or "") if len(wanted) == 1 else None
    asked = _of_task(text, alone.tasks if alone else ())
    outside = read.outside and sentence("out-of-scope", kind=OUTSIDE[read.outside])
    card = knowledge.gpu(counted(question.gpus[0])[1]) if question.gpus else None
    said = facts_of(Sources(question.canonical(), {}, text.said))
    hits = text.found.hits if text.found is not None else ()
    return _open_answer(question, outside or sentence("task-not-told"), asked) | {
        "gpu": None if card is None else gpu_facts((card,), (), card.usable_gib),
        "kind": read.outside,
        "similar": [similar_answer(hit) for hit in hits],
        "facts": [fact.as_dict() for fact in said if fact.name != "task"],
    }


def without_hardware(knowledge: Knowledge, question: Question) -> Values | None:
    """What to name, and who chooses, where neither field nor description names a card; else None."""
    text = question.description or ""
    if question.gpus or question.plan_for or "gpu" in resources_in(text, knowledge.cards.models):
        return None
    boxes: dict[str, list[str]] = {}
    for box in common_boxes():
        boxes.setdefault(f"{box.n_gpus}x{box.gpu}" if box.n_gpus > 1 else box.gpu, []).append(box.name)
    devices = (option(name, "registered") for name in sorted(knowledge.cards.devices))
    usual = (option(gpu, "box", boxes=", ".join(names)) for gpu, names in boxes.items())
    named = ", ".join(cards_in(text, knowledge.cards.models))
    about = sentence("hardware-not-told", named=f" The description names {named}." if named else "")
    return _open_answer(question, about, Asked("gpu", (*devices, *usual)[:_HARDWARE]))


_HARDWARE = 12


def _open_answer(question: Question, about: Sentence, asked: Asked | None) -> Values:
    """The answer without a plan: what must be answered first."""
    needs = [] if asked is None else [asked.as_dict(None)]
    empty = dict.fromkeys(("task", "gpu", "metric", "closest", "recipe", "targets"))
    return empty | {
        "plan_id": plan_id_of(question.canonical(), {"feasible": False, "why": about.code}),
        "feasible": False,
        "size": question.size,
        "minutes": question.minutes,
        "why": about.code,
        "detail": str(about),
        "reasons": [about.as_dict()],
        "needs": needs,
        "questions": needs,
        "uses": [],
        "ignores": [],
        "similar": [],
        "facts": [],
        "warnings": [],
        "evidence": [],
    }


def _of_task(text: RequestText, served: tuple[str, ...] = ()) -> Asked | None:
    likely = sorted(text.tasks.items(), key=lambda each: -each[1])[:_OPTIONS]
    by_words = tuple(
        option(task, "possible" if place else "likeliest", p)
        for place, (task, p) in enumerate(likely)
        if p >= _LIKELY or place == 0
    )
    of_model = (option(task, "served", text.tasks.get(task)) for task in served)
    shown = tuple(of_model)[:_OPTIONS] or by_words
    return Asked("task", shown) if shown else None


def questions(
    knowledge: Knowledge,
    question: Question,
    text: RequestText,
    case: PlanningProblem,
    given: Values,
    plan_of: Callable[[PlanningProblem], Values],
) -> list[Values]:
    """What was read or assumed without being sure, where another answer changes the plan `given`. Without a
    description or competition nothing is asked: what is assumed stands among the facts."""
    if question.description is None and question.competition is None:
        return []
    mine = _first_run(given)
    out: list[Values] = []
    plans = 0
    for asked in open_questions(knowledge, question, text, case):
        changes = None
        if plans < MOST_PLANS and len(asked.options) > 1:
            plans += 1
            other = {asked.field: asked.options[1]["value"]}
            changes = _changes(knowledge, text, case, mine, other, plan_of)
            if changes is None:
                continue  # the plan is the same
        out.append(asked.as_dict(changes))
    return out[:MOST_QUESTIONS]


def open_questions(
    knowledge: Knowledge, question: Question, text: RequestText, case: PlanningProblem
) -> Iterator[Asked]:
    """In the order of what they are worth: whose data they are where a text without a competition's name was
    taken for its description, the task, what rows belong together, counts, metric, language."""
    said = text.said
    if text.described is not None and not question.mode_given and not _is_named(question, text):
        own = option("open", "recognised", competition=text.described)
        yield Asked("mode", (own, option("family", "of-other-data")))
    facts = {fact.name: fact for fact in case.facts}
    task = facts["task"].source == "text" if "task" in facts else False
    if task and max(text.tasks.values(), default=1.0) < SURE and text.described is None:
        asked = _of_task(text)
        if asked is not None and len(asked.options) > 1:
            yield asked
    split = case.validation
    if case.by_group and split is not None and not split.by and question.group_by is None:
        columns = _id_columns(question.description or "")
        shown = (option(None, "no-column"), *(option(name, "column") for name in columns))
        yield Asked("group_by", shown[:_OPTIONS])
    groups_told = question.split or question.group_by or question.n_groups
    left_open = said.split_open if said is not None and not groups_told else None
    if left_open is not None and (split is None or split.split not in ("group", "time")):
        likely = left_open.probability
        said_so = option(left_open.split, "clause", likely, clause=left_open.clause[:120])
        yield Asked("split", (option("random", "not-sure", 1.0 - likely), said_so))
    if case.size_assumed and question.size is None:
        sizes = _shares(knowledge, case.task, "size")
        shown = tuple(
            option(SIZE_TYPICAL_N_TRAIN[size], "size", sizes[size], size=size)
            for size in sizes
            if SIZE_TYPICAL_N_TRAIN[size] != case.n_train
        )
        yield Asked("n_train", (option(case.n_train, "usual-number"), *shown)[:_OPTIONS])
    if case.metric is None and said is not None:
        usual_ones = _shares(knowledge, case.task, "metric")
        shown = tuple(option(name, "usual", p) for name, p in usual_ones.items())
        yield Asked("metric", (option(None, "not-said"), *shown)[:_OPTIONS])
    of_text = modality_of(case.task) == "text" and question.language is None
    if of_text and text.language not in ("en", "other") and said is not None:
        yield Asked("language", (option(text.language, "its-language"), option("en", "english")))


def _is_named(question: Question, text: RequestText) -> bool:
    """Whether the description has the name of the competition that it was taken for."""
    signals = text.found.signals if text.found is not None else None
    return (
        signals is None
        or signals.own is None
        or is_named(signals.snapshot, signals.own, question.description or "")
    )


_ID_COLUMN = re.compile(r"\b[a-z]+(?:_[a-z]+)*_id\b", re.IGNORECASE)
_OWN_IDS = ("image_id", "sample_id", "row_id", "text_id", "file_id", "test_id", "train_id")


def _id_columns(text: str) -> list[str]:
    found = dict.fromkeys(match[0] for match in _ID_COLUMN.finditer(text))
    return [name for name in found if name.lower() not in _OWN_IDS]


def _shares(knowledge: Knowledge, task: str, field: str) -> dict[str, float]:
    """Share of each value of a field among the stored competitions of the task, the usual one first."""
    rows = knowledge.competitions.values()
    counts = Counter(str(row[field]) for row in rows if row.get("task") == task and row.get(field))
    return {value: count / counts.total() for value, count in counts.most_common()}


def _first_run(plan: Values) -> Values:
    """What a plan trains first, with how its data are split; {} where nothing fits."""
    return {**plan, **plan["model"], "model": plan["model"]["name"]} if plan["feasible"] else {}


def _changes(
    knowledge: Knowledge,
    text: RequestText,
    case: PlanningProblem,
    mine: Values,
    answer: Mapping[str, Any],
    plan_of: Callable[[PlanningProblem], Values],
) -> str | None:
    """What the plan would be with another answer; None where it is the same. Of another count all that is
    remembered stays."""
    said = ", ".join(f"{name}={value}" for name, value in answer.items())
    question, n_train = replace(case.question, **answer), answer.get("n_train")
    if "mode" in answer and text.database is not None:
        text = read_request_text(text.database, question)
    try:
        if n_train is None:
            other = case_of(knowledge, question, text)
        else:
            usual = any(fact.name == "n_test" and fact.source == "usual" for fact in case.facts)
            n_test = usual_n_test(n_train) if usual else case.n_test
            other = replace(case, question=question, n_train=n_train, n_test=n_test)
        theirs = _first_run(plan_of(other))
    except InvalidInput as error:
        return f"with {said}: no plan ({error.detail})"
    if not theirs or not mine:
        return None if theirs == mine else f"with {said}: " + ("nothing fits" if mine else "a plan fits")
    parts = []
    if (theirs["split"], theirs["group_by"]) != (mine["split"], mine["group_by"]):
        parts.append(f"split {theirs['split']}" + (f" by {by}" if (by := theirs["group_by"]) else ""))
    if theirs["model"] != mine["model"]:
        parts.append(f"{theirs['model']} instead of {mine['model']}")
    for name in ("image_size", "seq_len", "folds", "epochs", "batch_size"):
        if theirs.get(name) not in (None, mine.get(name)):
            was = f" instead of {mine[name]}" if mine.get(name) is not None else ""
            parts.append(f"{name} {theirs[name]}{was}")
    return f"with {said}: {', '.join(parts)}" if parts else None


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
