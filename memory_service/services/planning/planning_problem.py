"""The facts of a question, each filled in: as asked > from the record > from its text > a usual value."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.calibration.calibration import cores_beside
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import (
    FRAMES_A_SECOND,
    FROM_RANDOM_WEIGHTS,
    SIZE_TYPICAL_N_TRAIN,
    USUAL_CLIP_SECONDS,
    modality_of,
    size_of,
)
from memory_service.domain.cost.decoders.packing import check_packing
from memory_service.domain.cost.multi_gpu import cards_of, check_link, check_sharding
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.description.known_facts import NAMES, Fact, Source, Sources
from memory_service.domain.description.languages import READ_LANGUAGES, in_english, language_of
from memory_service.domain.description.metric_resolution import first_words, quantile_words, resolve_metric
from memory_service.domain.description.modalities import OF_BANDS, STRIPS, TILE, tiles_of
from memory_service.domain.description.resources import cores_in
from memory_service.domain.description.stated_facts import Search, search_in
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.planning import model_catalogue as catalogue
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import Question
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.recipe.validation import unit_named
from memory_service.errors import wrong_value
from memory_service.services.competitions.similar import Hit
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.checked_request import (
    OPTIONS,
    check_counts,
    check_folds,
    with_resources,
    with_stated,
)
from memory_service.services.planning.memory import remembered
from memory_service.services.planning.request_text import NOTHING_READ, RequestText, task_asked
from memory_service.services.planning.script_kinds import FROM_RANDOM

DEFAULT_CPU_COUNT = 8
DEFAULT_N_FEATURES = 50
TEST_SHARE = 0.5
MOST_TEST = 1_000_000
"""n_test / n_train when nobody says: the median of the seeded competitions whose both sizes are known is
0.45-0.5, and hardly any has over a million test samples."""


def case_of(
    knowledge: Knowledge, question: Question, text: RequestText = NOTHING_READ, fewer: int | None = None
) -> PlanningProblem:
    """The question with every fact filled in: what was asked > the record of the competition > the text > a
    usual value. InvalidInput for what no data, card or model can be.

    fewer   training samples that are assumed where nobody says how many there are, in place of the usual
    """
    question, resources = with_resources(knowledge, question)
    question, devices = _devices(knowledge, question)
    question, of_model = _task_of_model(knowledge, question)
    sources = _sources(knowledge, question, text)
    facts = _resolved(_Reading(question, text, sources, devices["cards"], fewer))
    task = facts["task"].value
    facts, text = _tiled(question, facts, text)
    search, text = _searched(facts, text)
    n_train = facts["n_train"].value
    check_counts(question, task, n_train)
    question, stated = with_stated(knowledge, question, task)
    facts |= {fact.name: fact for fact in stated if fact.value is not None}
    question, pin_warnings = _checked_pins(knowledge, question, devices["cards"], task, n_train)
    recalled, memory_warnings = _recalled(knowledge, question, text, task, n_train)
    everything = (*resources, *facts.values(), *(fact for fact in stated if fact.value is None))
    warned = sorted(everything, key=lambda fact: not fact.serious)
    learned = question.weights == "none" and task in STRIPS  # by members, which read colours
    value = {name: fact.value for name, fact in facts.items()}
    # who describes texts in another language than English has texts that are not English either
    written, spoken = language_of(question.description or ""), {"en": None, "other": "multi"}
    return PlanningProblem(
        question=question,
        **{name: value[name] for name in _COUNTS},
        **devices,
        **recalled,
        model=question.model,
        inferred=tuple(note for fact in everything for note in fact.notes),
        warnings=(
            *(each for fact in warned for each in fact.warnings),
            *_notices(question, text, "metric" in facts),
            *of_model,
            *pin_warnings,
            *memory_warnings,
        ),
        policy=knowledge.policy,
        size_assumed=facts["n_train"].source == "usual",
        metric=value.get("metric"),
        facts=_listed(facts, resources),
        language=value.get("language", spoken.get(written, written)),
        subtask=value.get("subtask"),
        volumes="dimensions" in facts,
        bands=value.get("bands", 3) if task in OF_BANDS and not learned else 3,
        aspect_ratio=value.get("aspect_ratio", 1.0) if task in STRIPS else 1.0,
        search=search,
    )


_COUNTS = ("task", "n_train", "n_test", "n_classes", "n_features", "cpu_count")


@dataclass(frozen=True, slots=True)
class _Reading:
    """What resolvers look at."""

    question: Question
    text: RequestText
    sources: Sources
    cards: tuple[TargetDevice, ...]
    fewer: int | None = None


def _resolved(reading: _Reading) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    for name in (NAMES[0], "searched", *NAMES[1:], "dimensions"):
        resolve, usual = _RESOLVERS.get(name), _USUAL.get(name, lambda _: None)
        fact = resolve(reading, facts) if resolve else reading.sources.fact(name, usual(facts))
        if fact is not None:
            facts[name] = fact
    return facts


def _tiled(
    question: Question, facts: dict[str, Fact], text: RequestText
) -> tuple[dict[str, Fact], RequestText]:
    """The facts and the text of the tiles that large pictures of small things are cut into, unless it is
    asked of how many, or of what size; those of one picture stay together."""
    tiles = tiles_of(question.description or "", facts["task"].value)
    if tiles == 1 or text.said is None or question.n_train or question.image_size:
        return facts, text
    pictures, n_test = facts["n_train"], facts["n_test"]
    n_train = pictures.value * tiles
    warning = sentence("tiles", pictures=pictures.value, tiles=tiles, n_train=n_train, side=TILE)
    counted = {
        "n_train": replace(pictures, value=n_train, warnings=(warning, *pictures.warnings)),
        "n_test": replace(n_test, value=n_test.value * (1 if question.n_test else tiles)),
    }
    said = replace(text.said, image_size=TILE)
    if not said.split and not said.group_by:
        said = replace(said, split="group", group_by="picture", n_groups=pictures.value)
    return facts | counted, replace(text, said=said)


def _searched(facts: dict[str, Fact], text: RequestText) -> tuple[Search | None, RequestText]:
    """What is searched, left out of the facts but for its number, and the text, whose queries are groups of
    the pairs that are learned from."""
    if "searched" not in facts:
        return None, text
    fact, said = facts["searched"], text.said
    search: Search = fact.value
    facts["searched"] = replace(fact, value=search.candidates or search.documents)
    if said is not None and not said.split and not said.group_by:
        words = {**said.words, "group_by": said.words.get("n_train", "query")}
        text = replace(text, said=replace(said, split="group", group_by="query", words=words))
    return search, text


def _listed(facts: Mapping[str, Fact], resources: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The facts that bear on such a task, with the metric by its name."""
    task = str(facts["task"].value)
    left_out = {
        *(() if task.endswith(_WITH_CLASSES) else ("n_classes",)),
        *(() if modality_of(task) in ("tabular", "time-series") else ("n_features",)),
        *(() if modality_of(task) == "audio" else ("audio_hours",)),
        *(() if modality_of(task) in ("audio", "video") else ("clip_seconds",)),
        *(() if modality_of(task) == "image" else ("bands", "aspect_ratio")),
        *(() if modality_of(task) in ("text", "multimodal") else ("language",)),
        *(() if modality_of(task) in ("text", "multimodal", "audio") else ("subtask",)),
    }
    shown = [fact for name, fact in facts.items() if name not in left_out]
    named = (replace(f, value=f.value.name) if f.name == "metric" else f for f in shown)
    return (*named, *resources)


