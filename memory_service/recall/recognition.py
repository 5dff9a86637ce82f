"""Is a text that of a stored competition? Name, host, data, metric and wording are weighed together.

A text about something alike shares words and meaning with what is stored. What it does not share are rare
words, names and figures, and it names others: another host, another number of rows, another metric or year.
Each is a signal of one logistic regression (`benchmarks/fit_recognition.py`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.description.metrics import METRICS, metric_named
from memory_service.domain.description.phrases import readable, singular, words_of
from memory_service.domain.description.quantities import KIND_OF, numbers_in
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.recall.snapshot import RecallSnapshot, searched_text
from memory_service.recall.words import words_worth

READ_CHARACTERS = 6_000
"""Of a text's beginning: enough to know it by, and no longer to weigh than a few passages."""

LEAST_PROBABILITY = 0.5
"""From here on the text is taken for that of the competition (docs/methods/recall.md)."""

LEAST_TASK = 0.05
"""Where the text asks for the competition's task with less than this probability, it asks for another one."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a text being of one competition.

    mass      log of the weight (rarity) of the words in common; what its winners did counts as its words
    ahead     log of its word score over the best other's; nearer: its cosine less the best other's; editions
              of its name are no others
    meaning   cosine
    metric    1 the same, -1 another one, 0 not given
    figures   figures in common by their digits over four, at most 2; unknown: those of the text that the
              record does not know, at most 3
    conflict  0..1 each for the number of samples and of classes: how far the text's is from the record's
    year      1 where the text names its year, 0.5 the one before or after, -1 where it names others only
    another   1 where the text asks for another task
    strangers log of the weight of the names in the text that the record does not know
    """

    mass: float
    ahead: float
    meaning: float
    nearer: float
    metric: float
    figures: float
    unknown: float
    conflict: float
    year: float
    another: float
    strangers: float

    @property
    def probability(self) -> float:
        """0..1, by the weights alone."""
        logit = BIAS + sum(w * x for w, x in zip(astuple(WEIGHTS), astuple(self), strict=True))
        return 1.0 / (1.0 + math.exp(-logit))

    @property
    def identifies(self) -> bool:
        """Whether the metric is its own, the year where no metric is told, or figures where nothing else
        speaks for another: words alone are those of a field, and round figures meet by chance."""
        by_figures = self.figures > 0.0 and self.metric >= 0.0 and self.ahead > 0.0 and self.nearer > 0.0
        return self.metric > 0.0 or (self.year > 0.0 and self.metric == 0.0) or by_figures


WEIGHTS = Evidence(
    mass=3.22, ahead=1.46, meaning=6.0, nearer=3.57, metric=0.95, figures=2.05, unknown=-0.96, conflict=-1.77,
    year=1.38, another=-2.41, strangers=-0.76,
)  # fmt: skip
BIAS = -15.58
"""Logistic regression over the likeliest of 227 stored competitions for 1 161 askings: 457 of a stored one,
704 of others or with the competition and its editions left out (`benchmarks/fit_recognition.py`)."""


class Ranked:
    """Scores of all competitions (C,), and the places of the few highest, best first."""

    def __init__(self, scores: Scores) -> None:
        few = np.argpartition(-scores, min(_FEW, len(scores)) - 1)[:_FEW]
        self.scores, self.first = scores, [int(place) for place in few[np.argsort(-scores[few])]]

    def best_other(self, snapshot: RecallSnapshot, place: int) -> float:
        """The best score of those that do not share the place's name."""
        others = (other for other in self.first if not snapshot.share_name(place, other))
        return float(self.scores[next(others, self.first[-1])])


