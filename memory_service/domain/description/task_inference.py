"""Infers task and facts from a free text.

What goes in and what kind of answer comes out are scored separately, from weighted phrases
(`domain.description.phrases`) and the metrics named (`domain.description.metrics`). A fitted classifier
(`recall.task_classifier`) makes probabilities of both scores. Neighbours have no vote.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import modality_of, writes_text
from memory_service.domain.description.metrics import METRIC_PHRASES, Metric, spell_out
from memory_service.domain.description.phrases import (
    ANSWER_CUES,
    ANSWER_PRIOR,
    INPUT_CUES,
    INPUT_PRIOR,
    SENTENCES,
    TASK_OF,
    PhraseTable,
    patterns,
    readable,
    task_sentences,
    words_of,
)
from memory_service.domain.description.quantities import NUMBER_WORD, quantities_in
from memory_service.domain.description.stated_facts import (
    language_in,
    slices_of_volumes,
    stated_in,
    subtask_in,
)
from memory_service.domain.description.stated_split import ASKS, TELLS, Separation, Stated

_P = patterns("task_inference", number_word=NUMBER_WORD)
_GOAL_FACTOR = 2.0
_OPENING_FACTOR = 1.5
_SCALE = 20.0
_SOFTENING = 6.0
_TOGETHER = 1.6
"""Pictures, text and columns at once are worth so much of the weakest of them. 0.3 to 2 gain, from 2 on a
recommendation with all three is lost."""


@dataclass(frozen=True, slots=True)
class InferredFacts:
    """What a text says; None where it does not. `confidence` (0..1) is of the task; `outside` is what it asks
    for instead of any, one of `OUTSIDE`; `evidence` the loudest phrases for it, `words` those of each fact.
    `rivals`: numbers that compete for a count. `metric_sure`: the text says there how answers are judged.
    `split`: group | time | random, `split_open` a clause that may say it; `group_by` in the singular;
    `seq_len` tokens of the longest texts; `image_size` pixels of the shorter side; `language` ISO 639-1 or
    "multi"; `submission` its lines as `stated_facts.submission_in` has them."""

    task: str | None
    confidence: float
    evidence: tuple[str, ...] = ()
    runner_up: str | None = None
    modality: str | None = None
    metric: str | None = None
    metric_family: str | None = None
    metric_direction: str | None = None
    metric_words: str | None = None
    metric_sure: bool = False
    n_train: int | None = None
    n_test: int | None = None
    n_classes: int | None = None
    rivals: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    n_groups: int | None = None
    group_by: str | None = None
    n_features: int | None = None
    image_size: int | None = None
    seq_len: int | None = None
    split: str | None = None
    multi_label: bool | None = None
    imbalanced: bool | None = None
    audio_hours: float | None = None
    clip_seconds: float | None = None
    bands: int | None = None
    aspect_ratio: float | None = None
    language: str | None = None
    subtask: str | None = None
    submission: str | None = None
    outside: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    split_open: Separation | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def tells_task(self) -> bool:
        """Whether the text says enough to go by its task."""
        return self.task is not None and self.confidence >= LEAST_CONFIDENCE


LEAST_CONFIDENCE = 0.6
"""Below it a description does not tell the task, and it is asked: docs/methods/recall.md has how often the
likeliest is right at each confidence."""

_TABLE = shipped_table(__package__, "cues.toml")
OUTSIDE: Mapping[str, str] = _TABLE["outside"]
"""Kinds that no plan is made for -> what they are."""

_OUTSIDE = "outside: "
UNTOLD, NUMBERS = "untold", "numbers"
Axes = tuple[Mapping[str, float], Mapping[str, float]]
"""Scores of inputs and of answers, of the order of 1 to 20."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Weighted counts of what was found: (axis, value, phrase) -> weight and summed occurrences; metrics.

    judges   the metric that answers are judged by, the words around it, and whether they say that it judges
    numbers  whether samples are numbers that were measured of things; columns: that, or columns are listed
    """

    cues: Mapping[tuple[str, str, str], tuple[float, float]]
    metrics: Mapping[Metric, float]
    judges: tuple[Metric, str, bool] | None
    numbers: bool
    columns: bool


def _cue_table() -> PhraseTable[tuple[str, str, float]]:
    """Phrase -> (axis, value, its largest weight there)."""
    weights: dict[str, dict[tuple[str, str], float]] = {}
    for axis, cues in (("input", INPUT_CUES), ("answer", ANSWER_CUES)):
        for value, by_weight in cues.items():
            for weight, listed in by_weight.items():
                for phrase in listed.split(","):
                    of_phrase = weights.setdefault(" ".join(words_of(phrase)), {})
                    of_phrase[axis, value] = max(float(weight), of_phrase.get((axis, value), 0.0))
    return PhraseTable({phrase: [(*key, w) for key, w in each.items()] for phrase, each in weights.items()})


_CUES = _cue_table()
_TRAINING = frozenset(
    ("loss", "train", "training", "trained", "bce", "lovasz", "backbone", "encoder", "decoder")
)

_SURE = 2.0
"""The least weight of a metric in a sentence or section that says how answers are judged."""


def cue_scores(text: str) -> Axes:
    """What a classifier is given beside the text."""
    text = readable(text)
    return _axis_scores(_read(text, stated_in(text)))


def facts_and_tasks(
    text: str, classify: Callable[[Axes, str], Mapping[str, float]]
) -> tuple[InferredFacts, dict[str, float]]:
    """Facts of an English text, and the probability of each task that it may ask for. classify: (scores of
    inputs and answers, text) -> the probability of each task, of "untold", and of each kind outside as
    "outside: kind"."""
    text = readable(text)
    said = stated_in(text)
    reading = _read(text, said)
    axes = _axis_scores(reading)
    found = classify(axes, text)
    stated = InferredFacts(None, 0.0)
    if reading.judges is not None:
        metric, words, sure = reading.judges
        stated = replace(
            stated, metric=metric.name, metric_family=metric.family, metric_direction=metric.direction,
            metric_words=words, metric_sure=sure, words={"metric": words},
        )  # fmt: skip
    tasks = {name: probability for name, probability in found.items() if name in _TASKS}
    outside = {name: probability for name, probability in found.items() if name.startswith(_OUTSIDE)}
    ranked = sorted(tasks, key=lambda name: -tasks[name])
    if any(axes) and sum(outside.values()) >= LEAST_CONFIDENCE:
        kind = max(outside, key=lambda name: outside[name]).removeprefix(_OUTSIDE)
        stated = replace(stated, outside=kind, confidence=round(sum(outside.values()), 3))
        return _with(replace(stated, runner_up=ranked[0]), said), tasks
    confidence = tasks[ranked[0]]
    table = f"tabular-{ranked[0].rpartition('-')[2]}"
    if reading.columns and table in ranked[:2] and modality_of(ranked[0]) in _OF_TABLES:
        confidence = sum(tasks.get(table.replace("tabular", kind), 0.0) for kind in _OF_TABLES)
        tasks[ranked[0]], tasks[table] = tasks[table], tasks[ranked[0]]
        ranked = sorted(ranked, key=lambda name: name != table)
    best = max(
        (pair for pair in TASK_OF if TASK_OF[pair] == ranked[0]),
        key=lambda pair: sum(axis.get(name, 0.0) for axis, name in zip(axes, pair, strict=True)),
    )
    if modality_of(ranked[0]) in ("text", "multimodal") or writes_text(ranked[0]):
        said |= language_in(text) | (subtask_in(text) if modality_of(ranked[0]) == "text" else {})
    if ranked[0] == "image-segmentation":
        said |= slices_of_volumes(text)
    evidence = _evidence(reading, best)
    facts = replace(
        stated, task=ranked[0], confidence=round(confidence, 3), evidence=evidence,
        runner_up=ranked[1] if len(ranked) > 1 else None, modality=modality_of(ranked[0]),
        words={**stated.words, **({"task": ", ".join(evidence[:3])} if evidence else {})},
    )  # fmt: skip
    return _with(facts, said), tasks


_OF_TABLES = ("tabular", "text", "image", "audio")
"""What is told of in columns: a table's script reads numbers of pictures and sounds, and words."""


