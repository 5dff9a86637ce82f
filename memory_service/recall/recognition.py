"""Is a text that of a stored competition? Name, data, metric and wording are weighed together.

A text about something alike shares words and meaning with what is stored; what it does not share are rare
words, figures, and how answers are judged. Another metric than the record's forbids it, another task
speaks against it, unless the text names the competition.
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

LEAST_PROBABILITY = 0.3
"""From here on the text is taken for that of the competition: 0.2 takes 3 of 160 others for one,
too, 0.4 loses one in eighty more (docs/recall.md)."""

LEAST_TASK, ANOTHER_TASK = 0.05, -2.0
"""Where the text asks for the competition's task with less than this probability, and does not name it, this
is added to the logit."""

NAMED = 0.5
"""Of the weight of a name: a text that holds so much of it speaks of it, whatever task was read from it."""

_FIGURE = re.compile(r"(?<![\w.])\d{1,3}(?:[,\u202f ]\d{3})+(?!\d)|(?<![\w.,])\d{2,}(?![\w,]*\d)")
_YEAR = re.compile(r"(?<![\d,.-])(20[012]\d)(?![\d,.-]*\d)")
_CANDIDATES = 2

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a text being of one competition.

    name      share of the weight (rarity) of its name's words that the text holds
    shared    share of the weight of the text's words that its stored text holds
    mass      log of the weight of all words in common: short texts share little, whatever share that is
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
    mass: float
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
        """0..1; 0 where the metric forbids it and the text does not name it."""
        named = self.name >= NAMED
        if self.metric < 0 and not named:
            return 0.0
        logit = WEIGHTS_BIAS + (ANOTHER_TASK if self.task < LEAST_TASK and not named else 0.0)
        logit += sum(w * x for w, x in zip(astuple(WEIGHTS), astuple(self), strict=True))
        return 1.0 / (1.0 + math.exp(-logit))


WEIGHTS = Evidence(
    name=0.0, shared=4.26, mass=3.06, ahead=2.79, meaning=5.53, nearer=3.07, task=1.35, metric=1.13,
    figures=4.52, conflict=-1.75, year=0.89,
)  # fmt: skip
WEIGHTS_BIAS = -20.37
"""Logistic regression (l2 0.2) over the likeliest of 227 stored competitions for 1 348 texts: 276 of a stored
one (paraphrases with and without its title, descriptions), 1 072 of others (descriptions, and stored ones
with the competition itself and its editions left out). A name adds nothing to the words it is made of; it
lifts what forbids."""


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
    held = words_worth(text[:READ_CHARACTERS])
    places = {
        int(i) for scores in (words, meaning) if scores is not None for i in np.argsort(-scores)[:_CANDIDATES]
    }
    best, found = LEAST_PROBABILITY, None
    for place in sorted(places):
        task = float(task_probability[place]) if task_probability is not None else 1.0
        probability = _evidence(
            snapshot, place, text[:READ_CHARACTERS], held, facts, words, meaning, task
        ).probability
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
    row, stored, weight = (
        snapshot.competitions[place],
        snapshot.plain_text(place),
        snapshot.document_frequencies.rarity,
    )
    weights = {word: weight(word) for word in held}
    common = [word for word in held if f" {word}" in stored]
    name = snapshot.names[place]
    there = figures_in(stored) | {int(row[n]) for n in ("n_train", "n_test", "n_classes") if row.get(n)}
    alike = sum(any(abs(a - b) <= 0.01 * b for b in there) for a in figures_in(text))
    return Evidence(
        name=sum(weight(w) for w in name if w in held) / (sum(weight(w) for w in name) or 1.0),
        shared=sum(weights[w] for w in common) / (sum(weights.values()) or 1.0),
        mass=math.log1p(
            sum(weights[w] for w in common) * _FITTED_N / math.log1p(snapshot.document_frequencies.n)
        ),
        ahead=math.log(max(float(words[place]), 1.0) / max(float(np.delete(words, place).max()), 1.0)),
        meaning=float(meaning[place]) if meaning is not None else _USUAL_COSINE,
        nearer=float(meaning[place] - np.delete(meaning, place).max()) if meaning is not None else 0.0,
        task=task,
        metric=_metric_agrees(facts, row),
        figures=min(3, alike) / 3,
        conflict=float(any(_differs(getattr(facts, n), row.get(n)) for n in ("n_train", "n_classes"))),
        year=_year(text, row.get("year")),
    )


_FITTED_N = math.log1p(227)
"""Rarity grows with the logarithm of how many competitions are stored; the weights were fitted at 227."""

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