_WITH_CLASSES = ("classification", "segmentation", "detection", "multimodal")


def _devices(knowledge: Knowledge, question: Question) -> tuple[Question, dict[str, Any]]:
    """The question with the keys of its cards, and the cards to plan for."""
    n_gpus = _n_gpus(question)
    visible, production = (
        tuple(dict.fromkeys(knowledge.gpu(counted(name)[1]).key for name in names))
        for names in (question.gpus, question.plan_for)
    )
    planned = production or visible
    cards = tuple(with_cores(knowledge.gpus[key], question.cpu_count) for key in planned)
    for card in cards:
        check_link(card, n_gpus, question.interconnect)
    check_sharding(n_gpus, question.sharding)
    together = min((cards_of(card, n_gpus, question.interconnect) for card in cards), key=lambda c: c.gb_s)
    others = tuple(knowledge.gpus[key] for key in visible) if visible != planned else ()
    plan_for = planned if question.plan_for else ()
    question = replace(question, gpus=visible, n_gpus=n_gpus if n_gpus > 1 else None, plan_for=plan_for)
    return question, {"cards": cards, "together": together, "visible": others}


def _task_of_model(knowledge: Knowledge, question: Question) -> tuple[Question, list[Sentence]]:
    """The question with the task that its model serves where no more than a modality was asked, and a note
    where that is not the usual one."""
    if question.description is not None or not question.task or not question.model:
        return question, []
    usual, task = task_asked(question, None), task_asked(question, None, knowledge.model(question.model))
    why = f"the one {question.model} serves"
    notes = [sentence("task-of-modality", task=task, asked=question.task, why=why)] if task != usual else []
    return replace(question, task=task), notes