def _with(facts: InferredFacts, said: Stated) -> InferredFacts:
    said = {name: each for name, each in said.items() if name != "samples"}
    words = {**facts.words, **{name: " ".join(words.split()) for name, (_, words) in said.items()}}
    return replace(facts, words=words, **{name: value for name, (value, _) in said.items()})


def with_separation(facts: InferredFacts, read: Separation | None) -> InferredFacts:
    """The facts with what a fitted reading (`recall.split_classifier`) says of the split: taken where it is
    sure and the text's plain words say none, or a later time where it is of groups; else left open."""
    told = facts.split or ("group" if facts.group_by else None)
    if read is None or read.probability < ASKS or told not in (None, "time") or told == read.split:
        return facts
    if read.probability >= TELLS and (told is None or read.split == "group"):
        words = {**facts.words, "split": read.clause[:120]}
        return replace(facts, split=read.split, group_by=read.unit or facts.group_by, words=words)
    return replace(facts, split_open=read) if told is None and read.split != "random" else facts


_TASKS = frozenset(TASK_OF.values())


def _read(text: str, said: Stated) -> _Reading:
    counts: dict[tuple[str, str, str], float] = defaultdict(float)
    weights: dict[tuple[str, str, str], float] = {}
    metrics: dict[Metric, float] = defaultdict(float)
    mentions: list[tuple[float, float, Metric, str]] = []
    position = 0
    heading_is_evaluation = False
    for sentence in task_sentences(text):
        words = words_of(spell_out(sentence))
        is_goal = any(True for _ in SENTENCES["goal"].find(words))
        evaluates = any(True for _ in SENTENCES["evaluation"].find(words))
        ranks = any(True for _ in SENTENCES["ranking"].find(words))
        sign = _P["at_k"].search(sentence)
        factor = _GOAL_FACTOR if is_goal else _OPENING_FACTOR if position < 400 else 1.0
        if len(words) <= 6:
            heading_is_evaluation = evaluates
        for place, phrase, (axis, value, weight) in _CUES.find(words):
            if axis == "answer" and phrase == "hour" and place and _COUNT.fullmatch(words[place - 1]):
                continue  # how long it may take, or how long the data are
            key = axis, value, phrase
            counts[key] += factor
            weights[key] = weight
        for place, phrase, metric in METRIC_PHRASES.find(words):
            ends = place + len(phrase.split()) >= len(words)  # "Forecast daily sales, SMAPE"
            bare = len(words) <= _BARE_WORDS or ends
            emphasis = 2.0 if heading_is_evaluation else 0.5
            if evaluates or (bare and phrase not in _EVERYDAY):
                emphasis = 4.0
            earliness = 1.0 / (1.0 + position / 20_000)
            length = 1 + 0.3 * len(phrase.split())
            metrics[metric] += emphasis * earliness * length
            if emphasis < _SURE and ranks:
                emphasis = _SURE
            if emphasis >= _SURE or not _is_a_loss(phrase, words):
                around = _around(sign, words, place, phrase)
                mentions.append((emphasis * earliness * length, emphasis, metric, around))
        position += len(sentence)
    for name in _TELLING.keys() & said.keys():
        value, weight = _TELLING[name]
        key = "input", value, said[name][1].lower()
        weights[key], counts[key] = weight, 1.0
    numbers, columns = _of_table(text, said)
    found = (columns, _LISTED), (numbers, _OF_NUMBERS)
    of_media = _OF_OBJECTS if numbers else 1.0
    weights = {key: w * (of_media if key[:2] in _MEDIA else 1.0) for key, w in weights.items()}
    told = {("input", "tabular", match[0].lower()): weight for match, weight in found if match}
    weights, counts = weights | told, defaultdict(float, {**counts, **dict.fromkeys(told, 1.0)})
    if said.get("samples", (0, ""))[0] >= _LEAST_NAMED:
        for _, phrase, (axis, value, weight) in _CUES.find(words_of(said["samples"][1])):
            key = axis, value, phrase
            weights[key] = weight  # the words may end within one of the sentence: "100 PRODUCTS0"
            counts[key] += _SAMPLE_FACTOR
    cues = {key: (weights[key], counts[key]) for key in counts}
    return _Reading(cues, metrics, _loudest(mentions), bool(numbers), bool(numbers or columns))


