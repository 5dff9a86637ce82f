"""How many samples of training and of test a text tells of, each number with its probability.

A softmax over the text's numbers, those made of two of them, and "not told"; linear in hashed features.
`python -m benchmarks.fit_counts --fit` fits, judges and writes the weights.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.domain.description.phrases import patterns, singular
from memory_service.domain.description.prose import LONG_TEXT, task_sentences
from memory_service.domain.description.quantities import Quantity, number_of_words, quantities_in
from memory_service.domain.description.task_inference import InferredFacts

FILE = "count_classifier.npz"
ROLES = ("n_train", "n_test")
BUCKETS = 1 << 14
LEAST, TELLS, CONFIRMS = 10, 0.75, 0.6
"""Probabilities from which a number is told, and from which one that the rules read is."""

NAMED, WORDS = 0.3, 1.0
"""Scale of the features: the same penalty then suits both."""

_MOST, _WHOLES, _NEAR = 48, 6, 12
_P = patterns("counts")
_TOKEN = re.compile(r"[^\W\d_]+|\d[\d.,]*|[,;:.()%\n]")
_PARTS = (",", ";", ":", "(", ")", "and", "but")
_FRACTIONS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number that may be a count, how it is made (`plain` where it stands there), and its features."""

    value: int
    made: str
    words: str
    named: frozenset[str]
    grams: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a number or a share begins, and what stands about it."""

    start: int
    named: set[str]
    grams: set[str]


class _Words:
    """The words of a text with the places where they begin and the groups that they are of."""

    def __init__(self, text: str) -> None:
        found = list(_TOKEN.finditer(text))
        self.starts = [each.start() for each in found]
        self.words = ["#" if each[0][0].isdigit() else each[0].lower() for each in found]
        self.groups = [_groups_of(word) for word in self.words]
        self.counts = Counter(map(singular, self.words))

    def about(self, start: int, end: int) -> _Place:
        """Groups by side and clause, and words beside a part of the text."""
        first, last = np.searchsorted(self.starts, (start, end)).tolist()
        grams = {f"w {singular(word)}" for word in self.words[first:last]}
        named = {f"w {group}" for groups in self.groups[first:last] for group in groups}
        before = range(first - 1, max(-1, first - 1 - _NEAR), -1)
        for side, places in ("b", before), ("a", range(last, min(len(self.words), last + _NEAR))):
            clauses = 0
            for far, place in enumerate(places):
                word = self.words[place]
                clauses = 3 if word in ".\n" else max(clauses, min(clauses + (word in _PARTS), 2))
                named.update(f"{side}{clauses} {group}" for group in self.groups[place])
                grams.update((f"{side}{far} {word}",) if far < 2 else ())
                grams.update((f"{side} {singular(word)}",) if far < 6 and clauses < 3 else ())
        return _Place(start, named, grams)


@lru_cache(maxsize=4096)
def _groups_of(word: str) -> tuple[str, ...]:
    return tuple(name for name in _GROUPS if _P[name].match(word))


_GROUPS = ("train", "test", "unlabelled", "filtered", "rest", "rate", "asks", "bound", "each")


def _of_quantity(at: int, found: list[Quantity], place: _Place, words: _Words) -> set[str]:
    q, named = found[at], set(place.named)
    others = [each for each in found if each is not q and not each.each]
    samples = {each.value for each in others if each.kind == "sample"}
    alike = [each for each in others if q.noun and each.noun == q.noun]
    more = sum(value > q.value for value in {each.value for each in others})
    named |= {
        f"size {round(np.log10(max(q.value, 1)))}", f"more {min(more, 4)}", f"place {min(at, 4)}",
        f"more samples {min(sum(value > q.value for value in samples), 3)}",
        f"fewer samples {min(sum(10 <= value < q.value for value in samples), 3)}",
        f"numbers {min(len(found), 8)}", f"alike {min(len(alike), 2)}",
        f"noun said {min(words.counts[q.noun], 3) if q.noun else -1}",
    }  # fmt: skip
    named |= {f"kind {q.kind}", f"role {q.role} {q.direct}", f"kind {q.kind} role {q.role}"}
    told = {"each": q.each, "of rows": q.of_rows, "alike more": any(each.value > q.value for each in alike)}
    for role in ("train", "test"):
        told[f"other {role}"] = any(each.role == role and each.value >= 10 for each in others)
        told[f"other direct {role}"] = any(each.role == role and each.direct for each in others)
        told[f"alike {role}"] = any(each.role == role for each in alike)
    for name, step in (("last", -1), ("next", 1)):
        if 0 <= at + step < len(found):
            other = found[at + step]
            ratio = round(np.log10(max(other.value, 1) / max(q.value, 1)))
            named |= {f"{name} {ratio}", f"{name} {other.kind} {other.role}", f"{name} each {other.each}"}
    return named | {name for name, holds in told.items() if holds}


def _shares(text: str) -> Iterator[tuple[float, re.Match[str]]]:
    for match in list(_P["part_of_all"].finditer(text))[:4]:
        if match["fraction"]:
            share = 1 / _FRACTIONS[match["fraction"].lower()]
        else:
            every = match["every"]
            share = (
                1 / number_of_words(every)
                if every
                else number_of_words(match["percent"] or match["parts"]) / 100
            )
        if 0.02 < share < 0.98:
            yield share, match


def candidates_of(text: str) -> list[Candidate]:
    """Every number of the text, and sums, differences, products and shares of those that are near."""
    page = len(text) >= LONG_TEXT
    text = "\n".join(task_sentences(text))
    found = [q for q in quantities_in(text) if q.value >= 1][:_MOST]
    words, end = _Words(text), 0
    numbers: list[_Place] = []
    for q in found:
        start = max(text.find(q.words, end), 0) or max(text.find(q.words), 0)
        end = start + 1
        numbers.append(words.about(start, start + len(q.words)))
    shares = [(share, words.about(*match.span())) for share, match in _shares(text)]
    whole = {f"share told {bool(shares)}", f"page {page}"}
    whole |= {f"text {group}" for groups in words.groups for group in groups}
    named = [_of_quantity(at, found, place, words) | whole for at, place in enumerate(numbers)]
    out = [
        Candidate(round(q.value), "plain", q.words, frozenset(said), frozenset(place.grams))
        for q, said, place in zip(found, named, numbers, strict=True)
        if q.value >= LEAST
    ]

    def made(value: float, kind: str, one: int, other: _Place, said: set[str], label: str) -> None:
        far = abs(numbers[one].start - other.start)
        both = named[one] | {f"B {each}" for each in said} | {f"far {min(far.bit_length(), 9)}"}
        grams = numbers[one].grams | {f"B {each}" for each in other.grams}
        out.append(Candidate(round(value), kind, label, frozenset(both), frozenset(grams)))

    counts = [at for at, q in enumerate(found) if q.value >= 10 and q.kind in ("sample", "group", "unknown")]
    for one in sorted(counts, key=lambda at: -found[at].value)[:_WHOLES]:
        for share, place in shares:
            if abs(place.start - numbers[one].start) < 400:
                said = place.named | {f"share {round(4 * share)}"}
                label = f"{found[one].words}, {text[place.start : place.start + 40]}"
                made(found[one].value * share, "share", one, place, said, label)
                made(found[one].value * (1 - share), "rest", one, place, said, label)
    for one, other in combinations(range(len(found)), 2):
        a, b = found[one], found[other]
        between = text[numbers[one].start : numbers[other].start + len(b.words) + 30]
        if other - one > 4 or len(between) > 300:
            continue
        label = f"{a.words}, {b.words}"
        if min(a.value, b.value) >= 2 and (a.each or b.each or _P["per"].search(between)):
            made(min(a.value * b.value, 1e10), "product", one, numbers[other], named[other], label)
        if {one, other} <= {*counts} and a.value != b.value:
            first, second = (one, other) if a.value > b.value else (other, one)
            place, said = numbers[second], named[second]
            made(abs(a.value - b.value), "minus", first, place, said, label)
            made(a.value + b.value, "plus", first, place, said, label)
    return out


def features_of(candidate: Candidate) -> tuple[NDArray[np.intp], Floats]:
    """Places and values of its features: each alone, and with how the number is made."""
    scale = WORDS / np.sqrt(max(len(candidate.grams), 1))
    parts = [(name, NAMED) for name in (f"made {candidate.made}", *candidate.named)]
    parts += [(f"W {gram}", scale) for gram in candidate.grams]
    keys = [key for name, _ in parts for key in (name, f"{candidate.made} | {name}")]
    values = np.repeat(np.asarray([value for _, value in parts], np.float32), 2)
    return np.asarray([zlib.crc32(key.encode()) % BUCKETS for key in keys], dtype=np.intp), values


@dataclass(frozen=True, slots=True)
class CountClassifier:
    """weights: (BUCKETS + 1, roles), the last row of "not told"."""

    weights: Floats

    def read(self, text: str) -> list[dict[int, tuple[float, str]]]:
        """Of each role: number -> its probability, and the words that it was made of."""
        candidates = candidates_of(text)
        logits = [values @ self.weights[places] for places, values in map(features_of, candidates)]
        powers = np.exp(np.stack([*logits, self.weights[-1]]).clip(-60, 60))
        odds = powers / powers.sum(axis=0)
        out: list[dict[int, tuple[float, str]]] = [{} for _ in ROLES]
        for candidate, row in zip(candidates, odds.tolist(), strict=False):
            for found, probability in zip(out, row, strict=True):
                before, words = found.get(candidate.value, (0.0, candidate.words))
                found[candidate.value] = before + probability, words
        return out

    def judged(self, facts: InferredFacts, text: str) -> InferredFacts:
        """The facts with the counts that it is sure of, and without those that it does not confirm."""
        for name, found in zip(ROLES, self.read(text), strict=True):
            read = getattr(facts, name)
            value, words = told(read, found)
            if value != read:
                said = {key: each for key, each in facts.words.items() if key != name}
                changed: dict[str, Any] = {name: value, "words": said | ({name: words} if value else {})}
                facts = replace(facts, **changed)
        if facts.n_classes and facts.n_train and facts.n_classes > facts.n_train:
            facts = replace(facts, n_classes=None)  # boxes, or labels that are written anew for each
        return facts


def told(read: int | None, found: dict[int, tuple[float, str]]) -> tuple[int | None, str]:
    """The count to tell, where the rules read that number, and its words."""
    best = max(found, key=lambda value: found[value][0], default=None)
    if best is None or (read is not None and read not in found):
        return read, ""  # made of an array's shape, or of slices: no number of the text
    return (best, found[best][1]) if found[best][0] >= (CONFIRMS if read == best else TELLS) else (None, "")


@cache
def count_classifier() -> CountClassifier:
    """The one that ships."""
    with np.load(resources.path("seeds", FILE), allow_pickle=False) as file:
        return CountClassifier(file["weights"].astype(np.float32))
