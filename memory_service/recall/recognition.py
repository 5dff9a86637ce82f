"""Is a text that of a stored competition? Name, host, data, metric and wording are weighed together.

A text about something alike shares words and meaning with what is stored. What it does not share are rare
words, names and figures, and it names others: another host, another number of rows, another metric or year.
Each is a signal of one logistic regression (`benchmarks/fit_recognition.py`). A text that does not name the
competition, and has another metric, or another number of samples and no figure in common, is not its.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.description.metrics import METRICS, metric_named
from memory_service.domain.description.phrases import singular, words_of
from memory_service.domain.description.quantities import KIND_OF, numbers_in
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.recall.snapshot import RecallSnapshot, searched_text
from memory_service.recall.words import words_worth

READ_CHARACTERS = 6_000
"""Of a text's beginning: enough to know it by, and no longer to weigh than a few passages."""

LEAST_PROBABILITY = 0.6
"""From here on the text is taken for that of the competition. Of the fourth blind set 97.5 % of the stored ones
and 0.5 % of the others reach it, as at 0.7; 0.5 takes 0.9 % of the others, 0.8 loses 2.5 % (docs/recall.md)."""

NAMED = 0.5
"""Of the weight of a name: a text that holds so much of it speaks of it, whatever contradicts."""

LEAST_TASK = 0.05
"""Where the text asks for the competition's task with less than this probability, it asks for another one."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a text being of one competition.

    shared    share of the weight (rarity) of the text's words that its stored text holds
    mass      log of the weight of all words in common: short texts share little, whatever share that is
    ahead     log of its word score over the best other's; nearer: its cosine less the best other's
    meaning   cosine
    metric    1 the same, -1 surely another one, 0 not told
    figures   figures in common by their digits over four, at most 2; a size that is another's is none
    conflict  0..1 each for the number of samples and of classes: how far the text's is from the record's
    year      1 where the text names its year, 0.5 the one before or after, -1 where it names others only
    another   1 where the text asks for another task
    strangers log of the weight of the names in the text that the record does not know
    """

    shared: float
    mass: float
    ahead: float
    meaning: float
    nearer: float
    metric: float
    figures: float
    conflict: float
    year: float
    another: float
    strangers: float

    @property
    def probability(self) -> float:
        """0..1, by the weights alone."""
        logit = BIAS + sum(w * x for w, x in zip(astuple(WEIGHTS), astuple(self), strict=True))
        return 1.0 / (1.0 + math.exp(-logit))


WEIGHTS = Evidence(
    shared=2.6, mass=2.15, ahead=1.63, meaning=4.27, nearer=6.63, metric=1.12, figures=1.67, conflict=-1.45,
    year=1.12, another=-1.35, strangers=-0.39,
)  # fmt: skip
BIAS = -13.13
"""Logistic regression over the likeliest of 227 stored competitions for 941 askings, 347 of a stored one, 594
of others or with the competition and its editions left out (`benchmarks/fit_recognition.py`)."""


@dataclass(frozen=True)
class Words:
    """What of a text is compared with each candidate."""

    text: str

    @cached_property
    def held(self) -> frozenset[str]:
        return frozenset(words_worth(self.text))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words with a capital inside a sentence, in the singular; those of metrics left out."""
        found = set()
        for match in _WORD.finditer(self.text):
            word = match[0]
            inner = word[1:] != word[1:].lower()
            if inner or (word[0].isupper() and not _OPENS.search(self.text[: match.start()][-3:])):
                found.add(singular(word.lower()))
        return frozenset(found & self.held - _OF_METRICS)

    @cached_property
    def numbers(self) -> frozenset[float]:
        return _numbers(self.text)

    @cached_property
    def years(self) -> frozenset[int]:
        return frozenset(int(found) for found in _YEAR.findall(self.text))


_WORD = re.compile(r"[^\W_]{2,40}")
_OPENS = re.compile(r"(?:^|[.!?:;\n]\s*|[\"(*#-]\s*)$")
_YEAR = re.compile(r"(?<![\d,.-])(20[012]\d)(?![\d,.-]*\d)")
_PHRASES = list(chain.from_iterable(metric.phrases.split(",") for metric in METRICS))
_OF_METRICS = frozenset(chain.from_iterable([*words_of(p), "".join(words_of(p))] for p in _PHRASES))
_CANDIDATES = 2


def recognised(
    snapshot: RecallSnapshot,
    text: str,
    facts: InferredFacts,
    signals: Mapping[str, Scores],
    task_probability: Scores | None,
) -> int | None:
    """The place of the competition that a text is of, if one is likely enough.

    facts    what is known of the question, whoever said it
    signals  "embedding", "words" (C,), either may lack
    """
    words, meaning = signals.get("words"), signals.get("embedding")
    if words is None or len(words) < 2:
        return None
    if meaning is not None and float(meaning.max()) <= 0.0:
        meaning = None  # nothing stored has vectors yet
    read = Words(text[:READ_CHARACTERS])
    best, found = LEAST_PROBABILITY, None
    for place in candidates(words, meaning):
        task = float(task_probability[place]) if task_probability is not None else 1.0
        evidence = evidence_of(snapshot, place, read, facts, words, meaning, task)
        if evidence.probability >= best and not forbidden(snapshot, place, read, facts, evidence):
            best, found = evidence.probability, place
    return found


def candidates(words: Scores, meaning: Scores | None) -> list[int]:
    """Places of the few that come first by words or by meaning."""
    scores = [words] if meaning is None else [words, meaning]
    return sorted({int(i) for each in scores for i in np.argsort(-each)[:_CANDIDATES]})


def evidence_of(
    snapshot: RecallSnapshot,
    place: int,
    read: Words,
    facts: InferredFacts,
    words: Scores,
    meaning: Scores | None,
    task: float,
) -> Evidence:
    """`task`: the probability that the text asks for this competition's task."""
    row, stored = snapshot.competitions[place], snapshot.plain_text(place)
    rarity = snapshot.document_frequencies.rarity
    weights = {word: rarity(word) for word in read.held}
    common = sum(weight for word, weight in weights.items() if f" {word}" in stored)
    joined = "".join(_WORD.findall(f"{row['slug']} {row.get('title') or ''}".lower()))
    strange = [name for name in read.names if f" {name}" not in stored and not _inside(name, joined)]
    conflicts = {name: _far(name, facts, row, read) for name in ("n_train", "n_classes")}
    size = facts.n_train if conflicts["n_train"] else None
    there = _numbers(searched_text(row)) | {float(row[name]) for name in _COUNTS if row.get(name)}
    alike = [a for a in read.numbers if a != size and any(abs(a - b) <= 0.03 * b for b in there)]
    return Evidence(
        shared=common / (sum(weights.values()) or 1.0),
        mass=math.log1p(common * _FITTED_N / math.log1p(snapshot.document_frequencies.n)),
        ahead=math.log(max(float(words[place]), 1.0) / max(float(np.delete(words, place).max()), 1.0)),
        meaning=float(meaning[place]) if meaning is not None else _USUAL_COSINE,
        nearer=float(meaning[place] - np.delete(meaning, place).max()) if meaning is not None else 0.0,
        metric=_metric_agrees(facts, row),
        figures=min(sum(math.log10(a) for a in alike) / 4.0, 2.0),
        conflict=sum(conflicts.values()),
        year=_year(read.years, row.get("year")),
        another=float(row.get("task") is not None and task < LEAST_TASK),
        strangers=math.log1p(sum(weights[name] for name in strange)),
    )