def _checked_pins(
    knowledge: Knowledge, question: Question, cards: tuple[TargetDevice, ...], task: str, n_train: int
) -> tuple[Question, list[Sentence]]:
    """The question with the catalogue's name of its model, and warnings. InvalidInput for options that no
    model of the task, or not this one, has."""
    model = knowledge.model(question.model) if question.model else None
    if question.batch_size == n_train and model is not None and catalogue.kind_of_model(model) == "estimator":
        question = replace(question, batch_size=None)  # what a plan of it says: all rows
    given = {name: getattr(question, name) for name in OPTIONS}
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
    warnings = []
    most = max(card.memory_gib for card in cards)
    if question.vram_gib is not None and question.vram_gib > 1.1 * most:
        warnings.append(sentence("vram-over-card", asked=question.vram_gib, card=cards[0].name, own=most))
    if question.weights == "none" and modality_of(task) not in FROM_RANDOM_WEIGHTS:
        small = " The script trains small networks and kernel methods in place of the model that is priced."
        warnings.append(sentence("no-weights", small=small if task in FROM_RANDOM else ""))
    return replace(question, model=model.name if model else None), warnings


def similar_answer(hit: Hit) -> dict[str, Any]:
    """A neighbour as answers show it."""
    return {"slug": hit.slug, "score": hit.score, "why": hit.why, "lessons": list(hit.lessons)}


def _recalled(
    knowledge: Knowledge, question: Question, text: RequestText, task: str, n_train: int
) -> tuple[dict[str, Any], tuple[Sentence, ...]]:
    """What is remembered of similar competitions and of the very one, as fields of the problem; warnings."""
    memory = remembered(knowledge, question, text, task, n_train)
    check_folds(question, memory.validation)
    slug = question.competition or text.described
    alone = question.mode == "blind" or question.as_of is not None
    recalled = {
        "similar": tuple(map(similar_answer, memory.similar)), "validation": memory.validation,
        "recipe": memory.recipe, "preferences": memory.preferences, "targets": memory.targets,
        "noted_best": memory.noted, "evidence": memory.evidence, "results": memory.results,
        "quality": knowledge.quality if alone else knowledge.quality_without(slug),
    }  # fmt: skip
    return recalled, memory.warnings


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


