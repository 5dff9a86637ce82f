"""Is a text that of a stored competition? Name, data, metric and wording are weighed together.

A text about something alike shares words and meaning with what is stored; what it does not share are rare
words, figures, and how answers are judged. Another task or another metric than the record's forbids it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.recall.words import words_worth

READ_CHARACTERS = 6_000
"""Of a text's beginning: enough to know it by, and no longer to weigh than a few passages."""

LEAST_PROBABILITY = 0.4
"""From here on the text is taken for that of the competition (docs/recall.md has what it lets pass)."""

LEAST_TASK = 0.05
"""Of the probability that the text asks for the competition's task."""

_FIGURE = re.compile(r"(?<![\w.])\d{1,3}(?:[,\u202f ]\d{3})+(?!\d)|(?<![\w.,])\d{2,}(?![\w,]*\d)")
_YEAR = re.compile(r"(?<![\d,.-])(20[012]\d)(?![\d,.-]*\d)")
_CANDIDATES = 2

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a text being of one competition.

    name      share of the weight (rarity) of its name's words that the text holds
    shared    share of the weight of the text's words that its stored text holds; rare: of their cubed weight
    ahead     log of its word score over the best other's; nearer: its cosine less the best other's
    meaning   cosine
    task      probability that the text asks for its task
    metric    1 the same, -1 surely another one, 0 not told
    figures   figures in common, of three
    conflict  1 where the number of samples or classes is another than the record's
    year      1 where the text names its year, -1 where it names others only
    """

    name: float
    shared: float
    rare: float
    ahead: float
    meaning: float
    nearer: float
    task: float
    metric: float
    figures: float
    conflict: float
    year: float

    @property
    def probability(self) -> float:
        """0..1; 0 where task or metric forbid it."""
        if self.task < LEAST_TASK or self.metric < 0:
            return 0.0
        logit = WEIGHTS_BIAS + sum(w * x for w, x in zip(astuple(WEIGHTS), astuple(self), strict=True))
        return 1.0 / (1.0 + math.exp(-logit))


WEIGHTS = Evidence(
    name=0.11, shared=1.66, rare=3.89, ahead=3.20, meaning=2.28, nearer=3.17, task=1.30, metric=0.72,
    figures=5.10, conflict=-1.79, year=1.59,
)  # fmt: skip
WEIGHTS_BIAS = -7.08
"""Logistic regression (l2 0.3) over the candidates of 894 texts and 227 stored competitions: 276 texts of a
stored one (paraphrases, with and without its title, and descriptions), the others with their own left out."""


def recognised(
    snapshot: RecallSnapshot,
    text: str,
    facts: InferredFacts,
    signals: Mapping[str, Scores],
    task_probability: Scores | None,
) -> int | None:
    """The place of the competition that a text is of, if one is likely enough.

    facts    what is known of the question, whoever said it; signals: "embedding", "words" (C,), either may lack
    """
    words, meaning = signals.get("words"), signals.get("embedding")
    if words is None or len(words) < 2:
        return None
    held = words_worth(text[:READ_CHARACTERS])
    places = {int(i) for scores in (words, meaning) if scores is not None for i in np.argsort(-scores)[:_CANDIDATES]}
    best, found = LEAST_PROBABILITY, None
    for place in sorted(places):
        task = float(task_probability[place]) if task_probability is not None else 1.0
        probability = _evidence(snapshot, place, text[:READ_CHARACTERS], held, facts, words, meaning, task).probability
        if probability >= best:
            best, found = probability, place
    return found


def _evidence(
    snapshot: RecallSnapshot,
    place: int,
    text: str,
    held: Counter[str],
    facts: InferredFacts,
    words: Scores,
    meaning: Scores | None,
    task: float,
) -> Evidence:
    row, stored, weight = snapshot.competitions[place], snapshot.plain_text(place), snapshot.document_frequencies.rarity
    weights = {word: weight(word) for word in held}
    common = [word for word in held if f" {word}" in stored]
    known = snapshot.document_frequencies.document_frequency
    name = snapshot.names[place]
    there = figures_in(stored) | {int(row[n]) for n in ("n_train", "n_test", "n_classes") if row.get(n)}
    alike = sum(any(abs(a - b) <= 0.01 * b for b in there) for a in figures_in(text))
    return Evidence(
        name=sum(weight(w) for w in name if w in held) / (sum(weight(w) for w in name) or 1.0),
        shared=sum(weights[w] for w in common) / (sum(weights.values()) or 1.0),
        rare=sum(weights[w] ** 3 for w in common) / (sum(weights[w] ** 3 for w in held if w in known) or 1.0),
        ahead=math.log(max(float(words[place]), 1.0) / max(float(np.delete(words, place).max()), 1.0)),
        meaning=float(meaning[place]) if meaning is not None else _USUAL_COSINE,
        nearer=float(meaning[place] - np.delete(meaning, place).max()) if meaning is not None else 0.0,
        task=task,
        metric=_metric_agrees(facts, row),
        figures=min(3, alike) / 3,
        conflict=float(any(_differs(getattr(facts, n), row.get(n)) for n in ("n_train", "n_classes"))),
        year=_year(text, row.get("year")),
    )


_USUAL_COSINE = 0.5
"""Where there is no encoder."""

_LEAST_FIGURE, _YEARS = 20, range(1990, 2031)


def figures_in(text: str) -> set[int]:
    """The whole numbers from 20 up that a text names in digits, years left out."""
    found = {int(re.sub(r"\D", "", figure)) for figure in _FIGURE.findall(text)}
    return {figure for figure in found if figure >= _LEAST_FIGURE and figure not in _YEARS}


def _year(text: str, year: int | None) -> float:
    named = {int(found) for found in _YEAR.findall(text)}
    return 0.0 if not named or year is None else 1.0 if year in named else -1.0


def _differs(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and not 0.75 * other <= one <= 1.33 * other


def _metric_agrees(facts: InferredFacts, row: Mapping[str, Any]) -> float:
    named = metric_named(str(row["metric"])) if facts.metric and row.get("metric") else None
    if named is None:
        return 0.0
    if named.name == facts.metric:
        return 1.0
    families = {named.family, facts.metric_family}
    exact = families == {"error-regression"}
    told = (facts.metric_sure or facts.metric != "accuracy") and (exact or (len(families) > 1 and not any(families <= alike for alike in _ALIKE)))
    return -1.0 if told else 0.0


_ALIKE = (
    {"iou-dice", "map-detection", "f-score"},
    {"ranking", "correlation", "map-detection"},
    {"auc", "map-detection"},
)
"""Families whose metrics are told in the same words; among regression errors RMSE is told from RMSLE."""