def _of_table(text: str, said: Stated) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    """What says that samples are numbers that were measured of things, and a list of their columns. It may
    stand beside pictures, sounds or words, which are what is counted then."""
    if _P["media_files"].search(text):
        return None, None
    columns = (
        None if _P["media_noun"].search(said.get("samples", ("", ""))[1]) else _P["columns"].search(text)
    )
    beside = columns and (
        _P["of_pictures"].search(text.replace(columns[0], "")) or _P["written"].search(columns[0])
    )
    return _P["numbers"].search(text), None if beside else columns


_COUNT = re.compile(rf"\d+|an?|half|{NUMBER_WORD}")
_BARE_WORDS = 9
"""A sentence no longer than this that names a metric says that it judges ("Mean column-wise ROC AUC.")."""

_EVERYDAY = frozenset(("accuracy", "dice", "meteor", "spice", "f2", "f5", "horizontal distance", "lift at"))
_EVERYDAY |= {"exact match", "insertion and deletion"}
_TELLING = {"n_features": ("tabular", 4.0), "seq_len": ("text", 3.0), "image_size": ("image", 3.0)}
"""Facts that tell the input when they are stated, with the weight of such a cue."""

_MEDIA = {("input", name) for name in ("image", "audio", "video", "text")}
_OF_OBJECTS, _OF_NUMBERS, _OF_ALL_NUMBERS, _LISTED = 0.25, 6.0, 40.0, 12.0
"""What cues of media are worth, that of a table, and `NUMBERS` for the classifier, where each sample is
numbers that were measured of it and no file of pictures, sounds or words is spoken of: then the data are a
table, whatever the objects are."""


