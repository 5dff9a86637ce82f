"""What a question says of cards, minutes and counts, held against its description before a plan is made."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from memory_service.domain.common.sentences import sentence
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.known_facts import Fact
from memory_service.domain.description.phrases import READ_CHARACTERS
from memory_service.domain.description.resources import (
    StatedModel,
    cards_in,
    cores_in,
    models_in,
    offline_words,
    resources_in,
)
from memory_service.domain.hardware.gpu_spec import counted, normal_gpu_name
from memory_service.domain.planning import model_catalogue as catalogue
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.request import MOST_MINUTES, PINS, Question
from memory_service.domain.recipe.validation import Validation
from memory_service.errors import FieldError, InvalidInput, wrong_value
from memory_service.services.knowledge.snapshot import Knowledge

OPTIONS = (*PINS, "lora_rank", "interconnect", "sharding", "trainer", "packing", "text_tokens", "weights")
"""Fields of a question that mean something for some models only."""

SMALLER = 0.8
"""Of a card's memory: a text that states less speaks of another card of that name, a laptop's."""


def with_resources(knowledge: Knowledge, question: Question) -> tuple[Question, tuple[Fact, ...]]:
    """The question with cards and minutes, as asked > the description > 30 minutes; both as facts."""
    text = question.description or ""
    read = resources_in(text, knowledge.cards.models)
    gpus, vram = _gpu(knowledge, question, text, read)
    minutes = _minutes(question, read)
    if len(text) > READ_CHARACTERS:
        cut = sentence("description-cut", characters=READ_CHARACTERS)
        minutes = replace(minutes, warnings=(cut, *minutes.warnings))
    if words := knowledge.words_on_names(gpus.value, question.model):
        read_as = (sentence("name-read", words=each) for each in words)
        gpus = replace(gpus, warnings=(*gpus.warnings, *read_as))
    named = ((n, knowledge.gpu(name).key) for n, name in map(counted, gpus.value))
    shown = ",".join(key if n == 1 else f"{n}x{key}" for n, key in named)
    if vram is not None:
        question = replace(question, vram_gib=vram.value)
        gpus = replace(gpus, notes=(*gpus.notes, *vram.notes))
    cores = question.cpu_count or cores_in(text) or None
    question = replace(question, gpus=question.gpus or gpus.value, minutes=minutes.value, cpu_count=cores)
    return question, (replace(gpus, value=shown), minutes)


def _gpu(
    knowledge: Knowledge, question: Question, text: str, read: Mapping[str, Any]
) -> tuple[Fact, Fact | None]:
    """Names of the cards, and the memory of one that has less than others of its name."""
    gpus = question.gpus or question.plan_for
    if gpus:
        if "gpu" not in read or _names(knowledge, (*gpus, *question.plan_for), read["gpu"]):
            return Fact("gpu", gpus, "asked"), None
        differs = sentence("gpu-differs", gpu=",".join(gpus), said=read["gpu"])
        return Fact("gpu", gpus, "asked", warnings=(differs,)), None
    if "gpu" not in read:
        of_text = ", ".join(cards_in(text, knowledge.cards.models)) or "none"
        message = f"choose a GPU (a100, t4, rtx3090 ...) or cpu; the description names {of_text}"
        raise InvalidInput(f"gpu: {message}", [FieldError("gpu", message)])
    fact = Fact("gpu", (read["gpu"],), "text", notes=(sentence("gpu-read", gpu=read["gpu"]),))
    own = knowledge.gpu(counted(read["gpu"])[1]).memory_gib
    said = read.get("vram_gib")
    if question.vram_gib is not None or said is None or said >= SMALLER * own:
        return fact, None
    note = sentence("vram-read", gib=said, own=own)
    return fact, Fact("vram_gib", float(said), "text", notes=(note,))


def _minutes(question: Question, read: Mapping[str, Any]) -> Fact:
    minutes, said = question.minutes, read.get("minutes")
    if question.minutes_given:
        if said is None or minutes / 1.1 <= said <= minutes * 1.1:
            return Fact("minutes", minutes, "asked")
        differs = sentence("minutes-differ", minutes=minutes, said=said)
        return Fact("minutes", minutes, "asked", warnings=(differs,))
    if said is None:
        note = sentence("minutes-assumed", minutes=minutes)
        return Fact("minutes", minutes, "usual", notes=(note,))
    minutes = min(said, MOST_MINUTES)
    return Fact("minutes", minutes, "text", notes=(sentence("minutes-read", minutes=minutes),))


def models_wanted(knowledge: Knowledge, text: str | None) -> list[StatedModel]:
    """The models that the description wants trained."""

    def listed(words: str) -> str | None:
        return knowledge.model_names.get(catalogue.normal_model_name(words))

    return models_in(text or "", listed)


def with_stated(knowledge: Knowledge, question: Question, task: str) -> tuple[Question, list[Fact]]:
    """The question with the model, its size and whether weights can be fetched as the description says them,
    where nobody asked otherwise; those as facts. A warning of each that cannot be used."""
    facts: list[Fact] = []
    if question.weights is None and (words := offline_words(question.description or "")):
        question = replace(question, weights="local")
        facts.append(Fact("weights", "local", "text", words, (sentence("weights-read"),)))
    wanted = models_wanted(knowledge, question.description)
    if question.model is not None:
        asked = knowledge.model_names.get(catalogue.normal_model_name(question.model))
        wanted = [each for each in wanted if each.name is not None and each.name == asked]
    if not wanted:
        return question, facts
    model = knowledge.models.get(wanted[0].name or "")
    said = wanted[0]
    why = ""
    if len(wanted) > 1:
        why = "one is fixed at a time: name it as the model"
    elif model is None:
        why = "the catalogue has no such model"
    elif not catalogue.can_answer(model, task):
        why = f"it does not serve {task}"
    elif question.model is None:
        why = _contradicted(question, model)
    if why or model is None:
        words = ", ".join(each.words for each in wanted)
        return question, [*facts, _not_used("model", words, why)]
    shown = ""
    if said.size and question.image_size is None:
        if model.input_kind == "image_size" and catalogue.can_take(model, said.size, model.input_sizes):
            question = replace(question, image_size=said.size)
            facts.append(Fact("image_size", said.size, "text", said.size_words))
            shown = f" at {said.size} px"
        else:
            facts.append(_not_used("image_size", said.size_words, f"{model.name} does not take that size"))
    if question.model is None:
        question = replace(question, model=model.name)
        note = sentence("model-read", model=model.name, size=shown)
        facts.append(Fact("model", model.name, "text", said.words, (note,)))
    return question, facts


def _contradicted(question: Question, model: CatalogueModel) -> str:
    """Why what was asked otherwise means nothing for the model; "" where it does."""
    given = {name: getattr(question, name) for name in OPTIONS}
    try:
        catalogue.check_options(given, model, model.name)
    except InvalidInput as error:
        return error.detail
    return ""


def _not_used(name: str, words: str, why: str) -> Fact:
    return Fact(name, None, "text", words, warnings=(sentence("model-not-used", words=words, why=why),))


def _names(knowledge: Knowledge, given: Iterable[str], read: str) -> bool:
    """Whether one of the cards that were given is the one that the text names."""
    models, card = knowledge.cards.models, counted(read)[1]
    keys = [knowledge.gpu(counted(name)[1]) for name in given]
    return any(card in (each.key, models.get(normal_gpu_name(each.name))) for each in keys)


def check_counts(question: Question, task: str, n_train: int) -> None:
    """Raises InvalidInput for counts that no data can have, and for groups beside another split."""
    few = f"more than the {n_train} training samples"
    names = ("folds", "n_groups", *(("n_classes",) if task.endswith("classification") else ()))
    stated = ((name, getattr(question, name)) for name in names)
    errors = [FieldError(name, few, n) for name, n in stated if n is not None and n > n_train]
    if task.endswith("classification") and question.n_classes == 1:
        errors.append(FieldError("n_classes", "at least 2: one class leaves nothing to tell apart", 1))
    if question.split in ("random", "time") and (question.group_by or question.n_groups):
        message = "would not keep the groups of group_by or n_groups apart: leave out one of them"
        errors.append(FieldError("split", message, question.split))
    for name, modality in (("audio_hours", "audio"), ("bands", "image"), ("aspect_ratio", "image")):
        if (given := getattr(question, name)) is not None and modality_of(task) != modality:
            errors.append(FieldError(name, f"means nothing for {task}", given))
    if n_train < 2:
        errors.append(FieldError("n_train", "at least 2: one leaves none to validate on", n_train))
    if errors:
        raise InvalidInput("; ".join(f"{e.field}={e.given}: {e.message}" for e in errors), errors)


def check_folds(question: Question, validation: Validation) -> None:
    """Raises InvalidInput for more pinned folds than there are groups to split by."""
    groups = validation.most_folds
    if groups is not None and question.folds is not None and question.folds > groups:
        message = f"more than the {groups} groups that rows are split by (n_groups)"
        detail = f"folds={question.folds}: {message}"
        raise wrong_value("folds", message, question.folds, detail=detail)
