"""The facts of a question, each filled in: as asked > from its text > from the record > a usual value."""

import re
from dataclasses import replace
from typing import Any

from memory_service.domain.calibration.registered_device import cores_beside
from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN, modality_of, size_of
from memory_service.domain.cost.decoders.packing import check_packing
from memory_service.domain.cost.multi_gpu import cards_of, check_link, check_sharding
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.description.known_facts import Fact, contradictions, facts_of
from memory_service.domain.description.languages import READ_LANGUAGES, language_of
from memory_service.domain.description.metric_resolution import ResolvedMetric, resolve_metric
from memory_service.domain.description.stated_facts import training_sizes
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.planning import model_catalogue as catalogue
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import PINS, Question
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import wrong_value
from memory_service.services.knowledge.outcomes import happened_there
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.checked_request import (
    check_counts,
    check_folds,
    said_otherwise,
    with_resources,
)
from memory_service.services.planning.memory import Row, remembered
from memory_service.services.planning.request_text import NOTHING_READ, RequestText, task_asked

DEFAULT_CPU_COUNT = 8
DEFAULT_N_FEATURES = 50
DEFAULT_N_CLASSES = {"image": 10}
TEST_SHARE = 0.5
MOST_TEST = 1_000_000
"""n_test / n_train when nobody says: the median of the seeded competitions whose both sizes are known is
0.45-0.5, and hardly any has over a million test samples."""


