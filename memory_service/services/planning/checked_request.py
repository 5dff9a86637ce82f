"""What a question says of cards, minutes and counts, held against its description before a plan is made."""

from collections.abc import Iterable
from dataclasses import replace

from memory_service.domain.description.known_facts import Fact, Source
from memory_service.domain.description.phrases import READ_CHARACTERS
from memory_service.domain.description.resources import cards_in, resources_in
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.hardware.gpu_spec import counted, normal_gpu_name
from memory_service.domain.planning.request import MOST_MINUTES, Question
from memory_service.domain.recipe.recipe import Recipe
from memory_service.errors import FieldError, InvalidInput, wrong_value
from memory_service.services.knowledge.snapshot import Knowledge

SMALLER = 0.8
"""Of a card's memory: a text that states less speaks of another card of that name, a laptop's."""


def with_resources(
    knowledge: Knowledge, question: Question, inferred: list[str], warnings: list[str]
) -> tuple[Question, tuple[Fact, ...]]:
    """The question with cards and minutes, as asked > the description > 30 minutes; both as facts."""
    read = resources_in(question.description or "", knowledge.cards.models)
    if len(question.description or "") > READ_CHARACTERS:
        warnings.append(f"Of the description the first {READ_CHARACTERS} characters were read.")
    gpus, minutes = question.gpus or question.plan_for, question.minutes
    gpu_from: Source = "asked" if gpus else "text"
    minutes_from: Source = "asked" if question.minutes_given else "text" if "minutes" in read else "usual"
    if not gpus and "gpu" not in read:
        of_text = ", ".join(cards_in(question.description or "", knowledge.cards.models)) or "none"
        message = f"choose a GPU (a100, t4, rtx3090 ...) or cpu; the description names {of_text}"
        raise InvalidInput(f"gpu: {message}", [FieldError("gpu", message)])
    gpus = gpus or (read["gpu"],)
    warnings.extend(knowledge.words_on_names(gpus, question.model))
    if gpu_from == "text":
        inferred.append(f"GPU {gpus[0]}: from the description.")
    elif "gpu" in read and not _names(knowledge, (*gpus, *question.plan_for), read["gpu"]):
        warnings.append(f"gpu={','.join(gpus)} is not what the description says ({read['gpu']}): gpu counts.")
    if gpu_from == "text" and question.vram_gib is None and "vram_gib" in read:
        own = knowledge.gpu(counted(read["gpu"])[1]).memory_gib
        if read["vram_gib"] < SMALLER * own:
            question = replace(question, vram_gib=float(read["vram_gib"]))
            inferred.append(
                f"{read['vram_gib']} GiB of memory: from the description; the card has {own:g} GiB."
            )
    if minutes_from == "text":
        minutes = min(read["minutes"], MOST_MINUTES)
        inferred.append(f"{minutes:g} minutes: from the description.")
    elif minutes_from == "usual":
        inferred.append(f"{minutes:g} minutes assumed; give minutes to be exact.")
    elif "minutes" in read and not minutes / 1.1 <= read["minutes"] <= minutes * 1.1:
        warnings.append(
            f"minutes={minutes:g} is not what the description says ({read['minutes']:g}): minutes counts."
        )
    named = ((n, knowledge.gpu(name).key) for n, name in map(counted, gpus))
    shown = ",".join(key if n == 1 else f"{n}x{key}" for n, key in named)
    facts = Fact("gpu", shown, gpu_from), Fact("minutes", minutes, minutes_from)
    return replace(question, gpus=question.gpus or gpus, minutes=minutes), facts


def _names(knowledge: Knowledge, given: Iterable[str], read: str) -> bool:
    """Whether one of the cards that were given is the one that the text names."""
    models, card = knowledge.cards.models, counted(read)[1]
    keys = [knowledge.gpu(counted(name)[1]) for name in given]
    return any(card in (each.key, models.get(normal_gpu_name(each.name))) for each in keys)


def said_otherwise(task: str, said: InferredFacts) -> bool:
    """Whether the text surely asks for another task."""
    sure = said.task is not None and said.confidence >= _SURE and bool(said.evidence)
    return sure and task not in (said.task, said.runner_up)


_SURE = 0.6


def check_counts(question: Question, task: str, n_train: int) -> None:
    """Raises InvalidInput for counts that no data can have."""
    few = f"more than the {n_train} training samples"
    names = ("folds", "n_groups", *(("n_classes",) if task.endswith("classification") else ()))
    stated = ((name, getattr(question, name)) for name in names)
    errors = [FieldError(name, few, n) for name, n in stated if n is not None and n > n_train]
    if task.endswith("classification") and question.n_classes == 1:
        errors.append(FieldError("n_classes", "at least 2: one class leaves nothing to tell apart", 1))
    if n_train < 2:
        errors.append(FieldError("n_train", "at least 2: one leaves none to validate on", n_train))
    if errors:
        raise InvalidInput("; ".join(f"{e.field}={e.given}: {e.message}" for e in errors), errors)


def check_folds(question: Question, recipe: Recipe | None) -> None:
    """Raises InvalidInput for more pinned folds than there are groups to split by."""
    groups = None if recipe is None else recipe.validation.most_folds
    if groups is not None and question.folds is not None and question.folds > groups:
        message = f"more than the {groups} groups that rows are split by (n_groups)"
        detail = f"folds={question.folds}: {message}"
        raise wrong_value("folds", message, question.folds, detail=detail)