_LEAST_NAMED = 100
_SAMPLE_FACTOR = 3.0
"""What the training samples are called ("2,471 essays") counts as if it were said three times more."""


def _is_a_loss(phrase: str, words: list[str]) -> bool:
    """Whether a network is trained by it: "U-Nets with Dice plus BCE" says nothing of how they are judged."""
    return "entropy" in phrase or ("dice" in phrase and not _TRAINING.isdisjoint(words))


def _around(sign: re.Match[str] | None, words: list[str], place: int, phrase: str) -> str:
    """A metric with the words about it, which may make it another one."""
    near = " ".join(words[max(0, place - 4) : place + len(phrase.split()) + 10])
    return re.sub("(?:map|recall|hit|precision)atk", sign[0], near) if sign else near


def _loudest(mentions: list[tuple[float, float, Metric, str]]) -> tuple[Metric, str, bool] | None:
    """The metric that is told most in all, in the words of its loudest mention; a "MAP@5" is no other average
    precision that its sentence names, too."""
    if any(metric.name == "MAP@k" for _, _, metric, _ in mentions):
        mentions = [m for m in mentions if m[2].name != "mean average precision"]
    if not mentions:
        return None
    total: dict[Metric, float] = defaultdict(float)
    for weight, _, metric, _ in mentions:
        total[metric] += weight
    best = max(total, key=lambda metric: total[metric])
    _, emphasis, _, around = max((m for m in mentions if m[2] == best), key=lambda m: m[0])
    return best, around, emphasis >= _SURE


def _saturated(weight: float, count: float) -> float:
    """What repeated phrases are worth: the first says most."""
    return weight * math.log2(1.0 + min(count, 15.0))