def case_of(knowledge: Knowledge, question: Question, text: RequestText = NOTHING_READ) -> PlanningProblem:
    """The question with every fact filled in: what was asked > the text > the competition's record > a usual
    value."""
    inferred: list[str] = []
    warnings: list[str] = []
    question, resources = with_resources(knowledge, question, inferred, warnings)
    asked = question.canonical()
    n_gpus = _n_gpus(question)
    visible, production = (
        tuple(dict.fromkeys(knowledge.gpu(counted(name)[1]).key for name in names))
        for names in (question.gpus, question.plan_for)
    )
    planned = production or visible
    cards = tuple(with_cores(knowledge.gpus[key], question.cpu_count) for key in planned)
    read = text.facts
    record = _record(knowledge, question, inferred)
    for card in cards:
        check_link(card, n_gpus, question.interconnect)
    check_sharding(n_gpus, question.sharding)
    task = _task(question, read, record, inferred)
    n_train, size_assumed = _n_train(question, text, record, task, inferred, warnings)
    check_counts(question, task, n_train)
    if question.task and text.said and said_otherwise(task, text.said):
        warnings.append(
            f"task={task} was asked, but the description reads like {text.said.task}: {task} counts."
        )
    model = knowledge.model(question.model) if question.model else None
    if question.batch_size == n_train and model is not None and catalogue.kind_of_model(model) == "estimator":
        question = replace(question, batch_size=None)  # what a plan of it says: all rows
    options = (*PINS, "lora_rank", "interconnect", "sharding", "packing", "text_tokens", "weights")
    given = {name: getattr(question, name) for name in options}
    if model is None:
        serving = (row for row in knowledge.models.values() if task in row.tasks)
        catalogue.check_options_of_task(given, task, serving)
    else:
        catalogue.check_options(given, model, model.name)
        if not catalogue.can_answer(model, task):
            message = f"does not serve {task}; it is for {', '.join(model.tasks)}"
            raise wrong_value("model", message, question.model, detail=f"model {model.name} {message}")
        if question.image_size is not None and model.input_kind == "image_size":
            catalogue.check_side(model.library, model.name, model.config, question.image_size)
        knowledge.priced.ensure_profile(model.name, question.seq_len or question.image_size)
    check_packing(question.packing, question.text_tokens, writes=task == "seq2seq")
    _check_memory(question, cards, warnings)
    if question.weights == "none" and modality_of(task) not in _NO_WEIGHTS:
        warnings.append("Without pretrained weights (weights=none) models learn from random ones, and less")
    metric = _metric(knowledge, question, text, record, task)
    if metric is not None and metric.note:
        warnings.append(metric.note)
    if text.said is not None:
        warnings += _not_understood(question, metric is not None)
    outcomes, results = text.outcomes(question, task)
    bare = text.found is None and text.facts is None and question.competition is None
    found, memory = remembered(
        knowledge, question, task, n_train, text.said, (outcomes or {}).get("best"),
        lambda: text.neighbours(question, task, n_train), bare and text.database is not None,
    )  # fmt: skip
    check_folds(question, memory.recipe)
    slug = question.competition or text.described
    known_there = record or (knowledge.competitions.get(str(slug), {}) if question.mode == "open" else {})
    described = question.competition is None and text.described is not None
    warnings += contradictions(asked, text.said, known_there, slug, described)
    if described and question.mode == "open":
        warnings.append(f"The description seems to be of the stored competition {slug}: its record was read.")
    said = text.said
    used: dict[str, Any] = {
        "task": task,
        "n_train": n_train,
        "n_test": question.n_test
        or (said.n_test if said else None)
        or int(known_there.get("n_test") or 0)
        or max(1, min(MOST_TEST, int(n_train * TEST_SHARE))),
        "n_classes": _n_classes(question, read, record, task),
        "n_features": question.n_features or (said.n_features if said else None) or DEFAULT_N_FEATURES,
        "cpu_count": _cpu_count(question, cards, inferred),
    }
    return PlanningProblem(
        question=replace(
            question,
            gpus=visible,
            n_gpus=n_gpus if n_gpus > 1 else None,
            plan_for=planned if question.plan_for else (),
            model=model.name if model else None,
        ),
        **used,
        cards=cards,
        together=min(
            (cards_of(card, n_gpus, question.interconnect) for card in cards), key=lambda each: each.gb_s
        ),
        visible=tuple(knowledge.gpus[key] for key in visible) if visible != planned else (),
        model=model.name if model else None,
        inferred=tuple(inferred),
        warnings=(*warnings, *memory.warnings),
        similar=tuple(
            {"slug": hit.slug, "score": hit.score, "why": hit.why, "lessons": list(hit.lessons)}
            for hit in found.hits
        ),
        recipe=memory.recipe,
        preferences=memory.preferences,
        targets=memory.targets,
        noted_best=memory.noted
        if memory.noted and task in knowledge.models[memory.noted.prefer[0]].tasks
        else None,
        evidence=(*happened_there(outcomes, question.competition or text.described), *memory.evidence),
        policy=knowledge.policy,
        size_assumed=size_assumed,
        metric=metric,
        facts=(*_facts(question, said, {**known_there, **_cores_of_device(cards)}, used, metric), *resources),
        quality=knowledge.quality
        if question.mode == "blind" or question.as_of is not None
        else knowledge.quality_without(slug),
        results={
            knowledge.model_names.get(catalogue.normal_model_name(name), name): points
            for name, points in results.items()
        },
        language=question.language or (said.language if said else None),
        subtask=question.subtask or (said.subtask if said else None),
    )


_NO_WEIGHTS = ("tabular", "time-series", "recommendation")
"""Modalities whose models are trained from random weights anyway."""

_OF_METRIC = {"as asked": "asked", "the description": "text"}


def _facts(
    question: Question, said: InferredFacts | None, record: Row, used: Row, metric: ResolvedMetric | None
) -> tuple[Fact, ...]:
    """The facts that bear on such a task, with the metric as it was resolved."""
    task = str(used["task"])
    left_out = {
        *(
            ()
            if task.endswith(("classification", "segmentation", "detection", "multimodal"))
            else ("n_classes",)
        ),
        *(() if modality_of(task) in ("tabular", "time-series") else ("n_features",)),
        *(() if modality_of(task) in ("text", "multimodal") else ("language", "subtask")),
    }
    named = {name: value for name, value in used.items() if name not in left_out} | {"metric": None}
    found = facts_of(question.canonical(), said, record, named)
    out = [fact for fact in found if fact.name not in left_out]
    if metric is not None:
        source = _OF_METRIC.get(metric.source, "record")
        words = said.words.get("metric") if said is not None and source == "text" else None
        out.insert(1, Fact("metric", metric.name, source, words))  # type: ignore[arg-type]
    return tuple(out)