def forbidden(
    snapshot: RecallSnapshot, place: int, read: Words, facts: InferredFacts, evidence: Evidence
) -> bool:
    """Whether a text contradicts the record without naming it."""
    name, rarity = snapshot.names[place], snapshot.document_frequencies.rarity
    if sum(rarity(w) for w in name if w in read.held) >= NAMED * sum(rarity(w) for w in name) > 0.0:
        return False
    other_size = _far("n_train", facts, snapshot.competitions[place], read) >= 0.5
    return evidence.metric < 0.0 or (other_size and evidence.figures == 0.0)


_FITTED_N = math.log1p(227)
"""Rarity grows with the logarithm of how many competitions are stored; the weights were fitted at 227."""

_USUAL_COSINE = 0.5
"""Where there is no encoder."""

_COUNTS = ("n_train", "n_test", "n_classes", "image_size", "teams")
_LEAST_FIGURE, _YEARS = 20, range(1990, 2031)


@lru_cache(maxsize=4096)
def _numbers(text: str) -> frozenset[float]:
    """The numbers from 20 up that a text names in digits or words, years left out."""
    return frozenset(n for n in numbers_in(text) if n >= _LEAST_FIGURE and n not in _YEARS)


def _inside(name: str, joined: str) -> bool:
    """ "CommonLit" in "commonlitreadabilityprize"."""
    return len(name) >= 5 and name in joined


def _year(named: frozenset[int], year: int | None) -> float:
    if not named or year is None:
        return 0.0
    return 1.0 if year in named else 0.5 if named & {year - 1, year + 1} else -1.0


def _far(name: str, facts: InferredFacts, row: Mapping[str, Any], read: Words) -> float:
    """0 up to a tenth more or less, or where the text names the record's figure, too; 1 from a third on. A
    number that counts no samples may be misread ("441 sites")."""
    one, other = getattr(facts, name), row.get(name)
    if not one or not other or any(abs(n - other) <= 0.05 * other for n in read.numbers):
        return 0.0
    words = words_of(facts.words.get(name, ""))
    if name == "n_train" and words and KIND_OF.get(words[-1]) != "sample":
        return 0.0
    return min(max(abs(math.log(one / other)) - 0.1, 0.0), _OTHER) / _OTHER


_OTHER = 0.25


def _metric_agrees(facts: InferredFacts, row: Mapping[str, Any]) -> float:
    named = metric_named(str(row["metric"])) if facts.metric and row.get("metric") else None
    if named is None:
        return 0.0
    if named.name == facts.metric:
        return 1.0
    families = {named.family, facts.metric_family}
    exact = families == {"error-regression"}
    told = (facts.metric_sure or facts.metric != "accuracy") and (
        exact or (len(families) > 1 and not any(families <= alike for alike in _ALIKE))
    )
    return -1.0 if told else 0.0


_ALIKE = (
    {"iou-dice", "map-detection", "f-score"},
    {"ranking", "correlation", "map-detection"},
    {"auc", "map-detection"},
)
"""Families whose metrics are told in the same words; among regression errors RMSE is told from RMSLE."""