def _sources(knowledge: Knowledge, question: Question, text: RequestText) -> Sources:
    """What was asked, the record that the mode allows to be read, and what the text says."""
    asked, slug = question.canonical(), question.competition or text.described
    row = knowledge.competition(question.competition) if question.competition else {}
    if question.mode == "open":
        described = question.competition is None and slug is not None
        row = knowledge.competitions.get(str(slug), {}) if described else row
        whose = f"{slug}, which the description seems to be of," if described else f"{slug}"
        return Sources(asked, row, text.said, whose)
    only_task = question.task is None and question.description is None
    return Sources(asked, {"task": row.get("task")} if only_task else {}, text.said, str(slug))


_JUDGES = re.compile(r"\b(?:metric|evaluated|evaluation|scored)\b", re.IGNORECASE)


def _notices(question: Question, text: RequestText, metric_known: bool) -> list[Sentence]:
    """Whose record was read, and what of the description was not read, as far as it shows."""
    slug, description = text.described, question.description or ""
    limited = question.mode_limit != "open"
    notices = [sentence("mode-limited", mode=question.mode_limit)] if limited else []
    if question.competition is None and slug is not None and question.mode == "open":
        notices.append(sentence("record-read", competition=slug))
    if text.said is not None and (language := language_of(description)) != "en":
        known = "" if question.task else "task, "
        only = "only numbers, names and English terms of it were read"
        read = f"its words for these were read as {language}" if language in READ_LANGUAGES else only
        notices.append(sentence("not-english", read=read, known=known))
    elif text.said is not None and not metric_known and _JUDGES.search(description):
        notices.append(sentence("metric-not-understood"))
    return notices


def _task(reading: _Reading, _: Mapping[str, Fact]) -> Fact:
    question, said, sources = reading.question, reading.text.said, reading.sources
    asked, known = task_asked(question, said), sources.fact("task")
    if asked is not None:
        fact = known or Fact("task", asked, "asked")
        if asked != question.task:
            by_text = said is not None and said.task == asked
            which = "the description says which" if by_text else "the usual one of it"
            note = sentence("task-of-modality", task=asked, asked=question.task, why=which)
            fact = Fact("task", asked, "text" if by_text else "usual", None, (note,), fact.warnings)
        if (
            said is not None
            and said.tells_task
            and said.evidence
            and asked not in (said.task, said.runner_up)
        ):
            differs = sentence("task-differs", task=asked, said=said.task)
            fact = replace(fact, warnings=(differs, *fact.warnings))
        return fact
    if known is not None and known.source == "record":
        only = sentence("only-task-read", mode=question.mode, competition=sources.whose)
        note = sentence("task-of-record", task=known.value, competition=sources.whose.rstrip(","))
        return replace(known, notes=(note,) if question.mode == "open" else (only, note))
    if said is not None and said.task is not None and said.tells_task:
        note = sentence("task-read", task=said.task)
        return Fact("task", said.task, "text", said.words.get("task"), (note,))
    raise wrong_value("task", "cannot be told from the description: name it")


def _metric(reading: _Reading, facts: Mapping[str, Fact]) -> Fact | None:
    """As asked > the record of the very competition > as the text names it, where it says that it judges or
    the word has no everyday meaning ("with more accuracy" says nothing of prices). Never that of a
    neighbour."""
    question, said, sources, task = reading.question, reading.text.said, reading.sources, facts["task"].value
    fact, metric = sources.fact("metric"), None
    if fact is not None and fact.source == "asked":
        metric = resolve_metric(fact.value, "as asked", task)
    elif fact is not None and fact.source == "record":
        whose = f"{sources.record['slug']}, which the description is of" if not question.competition else None
        where = f"the record of {whose or question.competition}"
        metric = resolve_metric(str(fact.value), where, task, sources.record)
    elif said is not None and said.metric is not None and said.metric_words is not None:
        known = {"metric_family": said.metric_family, "metric_direction": said.metric_direction}
        words = said.metric_words
        if said.metric == "quantile loss":
            words += quantile_words(question.description or "")
        if rows := first_words(question.description or "", said.metric):
            words = said.metric + rows
        metric = resolve_metric(words, "the description", task, {"name": said.metric, **known})
        if not (said.metric_sure or said.metric != "accuracy" or metric.in_script):
            metric = None
    if metric is not None and fact is not None:
        more = (sentence("metric-not-computed", why=metric.note),) if metric.note else ()
        return replace(fact, value=metric, warnings=(*fact.warnings, *more))
    return None