def _n_gpus(question: Question) -> int:
    """How many cards train together; InvalidInput where the names and `n_gpus` disagree."""
    stated = {n for n, _ in map(counted, question.plan_for or question.gpus)}
    asked = question.n_gpus
    if asked is not None and stated - {1, asked}:
        raise wrong_value("n_gpus", f"is {max(stated)} by the name of the card", asked)
    if asked is None and len(stated) > 1:
        names = ", ".join(question.plan_for or question.gpus)
        message = f"must name as many cards each time, one plan is for them all: {names}"
        raise wrong_value("gpu", message, names)
    return asked or next(iter(stated), 1)


def _record(knowledge: Knowledge, question: Question, inferred: list[str]) -> Row:
    """Facts of the named competition that the mode allows to be read."""
    if question.competition is None:
        return {}
    row = knowledge.competition(question.competition)
    if question.mode == "open":
        return row
    if question.task is None and question.description is None:
        inferred.append(f"Mode {question.mode}: of the record of {row['slug']} only its task was read.")
        return {"task": row.get("task")}
    return {}


def _task(question: Question, read: InferredFacts | None, record: Row, inferred: list[str]) -> str:
    asked = task_asked(question, read)
    if asked is not None:
        if asked != question.task:
            which = "the description says which" if read and read.task == asked else "the usual one of it"
            inferred.append(f"Task {asked}: {question.task} was asked; {which}.")
        return asked
    if record.get("task"):
        inferred.append(f"Task {record['task']}: from the record of {question.competition}.")
        return str(record["task"])
    if read is not None and read.task is not None and read.tells_task:
        because = f" ({', '.join(read.evidence[:3])})" if read.evidence else ""
        other = f"; it could be {read.runner_up}" if read.runner_up and read.confidence < 0.6 else ""
        inferred.append(f"Task {read.task}: inferred from the description{because}{other}.")
        return read.task
    raise wrong_value("task", "cannot be told from the description: name it")


def _n_train(
    question: Question, text: RequestText, record: Row, task: str, inferred: list[str], warnings: list[str]
) -> tuple[int, bool]:
    """(training samples, whether that is a usual number that nobody said)."""
    if question.n_train is not None:
        if question.size and size_of(question.n_train) != question.size:
            warnings.append(
                f"size={question.size} contradicts n_train={question.n_train}, which is "
                f"{size_of(question.n_train)}: n_train counts."
            )
        return question.n_train, False
    read, said = text.facts, text.said
    known = (said.n_train if said else None) or record.get("n_train") or (read.n_train if read else None)
    if known and (question.size is None or size_of(int(known)) == question.size):
        where = f"the record of {question.competition}" if record.get("n_train") else "the description"
        if said and said.n_train:
            where = "the description"
        elif not record.get("n_train") and text.described:
            where = f"the record of {text.described}, which the description is of"
        inferred.append(f"{int(known)} training samples: from {where}.")
        return int(known), False
    size = question.size or "medium"
    typical = max(SIZE_TYPICAL_N_TRAIN[size], question.n_groups or 0, question.n_classes or 0)
    slug = question.competition if question.mode == "open" else None
    unsaid = "" if question.size else f" (the record of {slug} says none)" if slug else " (no size was given)"
    if read is not None and len(told := training_sizes(question.description or "")) > 1:
        unsaid = f" (the description says {', '.join(map(str, told[:4]))})"
    inferred.append(f"{typical} training samples assumed for size {size}{unsaid}; give n_train to be exact.")
    if task == "recommendation" and question.size is None:
        warnings.append(
            f"n_train={typical} is a guess: nobody says how many interactions (purchases, clicks, ratings, "
            "sessions) there are, and minutes and memory grow with them. Give n_train; items and users are "
            "no training samples."
        )
    return typical, True