@dataclass(frozen=True)
class Words:
    """What of a text is compared with each candidate."""

    text: str

    @cached_property
    def content_words(self) -> frozenset[str]:
        return frozenset(words_worth(self.text))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words with a capital inside a sentence, in the singular; those of metrics and of columns
        ("clean_title", "var_0", "T1w") left out."""
        found, text = set(), _COLUMN.sub(" ", self.text)
        for match in _WORD.finditer(text):
            word = match[0]
            inner = word[1:] != word[1:].lower()
            if inner or (word[0].isupper() and not _OPENS.search(text[: match.start()][-3:])):
                found.add(singular(word.lower()))
        return frozenset(found & self.content_words - _OF_METRICS)

    @cached_property
    def title(self) -> frozenset[str]:
        """Content words of the heading, or of the line of capitals, that the text opens with."""
        found = _TITLE.match(self.text)
        long = [word for word in found[2].split() if len(word) > 3] if found else []
        headed = found is not None and (found[1] or sum(word[0].isupper() for word in long) * 2 > len(long))
        return frozenset(words_worth(found[2])) if found is not None and headed else frozenset()

    @cached_property
    def tokens(self) -> list[str]:
        return _TOKEN.findall(self.text.lower())

    @cached_property
    def numbers(self) -> frozenset[float]:
        return _numbers(self.text)

    @cached_property
    def years(self) -> frozenset[int]:
        return frozenset(int(found) for found in _YEAR.findall(self.text))


_WORD, _TOKEN = re.compile(r"[^\W_]{2,40}"), re.compile(r"[^\W_]{1,40}")
_COLUMN = re.compile(r"(?<!\w)(?=[^\W_]*+_|[^\Wa-z]*+[a-z][^\W\d]*+\d|[^\W\d]*+\d[^\WA-Za-z]*+[A-Za-z])\w++")
_OPENS = re.compile(r"(?:^|[.!?:;\n\"(*#-]\s?)$")
_TITLE = re.compile(r"\A(#{0,6}) ?([^\n.!?]{3,90})\n")
_YEAR = re.compile(r"(?<![\d,.-])(20[012]\d)(?![\d,.-]*\d)")
_PHRASES = list(chain.from_iterable(metric.phrases.split(",") for metric in METRICS))
_OF_METRICS = frozenset(chain.from_iterable([*words_of(p), "".join(words_of(p))] for p in _PHRASES))
_CANDIDATES, _FEW = 2, 8


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
    words, meaning = (Ranked(signals[name]) if name in signals else None for name in ("words", "embedding"))
    if words is None or len(words.scores) < 2:
        return None
    if meaning is not None and meaning.scores[meaning.first[0]] <= 0.0:
        meaning = None  # nothing stored has vectors yet
    read = Words(readable(text)[:READ_CHARACTERS])
    best, found = LEAST_PROBABILITY, None
    for place in candidates(words, meaning):
        task = float(task_probability[place]) if task_probability is not None else 1.0
        evidence = evidence_of(snapshot, place, read, facts, words, meaning, task)
        named = evidence.identifies or bool(read.names & snapshot.known_words(place))
        if evidence.probability >= best and named and not another_edition(snapshot, place, read, evidence):
            best, found = evidence.probability, place
    return found


def is_named(snapshot: RecallSnapshot, place: int, text: str) -> bool:
    """Whether a text holds the competition's slug or title, word for word."""
    tokens = _TOKEN.findall(readable(text).lower())
    return None in [_differing(tokens, name) for name in _own_names(snapshot, place)]


def _own_names(snapshot: RecallSnapshot, place: int) -> list[list[str]]:
    """Slug and title of a competition, each as its words."""
    row = snapshot.competitions[place]
    return [_TOKEN.findall(str(name).lower()) for name in (row["slug"], row.get("title")) if name]


def another_edition(snapshot: RecallSnapshot, place: int, read: Words, evidence: Evidence) -> bool:
    """Whether the text names one of the series that is not this one: its name, never as it is, with another
    year, episode or number, or with one other word where metric, counts or task differ ("M5 Accuracy"); or
    its own title shares words with this one's, not the rarest, and has a rarer one that the record lacks
    ("Yam leaf disease")."""
    row, rarity = snapshot.competitions[place], snapshot.word_frequencies.rarity
    named = frozenset(words_worth(str(row.get("title") or "")))
    common, lacking = named & read.title, read.title - snapshot.known_words(place)
    unlike = common and lacking and max(named, key=rarity) not in common
    if unlike and max(map(rarity, lacking)) > max(map(rarity, common)):
        return True
    own = _own_names(snapshot, place)
    found = [_differing(read.tokens, name) for name in (*own, *filter(None, map(_with_year, own)))]
    disagrees = evidence.metric < 0.0 or evidence.conflict > 0.0 or evidence.another > 0.0
    return None not in found and ("edition" in found or (disagrees and "word" in found))


def _with_year(name: Sequence[str]) -> Sequence[str] | None:
    """The name up to its year, where words stand before it: "herbarium 2020" of "Herbarium 2020 - FGVC7"."""
    year = next((place for place, word in enumerate(name) if _YEAR.fullmatch(word)), 0)
    return name[: year + 1] if 0 < year < len(name) - 1 else None