def _n_train(reading: _Reading, facts: Mapping[str, Fact]) -> Fact:
    question, text, sources, task = reading.question, reading.text, reading.sources, facts["task"].value
    fact = sources.fact("n_train")
    search: Search | None = facts["searched"].value if "searched" in facts else None
    if search is not None and fact is not None and fact.source == "text":
        words = fact.words if search.queries is None else f"{search.queries} queries"
        queries = search.queries or (None if fact.value == search.documents else fact.value)
        fact = queries and replace(fact, value=queries, words=words, warnings=())
    elif search is not None and search.queries and fact is None and question.size is None:
        fact = Fact("n_train", search.queries, "text", f"{search.queries} queries")
    hours = sources.fact("audio_hours") if modality_of(task) == "audio" else None
    if hours is not None and (fact is None or (hours.source == "asked" != fact.source)):
        return _clips(question, text.said, hours)
    if fact is not None and fact.source == "asked":
        if question.size is None or size_of(fact.value) == question.size:
            return fact
        counted = size_of(fact.value)
        differs = sentence("size-differs", size=question.size, n_train=fact.value, counted=counted)
        return replace(fact, warnings=(*fact.warnings, differs))
    if fact is not None and (question.size is None or size_of(int(fact.value)) == question.size):
        where = "the description"
        if fact.source == "record":
            named = question.competition or f"{text.described}, which the description is of"
            where = f"the record of {named}"
        n_train = int(fact.value)
        return replace(fact, value=n_train, notes=(sentence("n-train-read", n_train=n_train, source=where),))
    size = question.size or "medium"
    typical = max(SIZE_TYPICAL_N_TRAIN[size], question.n_groups or 0, question.n_classes or 0)
    slug = question.competition if question.mode == "open" else None
    unsaid = "" if question.size else f" (the record of {slug} says none)" if slug else " (no size was given)"
    guessed = task == "recommendation" and question.size is None
    warnings = (
        *sources.competing("n_train"),
        *([sentence("interactions-guessed", n_train=typical)] * guessed),
    )
    if reading.fewer is not None and reading.fewer < typical:
        warnings = (*warnings, sentence("fewer-assumed", usual=typical, n_train=reading.fewer))
        typical = max(reading.fewer, question.n_groups or 0, question.n_classes or 0)
    note = sentence("n-train-assumed", n_train=typical, size=size, unsaid=unsaid)
    return Fact("n_train", typical, "usual", None, (note,), warnings)


def _clips(question: Question, said: InferredFacts | None, hours: Fact) -> Fact:
    """As many as so many hours are cut into."""
    told = question.seq_len / FRAMES_A_SECOND if question.seq_len else said and said.clip_seconds
    seconds, usual = told or USUAL_CLIP_SECONDS, "" if told else ", as is usual"
    n_train = max(1, round(3600 * hours.value / seconds))
    values = {"n_train": n_train, "hours": hours.value, "seconds": seconds, "usual": usual}
    return replace(hours, name="n_train", value=n_train, notes=(sentence("clips-counted", **values),))


def _n_test(reading: _Reading, facts: Mapping[str, Fact]) -> Fact | None:
    """As many as is usual of so many training samples, where nobody says."""
    usual = _USUAL["n_test"](facts)
    fact = reading.sources.fact("n_test", usual)
    if fact is not None and fact.source == "usual" and facts["n_train"].source != "usual":
        return replace(fact, notes=(sentence("n-test-assumed", n_test=usual),))
    return fact