_JUDGES = re.compile(r"\b(?:metric|evaluated|evaluation|scored)\b", re.IGNORECASE)


def _not_understood(question: Question, metric_known: bool) -> list[str]:
    """What of the description was not read, as far as it shows."""
    description = question.description or ""
    if (language := language_of(description)) != "en":
        known = "" if question.task else "task, "
        only = "only numbers, names and English terms of it were read"
        read = f"its words for these were read as {language}" if language in READ_LANGUAGES else only
        exact = f"Check the facts; give {known}metric and counts to be exact."
        return [f"The description does not look English: {read}. {exact}"]
    if not metric_known and _JUDGES.search(description):
        return ["The description speaks of a metric that was not understood: give metric to be exact."]
    return []


def _n_classes(question: Question, read: InferredFacts | None, record: Row, task: str) -> int:
    known = question.n_classes or (read.n_classes if read else None) or record.get("n_classes")
    usual = 2 if task == "image-segmentation" else DEFAULT_N_CLASSES.get(modality_of(task), 2)
    return int(known) if known else usual


def _metric(
    knowledge: Knowledge, question: Question, text: RequestText, record: Row, task: str
) -> ResolvedMetric | None:
    """As asked > as the text names it, where it says that it judges or the word has no everyday
    meaning ("with more accuracy" says nothing of prices) > the record of the very competition. Never that of
    a neighbour."""
    if question.metric is not None:
        return resolve_metric(question.metric, "as asked", task)
    said = text.said
    from_text = _metric_of_text(said, task)
    telling = said is not None and (said.metric_sure or said.metric != "accuracy")
    if from_text is not None and telling and (from_text.in_script or (said and said.metric_sure)):
        return from_text
    slug, where = question.competition, f"the record of {question.competition}"
    if not record.get("metric") and text.described and question.mode == "open":
        slug = text.described
        record = knowledge.competitions.get(slug, {})
        where = f"the record of {slug}, which the description is of"
    if record.get("metric"):
        return resolve_metric(str(record["metric"]), where, task, record)
    return from_text if from_text is not None and (telling or from_text.in_script) else None


def _metric_of_text(said: InferredFacts | None, task: str) -> ResolvedMetric | None:
    if said is None or said.metric is None or said.metric_words is None:
        return None
    known = {"metric_family": said.metric_family, "metric_direction": said.metric_direction}
    return resolve_metric(said.metric_words, "the description", task, {"name": said.metric, **known})


def _cpu_count(question: Question, cards: tuple[TargetDevice, ...], inferred: list[str]) -> int:
    if question.cpu_count is not None:
        return question.cpu_count
    known = {cores: card for card in cards if (cores := cores_beside(card)) is not None}
    if known:
        cores = min(known)
        card = known[cores]
        whose = f"what {card.key} has" if card.device else "assumed; give cpu_count to be exact"
        inferred.append(f"{cores} processor cores: {whose}.")
        return cores
    inferred.append(f"{DEFAULT_CPU_COUNT} processor cores assumed; give cpu_count to be exact.")
    return DEFAULT_CPU_COUNT


def _cores_of_device(cards: tuple[TargetDevice, ...]) -> dict[str, int]:
    """The processor cores that a registered device was measured with, as its record says."""
    known = [cores for card in cards if card.device and (cores := cores_beside(card)) is not None]
    return {"cpu_count": min(known)} if known else {}


def _check_memory(question: Question, cards: tuple[TargetDevice, ...], warnings: list[str]) -> None:
    most = max(card.memory_gib for card in cards)
    if question.vram_gib is not None and question.vram_gib > 1.1 * most:
        warnings.append(f"vram_gib={question.vram_gib:g} is more than {cards[0].name} has ({most:g} GiB).")