def _differing(tokens: Sequence[str], name: Sequence[str]) -> str | None:
    """What differs where a text has a name but for editions, or but for one word: "edition", "word"; "" where
    it has nothing like it, None where it has the name itself."""
    content = [place for place, word in enumerate(name) if not _NUMBERED.fullmatch(word)]
    found = ""
    for start in [
        place - content[0] for place, word in enumerate(tokens) if content and word == name[content[0]]
    ]:
        there = tokens[max(start, 0) : start + len(name)]
        if len(there) < len(name):
            continue
        apart = [pair for pair in zip(there, name, strict=True) if pair[0] != pair[1]]
        words = [pair for pair in apart if not all(map(_NUMBERED.fullmatch, pair))]
        if not apart:
            return None
        if not words:
            found = "edition"
        elif len(words) == len(apart) == 1 and len(content) > 2 and not found:
            found = "word"
    return found


_NUMBERED = re.compile(r"\d{1,4}|s\d+e\d+|ii|iii|iv|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")
"""Years, months and numbers of editions."""


def candidates(words: Ranked, meaning: Ranked | None) -> list[int]:
    """Places of the few that come first by words or by meaning."""
    return sorted({place for each in (words, meaning) if each for place in each.first[:_CANDIDATES]})


def evidence_of(
    snapshot: RecallSnapshot,
    place: int,
    read: Words,
    facts: InferredFacts,
    words: Ranked,
    meaning: Ranked | None,
    task: float,
) -> Evidence:
    """`task`: the probability that the text asks for this competition's task."""
    row, known = snapshot.competitions[place], snapshot.known_words(place)
    rarity = snapshot.word_frequencies.rarity
    cosine = float(meaning.scores[place]) if meaning else _USUAL_COSINE
    common = sum(map(rarity, read.content_words & known))
    joined = "".join(_WORD.findall(f"{row['slug']} {row.get('title') or ''}".lower()))
    strange = [name for name in read.names - known if not _inside(name, joined)]
    there = _numbers(searched_text(row)) | {float(row[name]) for name in _COUNTS if row.get(name)}
    conflicts = {name: _far(name, facts, row, there) for name in ("n_train", "n_classes")}
    wrong = facts.n_train if conflicts["n_train"] else None
    alike = [a for a in read.numbers if _near(a, there, 0.03) and a != wrong]
    unknown = [a for a in read.numbers if not _near(a, there, 0.05)]
    return Evidence(
        mass=math.log1p(common * _FITTED_N / math.log1p(snapshot.word_frequencies.n)),
        ahead=math.log(max(float(words.scores[place]), 1.0) / max(words.best_other(snapshot, place), 1.0)),
        meaning=cosine,
        nearer=cosine - meaning.best_other(snapshot, place) if meaning else 0.0,
        metric=_metric_agrees(facts, row),
        figures=min(sum(map(math.log10, alike)) / 4.0, 2.0),
        unknown=min(sum(map(math.log10, unknown)) / 4.0, 3.0),
        conflict=sum(conflicts.values()),
        year=_year(read.years, row.get("year")),
        another=float(row.get("task") is not None and task < LEAST_TASK),
        strangers=math.log1p(sum(map(rarity, strange))),
    )


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


def _near(number: float, numbers: frozenset[float], share: float) -> bool:
    return any(abs(number - other) <= share * other for other in numbers)


def _far(name: str, facts: InferredFacts, row: Mapping[str, Any], there: frozenset[float]) -> float:
    """0 up to a tenth more or less, or where the record names the text's figure, too; 1 from a third on. A
    number that counts no samples may be misread ("441 sites")."""
    one, other = getattr(facts, name), row.get(name)
    if not one or not other or _near(one, there, 0.05):
        return 0.0
    words = words_of(facts.words.get(name, ""))
    if name == "n_train" and words and KIND_OF.get(words[-1]) != "sample":
        return 0.0
    return min(max(abs(math.log(one / other)) - 0.1, 0.0), _OTHER) / _OTHER


_OTHER = 0.25


def _metric_agrees(facts: InferredFacts, row: Mapping[str, Any]) -> float:
    named = metric_named(str(row["metric"])) if facts.metric and row.get("metric") else None
    return 0.0 if named is None else 1.0 if named.name == facts.metric else -1.0