def _n_groups(reading: _Reading, _: Mapping[str, Fact]) -> Fact | None:
    """Of the unit that rows are split by: a text's number of another unit is none of them."""
    fact, unit, said = reading.sources.fact("n_groups"), reading.sources.fact("group_by"), reading.text.said
    if fact is None or fact.source != "text" or unit is None or unit.source == "text":
        return fact
    return fact if said and said.group_by and said.group_by in str(unit.value) else None


def _group_by(reading: _Reading, _: Mapping[str, Fact]) -> Fact | None:
    """A column or a noun that names the unit; a sentence on the test names neither."""
    fact = reading.sources.fact("group_by")
    if fact is None or fact.source == "asked":
        return fact
    by = unit_named(fact.value) or (reading.text.said and reading.text.said.group_by)
    return replace(fact, value=by) if by else None


_VOLUMES = re.compile(
    r"\b(?:voxels?|nifti|volumetric|(?:3-?d|ct|cta|mr|mri|pet) (?:\w+ )?volumes?)\b", re.IGNORECASE
)
_SLICED = re.compile(r"\bslices?\b[^.;]{0,60}\b(?:png|jpe?g|tiff?|images?)\b", re.IGNORECASE)


def _dimensions(reading: _Reading, facts: Mapping[str, Fact]) -> Fact | None:
    """Three of volumes that masks are asked of, unless they come as pictures of slices."""
    text = reading.question.description or ""
    found = _VOLUMES.search(text) if facts["task"].value == "image-segmentation" else None
    sliced = _SLICED.search(text) or reading.question.image_size or reading.question.model
    return Fact("dimensions", 3, "text", found[0]) if found and not sliced else None


def _searched_fact(reading: _Reading, facts: Mapping[str, Fact]) -> Fact | None:
    """Documents that are searched, or candidates of each query."""
    text = reading.question.description or ""
    ranks = facts["task"].value == "text-ranking"
    if not ranks or (search := search_in(in_english(text, language_of(text)))) is None:
        return None
    source: Source = "text" if search.words else "usual"
    note = sentence("searched-read", documents=search.documents, source=source)
    if search.candidates:
        note = sentence("candidates-read", candidates=search.candidates)
    return Fact("searched", search, source, search.words or None, (note,))


def _cpu_count(reading: _Reading, _: Mapping[str, Fact]) -> Fact:
    if reading.question.cpu_count is not None:
        said = reading.question.cpu_count == cores_in(reading.question.description or "")
        return Fact("cpu_count", reading.question.cpu_count, "text" if said else "asked")
    known = {cores: card for card in reading.cards if (cores := cores_beside(card)) is not None}
    cores = min(known, default=DEFAULT_CPU_COUNT)
    card = known.get(cores)
    if card is not None and card.device:
        note = sentence("cores-known", cpu_count=cores, device=card.key)
        return Fact("cpu_count", cores, "record", notes=(note,))
    return Fact("cpu_count", cores, "usual", notes=(sentence("cores-assumed", cpu_count=cores),))


_RESOLVERS: Mapping[str, Callable[[_Reading, Mapping[str, Fact]], Fact | None]] = {
    "task": _task, "metric": _metric, "n_train": _n_train, "n_test": _n_test, "n_groups": _n_groups,
    "group_by": _group_by, "cpu_count": _cpu_count, "dimensions": _dimensions, "searched": _searched_fact,
}  # fmt: skip
"""How a fact is found that has more to it than the first source that says it; each may rest on those before
it in `NAMES`."""


def usual_n_test(n_train: float) -> int:
    """Test samples when nobody says."""
    return max(1, min(MOST_TEST, int(n_train * TEST_SHARE)))


_USUAL: Mapping[str, Callable[[Mapping[str, Fact]], int]] = {
    "n_test": lambda facts: usual_n_test(facts["n_train"].value),
    "n_classes": lambda facts: (
        10 if modality_of(task := facts["task"].value) == "image" and task != "image-segmentation" else 2
    ),
    "n_features": lambda _: DEFAULT_N_FEATURES,
}
"""What is usual of a fact that no source says."""
