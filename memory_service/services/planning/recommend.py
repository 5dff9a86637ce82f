"""The answer of /recommend: facts filled in, each said so, then planned.

    recommend(database, plan_request({...})) -> the whole answer of /recommend as a dict
    recommend_json(database, ..., include=())    as it is sent: `domain.planning.answer_view`

Asking writes nothing. Answers are cached per knowledge revision (`plan_cache`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import orjson

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.modalities import uses_and_ignores
from memory_service.domain.parallel.parallel import with_parallel_sets
from memory_service.domain.planning.answer_view import MOST_BYTES, WHOLE, answer_view
from memory_service.domain.planning.candidates import CandidateSets, price_candidates
from memory_service.domain.planning.plan import Plan, Refusal
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import NO_PART, Done, Question
from memory_service.domain.portfolio.portfolio_plan import done_runs, plan_portfolio
from memory_service.domain.portfolio.run_sets import LARGE_TABLE
from memory_service.domain.quality.conditioning import points_of_metric
from memory_service.domain.recipe.notes import Note
from memory_service.domain.recipe.vocabulary import NO_TECHNIQUE
from memory_service.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    MemoryServiceError,
    NotFound,
    wrong_value,
)
from memory_service.schemas.predict import PredictRequest
from memory_service.schemas.recommend import plan_request
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import still_wanted
from memory_service.services.knowledge.snapshot import Knowledge, asker_view, knowledge_of
from memory_service.services.planning.plan_cache import PlanCache
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.questions import questions, unplanned, without_hardware
from memory_service.services.planning.request_text import RequestText, read_request_text
from memory_service.services.planning.script_choice import kind_of, techniques_done, why_no_script
from memory_service.services.prediction.predict import predict


def recommend(
    database: Database, question: Question | Mapping[str, Any], include: Collection[str] = WHOLE
) -> dict[str, Any]:
    """The plan, or `feasible: false` with what would fit, or with what must be answered first.

    include   parts of the answer, as `answer_view.PARTS` names them

    Raises InvalidInput for unknown cards, models, runs and values; NotFound for an unknown competition;
    Conflict where `after` is no plan of this question.
    """
    answer: dict[str, Any] = orjson.loads(recommend_json(database, question, include=include))
    return answer


def recommend_json(
    database: Database,
    question: Question | Mapping[str, Any],
    query: tuple[Mode, bytes] | None = None,
    *,
    include: Collection[str],
) -> bytes:
    """The same as JSON. query: whose query string asks it, which `PlanCache` will know from now on."""
    requested = question if isinstance(question, Question) else plan_request(question)
    cache, parts = database.caches.of(PlanCache), frozenset(include)
    still_wanted()
    view, revision = asker_view(database), database.knowledge_revision()
    key, whole = _key(requested, parts, view), _key(requested, parts | WHOLE, view)

    def answered() -> bytes:
        body = cache.get(revision, whole) or _evaluated(database, requested, parts | WHOLE)[1]
        if key == whole:
            return body
        answer = orjson.loads(body)
        sent = orjson.dumps(shown(answer, parts))
        own = _key(requested, parts, asker_view(database))
        cache.store(answer["knowledge_revision"], own, sent, None)
        return sent

    cached = cache.get(revision, key)
    if cached is None:
        cached = cache.renewed(revision, key, answered)
    if query is not None:
        cache.store_query((query[0], view, query[1]), key)
    return cached


def shown(answer: Mapping[str, Any], parts: Collection[str]) -> dict[str, Any]:
    """A whole answer as it is sent: with these parts; without any at most `MOST_BYTES` long."""
    view = answer_view(answer, parts)
    fits = bool(parts) or len(orjson.dumps(view)) <= MOST_BYTES
    return view if fits else answer_view(answer, parts, short=True)


def evaluate_request(database: Database, question: Question) -> tuple[dict[str, Any], Weighed | None]:
    """The whole answer with all that was weighed for it, read and priced once; None of it where nothing was
    planned. Raises as `recommend` does."""
    weighed, body = _evaluated(database, question, WHOLE | {"parallel"})
    return orjson.loads(body), weighed


def _evaluated(database: Database, question: Question, parts: frozenset[str]) -> tuple[Weighed | None, bytes]:
    knowledge = knowledge_of(database)
    view = asker_view(database)
    key = _key(question, parts, view)
    memory = read_request_text(database, question)
    open_answer = unplanned(knowledge, question, memory) or without_hardware(knowledge, question)
    cache = database.caches.of(PlanCache)
    if open_answer is not None:
        unplanned_body = orjson.dumps({**open_answer, "knowledge_revision": knowledge.revision})
        cache.store(knowledge.revision, key, unplanned_body, None)
        return None, unplanned_body
    asked = knowledge, question, memory
    case = case_of(*asked) if question.after is None else left_of(*asked)
    case, candidate_sets, chosen_from, plan = _planned(knowledge, question, memory, case)
    answer = (with_parallel_sets(plan, chosen_from) if "parallel" in parts else plan).as_dict()
    if "curves" in parts and isinstance(plan, Plan):
        answer["curves"] = _curves(database, answer)
    answer["questions"] = questions(
        knowledge, question, memory, case, answer, lambda other: planned(knowledge, other).plan.as_dict()
    )
    facts, model = {fact.name: fact.value for fact in case.facts}, answer.get("model") or {}
    answer["uses"], answer["ignores"] = uses_and_ignores(question.description or "", case.task, facts, model)
    answer["knowledge_revision"] = knowledge.revision
    _mark_scripted(answer)
    answer |= _linked(answer)
    body = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    plan_id = _of_run(answer["plan_id"], question.run) if question.run else answer["plan_id"]
    cache.store(knowledge.revision, key, body, plan_id, question.mode, view)
    return (knowledge, memory, case, candidate_sets), body


Weighed = tuple[Knowledge, RequestText, PlanningProblem, CandidateSets]


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
    if note is not None and question.model is None:
        said = f"{note.source} notes it: {note.text}"
        for pins in _pins_of(knowledge, case, note):
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


def _planned(knowledge: Knowledge, question: Question, text: RequestText, case: PlanningProblem) -> Planned:
    """Where nothing fits, of fewer samples if nobody says how many there are, else of a part of the table; a
    part, too, of which boosted trees can be grown where they cannot of all of a large one."""
    first = planned(knowledge, case)
    if isinstance(first.plan, Plan) and _lacks_trees(knowledge, case, first.plan):
        halves = (case.n_train >> n for n in (1, 2, 3))
        parts = (_of_rows(case, rows, " by boosted trees") for rows in halves if rows >= LARGE_TABLE)
        of_parts = (planned(knowledge, part) for part in parts)
        some = (p for p in of_parts if isinstance(p.plan, Plan) and not _lacks_trees(knowledge, case, p.plan))
        return next(some, first)
    if isinstance(first.plan, Refusal):
        unsaid = case.size_assumed and question.size is None and question.after is None
        smaller = (case_of(knowledge, question, text, fewer) for fewer in (FEWER if unsaid else ()))
        for other in chain(smaller, _sampled(case, first.plan)):
            found = planned(knowledge, other)
            if isinstance(found.plan, Plan):
                return found
    return first


def _sampled(case: PlanningProblem, refusal: Refusal) -> Iterator[PlanningProblem]:
    """The problem with as many rows of a table, or of series, as the refusal says would fit."""
    fewer = [each["set"]["n_train"] for each in refusal.closest if each["set"].keys() == {"n_train"}]
    minutes, table = case.question.minutes, case.task.startswith(("tabular", "time-series"))
    if fewer and table and not case.question.pinned and case.n_train <= 60 * minutes * READ_SHARE * ROWS_READ:
        yield _of_rows(case, fewer[0], " or the memory")


def _of_rows(case: PlanningProblem, n_train: int, why: str) -> PlanningProblem:
    """The problem with so many of its rows."""
    which = "the latest" if case.by_time else "drawn at random"
    counts = {"rows": case.n_train, "minutes": case.question.minutes, "n_train": n_train}
    warning = sentence("rows-sampled", **counts, memory=why, which=which)
    return replace(case, n_train=n_train, sampled=True, warnings=(*case.warnings, warning))


def _lacks_trees(knowledge: Knowledge, case: PlanningProblem, plan: Plan) -> bool:
    """Whether nothing is boosted of a large table of which anything may be."""
    large = case.task.startswith("tabular") and case.n_train >= LARGE_TABLE
    if case.question.pinned or case.noted or not large:
        return False
    families = {knowledge.models[run["model"]].family for run in plan.portfolio}
    return "gbdt" not in families | {run.family for run in case.done}


SCRIPT_RESERVE = 0.03
"""Of the minutes, kept by a script that goes on through other models."""

ROWS_READ, READ_SHARE = 300_000, 0.2
"""Rows of a CSV a second, about ten columns on one core; the share of the minutes that reading may take."""

FEWER = (5_000, 1_000)
"""Training samples that are assumed, one after the other, where nobody says how many there are and nothing
fits with the usual number: a refusal must not rest on a guess."""


def _mark_scripted(answer: dict[str, Any]) -> None:
    """Say of each technique of the recipe whether the plan's script does it, and where there is none, why."""
    told, why = list[Sentence](), why_no_script(answer)
    if answer["feasible"] and why:
        told.append(sentence("no-script", why=f"{why.partition(';')[0]}."))
        answer["warnings"] = [w for w in answer["warnings"] if w["code"] != "metric-not-computed"]
    elif answer["feasible"] and (words := kind_of(answer).words)["frames"]:
        fits = "in whose place the script fits others", "which the script fits first"
        small = answer.get("weights") == "none" and (words["media"] or words["masks"])
        how = fits[not (words["instead"] or small)]
        until = "through other models and blends them until nothing gains or"
        if words["boxes"]:
            how, until = "which the script learns at a picture size that fits by its own measure", "until"
        end, minutes = (1 - SCRIPT_RESERVE) * answer["minutes"], round(answer["minutes"], 1)
        told.append(sentence("script-uses-all", instead=how, until=until, end=end, minutes=minutes))
    done = techniques_done(answer)
    chosen = {*(answer.get("techniques") or NO_TECHNIQUE).split(",")} - {NO_TECHNIQUE}
    if answer["feasible"] and (undone := sorted(chosen - done.keys())):
        told.append(sentence("techniques-undone", names=", ".join(undone)))
    answer["warnings"] = [*answer["warnings"], *(each.as_dict() for each in told)]
    joined = not why_no_script(answer, blend=True) and all(each.code != "script-uses-all" for each in told)
    blended = answer["blend"]["runs"] if joined else []
    by_blend = f"blend.py averages the predictions of runs {', '.join(map(str, blended))}"
    for technique in (answer["recipe"] or {}).get("techniques", ()):
        if technique["name"] in done:
            technique.update(in_script=True, setting=done[technique["name"]])
        elif technique["name"] == "mean-blend" and len(blended) > 1:
            technique["setting"] = by_blend