def _axis_scores(reading: _Reading) -> Axes:
    inputs: dict[str, float] = defaultdict(float)
    answers: dict[str, float] = defaultdict(float)
    for (axis, value, _), (weight, count) in reading.cues.items():
        (inputs if axis == "input" else answers)[value] += _saturated(weight, count)
    total = sum(reading.metrics.values())
    for metric, emphasis in reading.metrics.items():
        for form, weight in metric.forms.items():
            (inputs if form in INPUT_CUES else answers)[form] += 3.0 * weight * emphasis / total
    if together := min(inputs.get(name, 0.0) for name in ("image", "text", "tabular")):
        inputs["multi"] += _TOGETHER * together
    if not inputs and not answers:
        return {}, {}
    numbers = {NUMBERS: _OF_ALL_NUMBERS} if reading.numbers else {}
    return _tempered(inputs, INPUT_PRIOR) | numbers, _tempered(answers, ANSWER_PRIOR)


def _tempered(found: Mapping[str, float], prior: Mapping[str, float]) -> dict[str, float]:
    """Scores of one axis on a common scale: long texts gather more of everything."""
    scores = {name: found.get(name, 0.0) + prior.get(name, 0.0) for name in {*found, *prior}}
    scale = _SCALE / (max(scores.values(), default=0.0) + _SOFTENING)
    return {name: score * scale for name, score in scores.items()}


def _evidence(reading: _Reading, pair: tuple[str, str]) -> tuple[str, ...]:
    loud: dict[str, float] = defaultdict(float)
    for (_, value, phrase), (weight, count) in reading.cues.items():
        if value in pair:
            loud[phrase] += _saturated(weight, count)
    for metric, emphasis in reading.metrics.items():
        if pair[1] in metric.forms:
            loud[metric.name] += emphasis
    return tuple(sorted(loud, key=lambda phrase: -loud[phrase])[:6])


_SPEAKERS = ("speaker", "person", "people", "caller")
_TASKS_OF_SPEECH = {
    "phonemes": "speech-recognition",
    "diarization": "audio-classification",
    "speaker-verification": "audio-classification",
    "speaker-identification": "audio-classification",
}
"""Kind -> the task whose label it has; the first whose words a text has is meant."""


def with_speech_kind(facts: InferredFacts, text: str) -> InferredFacts:
    """The facts with `subtask` of speech, and what it says of counts and groups: speakers that are verified
    are others than those of training, speakers that are identified are classes."""
    said = ((kind, _P[kind].search(text)) for kind, task in _TASKS_OF_SPEECH.items() if task == facts.task)
    kind, match = next((each for each in said if each[1]), ("", None))
    if match is None or (kind == "phonemes" and facts.metric == "word error rate"):
        return facts
    words = {**facts.words, "subtask": match[0]}
    changed: dict[str, Any] = {"subtask": kind}
    found = [q for q in quantities_in(text) if q.role != "test"]
    speakers = round(max((q.value for q in found if q.noun in _SPEAKERS), default=0.0)) or None
    if kind in ("speaker-verification", "speaker-identification"):
        others = [n for n in facts.rivals.get("n_train", ()) if n != speakers]
        if facts.n_train in (None, speakers) and len(others) == 1:
            left = {name: each for name, each in facts.rivals.items() if name != "n_train"}
            changed |= {"n_train": others[0], "rivals": left}
        changed |= {"n_classes": speakers or facts.n_classes}
    if kind == "speaker-verification":
        words.setdefault("group_by", words["subtask"])
        changed |= {"split": "group", "group_by": "speaker", "n_groups": speakers or facts.n_groups}
    elif kind == "diarization" and facts.group_by is None:
        changed |= {"split": "group", "group_by": "recording"}
        words.setdefault("group_by", words["subtask"])
    elif kind == "speaker-identification" and facts.group_by == "speaker":
        changed |= {"n_groups": None, "group_by": None, "split": None}
    return replace(facts, words=words, **changed)