def _linked(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Where the plan's script, its page and a rule are; of no plan nothing."""
    if not answer["feasible"]:
        return {}
    plan_id, run = answer["plan_id"], "" if answer["run"] is None else f"?run={answer['run']}"
    scripted = all(each["code"] != "no-script" for each in answer["warnings"])
    script = {"script": f"/plans/{plan_id}/train.py{run}"} if scripted else {}
    return {"links": script | {"page": f"/browse/plans/{plan_id}", "rule": "/strategies?rule={rule}"}}


def _curves(database: Database, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Memory and speed of the plan's network by batch size, as /predict has them; none of trees."""
    model = answer["model"]
    asked = {name: answer[name] for name in _OF_STEP if answer.get(name) is not None}
    asked |= {name: model[name] for name in ("image_size", "seq_len", "bands") if name in model}
    try:
        request = checked(PredictRequest, {"model": model["name"], "gpu": answer["gpu"]["slug"], **asked})
        curve: list[dict[str, Any]] = predict(database, request)["curve"]
    except (InvalidInput, KeyError):
        return []
    return curve


_OF_STEP = (
    "precision", "batch_size", "optimizer", "gradient_checkpointing", "method", "lora_rank", "n_gpus",
    "trainer",
)  # fmt: skip


def _key(question: Question, parts: frozenset[str], view: str | None) -> str:
    how = {name: getattr(question, name) for name in NO_PART}
    return json.dumps([question.canonical(), how, sorted(parts), view])


def cached_plan(database: Database, plan_id: str, limit: Mode = "open") -> dict[str, Any] | None:
    """The answer of that id, where this process gave it not long ago. Plans are not stored: they can be asked
    for again, and are where they were given to askers with other reports only."""
    cache = database.caches.of(PlanCache)
    body = cache.with_plan(plan_id, limit, asker_view(database))
    if body is None and (asked := question_of(database, plan_id)) is not None:
        with suppress(MemoryServiceError):
            recommend(database, asked.within(limit))
        body = cache.with_plan(plan_id, limit, asker_view(database))
    return None if body is None else orjson.loads(body)


def question_of(database: Database, plan_id: str) -> Question | None:
    """The question that this plan answers, where `cached_plan` knows the plan."""
    text = database.caches.of(PlanCache).question_of(plan_id)
    if text is None:
        return None
    fields, how, *_ = orjson.loads(text)
    return replace(question_from(fields), **how)


def question_from(canonical: Mapping[str, Any]) -> Question:
    """The question that `Question.canonical` gave this of."""
    fields = dict(canonical)
    fields |= {name: tuple(fields.get(name, ())) for name in ("gpus", "plan_for")}
    fields["done"] = tuple(Done(**each) for each in fields.get("done", ()))
    return Question(**fields)


def known_plan(
    database: Database, plan_id: str, run: int | None = None, limit: Mode = "open"
) -> dict[str, Any]:
    """The whole answer of that id; with `run` that of another run of its portfolio, where it was asked for.
    NotFound where this process gave no such plan, has forgotten it, or where it rests on memory that `limit`
    forbids."""
    found = cached_plan(database, plan_id if run is None else _of_run(plan_id, run), limit)
    if found is None:
        which = "" if run is None else f" with run={run}"
        raise NotFound(f"Plan {plan_id[:80]} is not known here any more: ask /recommend again{which}")
    return found


def _of_run(plan_id: str, run: int) -> str:
    """What another run of a plan's portfolio is kept under: all of them have the same id."""
    return f"{plan_id}.{run}"


def left_of(knowledge: Knowledge, question: Question, text: RequestText) -> PlanningProblem:
    """The problem of the minutes that are left after `done`, of the data that were planned with. Conflict
    where `after` is not what this question is answered with now; InvalidInput for runs that its portfolio has
    not, and where no minute is left."""
    before = replace(question, after=None, done=(), run=None)
    case, _, chosen_from, plan = _planned(knowledge, before, text, case_of(knowledge, before, text))
    if plan.plan_id != question.after:
        message = f"is not the plan of this question: that is {plan.plan_id}"
        detail = f"after {question.after} {message}; repeat all its fields, or plan anew if knowledge changed"
        raise Conflict(detail, [FieldError("after", message, question.after, (plan.plan_id,))])
    minutes = case.question.minutes
    left = minutes - sum(run.minutes for run in question.done)
    if left <= 0.0:
        message = f"took all of the minutes ({minutes:g}): nothing is left to plan"
        raise wrong_value("done", message, minutes - left)
    done = done_runs(chosen_from, question.done)
    reached = _reached(case, question.done, {run.run: run.model for run in done})
    asked = replace(case.question, minutes=left, after=question.after, done=question.done, run=question.run)
    return replace(case, question=asked, done=done, results={**case.results, **reached})


def _reached(case: PlanningProblem, done: Sequence[Done], models: Mapping[int, str]) -> dict[str, float]:
    """Model -> points of the metric that its run reached; none where nobody knows which way that improves."""
    direction = case.metric.direction if case.metric is not None else None
    if direction is None:
        return {}
    found: dict[str, float] = {}
    for run in done:
        model = models.get(run.run)
        if run.metric is None or model is None:  # a retriever is judged by nothing
            continue
        points = points_of_metric(run.metric, direction, case.data_kind.table)
        if points is not None:
            found[model] = max(points, found.get(model, points))
    return found
