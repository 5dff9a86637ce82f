"""How many samples of training and of test, and how many classes, a text tells, each with its probability.

A softmax over the text's numbers, those made of two of them, its lists, ranges and questions of yes or no,
and "not told"; linear in hashed features.
`python -m benchmarks.fit_counts --fit` fits, judges and writes the weights.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations, groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.domain.description.phrases import LONG_TEXT, patterns, singular, task_sentences
from memory_service.domain.description.quantities import Quantity, number_of_words, quantities_in
from memory_service.domain.description.task_inference import InferredFacts

FILE = "count_classifier.npz"
ROLES = ("n_train", "n_test", "n_classes")
WITHOUT_CLASSES = (
    "regression", "seq2seq", "captioning", "recommendation", "ranking", "image-to-image", "recognition",
    "keypoints", "answering",
)  # fmt: skip
BUCKETS = 1 << 14
LEAST, RIVAL = 10, 0.6
TELLS = {"n_train": 0.68, "n_test": 0.65, "n_classes": 0.68}
TELLS_ON_PAGE = TELLS | {"n_train": 0.5, "n_test": 0.55}
"""Probabilities from which a number is told: less on a page, whose many numbers take from the right one's.
Another number competes with this part of what the likeliest leaves."""

NAMED, WORDS = 0.3, 1.0
"""Scale of the features: the same penalty then suits both."""

_MOST, _WHOLES, _NEAR, _MOST_CLASSES = 48, 6, 12, 100_000
_LEAST_RIVAL, _APART, _MOST_ITEMS, _NAMED_ONES = 0.05, 1.5, 60, 0.25
_P = patterns("counts")
_TOKEN = re.compile(r"[^\W\d_]+|\d[\d.,]*|[,;:.()%\n]")
_PARTS = (",", ";", ":", "(", ")", "and", "but")
_FRACTIONS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
Floats = NDArray[np.float32]
Odds = dict[int, tuple[float, str]]


_WORD = re.compile(r"[^\s,/|]{1,60}")
_LONGEST_ITEM = 5
_KINDS = ("number", "list", "rows", "range", "binary", "one_class", "whole")
"""How numbers of classes are made; whole: two, of all that the text says."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number that may be a count, how it is made (`plain` where it stands there), and its features."""

    value: int
    made: str
    words: str
    named: frozenset[str]
    grams: frozenset[str]

    def serves(self, role: str) -> bool:
        return (self.made in _KINDS) == (role == "n_classes")


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

    def asked(self) -> set[str]:
        """What stands near behind a word that asks."""
        places = [at for at, groups in enumerate(self.groups) if "asks" in groups]
        return {singular(word) for at in places for word in self.words[at + 1 : at + 7]}


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


def _shares(text: str) -> Iterator[tuple[float, str, re.Match[str]]]:
    """Shares, how they are told, and where."""
    for match in list(_P["part_of_all"].finditer(text))[:4]:
        kind = next(name for name, words in match.groupdict().items() if words)
        told = match[kind].lower()
        if kind == "parts":
            parts = [int(part) / 100 for part in re.findall(r"\d+", told)]
            yield from ((parts[0], f"parts {len(parts)}", match), (parts[-1], f"last {len(parts)}", match))
            continue
        share = 1 / _FRACTIONS[told] if kind == "fraction" else number_of_words(told) / 100
        share = 0.01 / share if kind == "every" else share
        if 0.02 < share < 0.98:
            yield share, kind, match


def _lists(text: str) -> Iterator[tuple[int, int, int, set[str]]]:
    """Items, start, end and features of what may be a list: "in wood, glass or none", "cat / dog"."""
    start = 0
    for clause in _P["clause"].split(text):
        ends = [*_P["between"].finditer(clause)]
        items: list[int] = []
        opened, last, done, place = text[max(0, start - 2) : start].strip()[-1:], "", False, start
        for at in range(len(ends) + 1):
            stop = start + (ends[at].start() if at < len(ends) else len(clause))
            more = (ends[at][0].strip(" ,").lower() or ",")[:3] if at < len(ends) else ""
            words = list(_WORD.finditer(text, place, stop))
            openers = [n for n, word in enumerate(words[:-1]) if _P["opens"].fullmatch(word[0])]
            over = len(words) > _LONGEST_ITEM or bool(openers)
            if items and words and 0 not in openers[:1] and not (done and last == ","):
                items.append(words[0].start())
                if (last != "," or not more or over) and not _P["open_ended"].match(text, items[-1]):
                    end = words[min(len(words), openers[0] if openers else 3) - 1].end()
                    said = {
                        f"sep {last}",
                        f"opens {opened}",
                        f"more {more}",
                        f"over {over}",
                        f"one {len(items) == 2}",
                    }
                    yield len(items), items[0], end, said
                    if len(items) > 3:
                        yield len(items) - 1, items[1], end, said | {"later"}
                done = done or last in ("and", "or")
                ended = over or len(items) >= _MOST_ITEMS
            else:
                ended = True
            if ended:
                first = openers[-1] + 1 if openers else 0 if len(words) <= 2 else len(words) - 1
                items, done = [word.start() for word in words[first : first + 1]], False
                opened = words[first - 1][0].lower() if first and words else opened if place == start else ","
            last, place = more, start + ends[at].end() if at < len(ends) else stop
        start += len(clause) + 1


def _tables(text: str) -> Iterator[tuple[list[float], int, int]]:
    """Numbers, start and end of lines that count each of something: "crack: 120 photos"."""
    start = 0
    for counted, run in groupby(text.splitlines(keepends=True), lambda line: _counted(line)[0]):
        lines = list(run)
        end = start + sum(map(len, lines))
        if counted is not None and len(lines) > 1:
            yield [_counted(line)[1] for line in lines], start, end
        start = end


def _counted(line: str) -> tuple[str | None, float]:
    match = _P["row"].fullmatch(line.strip())
    return (match[2].strip(), float(re.sub(r"\D", "", match[1]))) if match else (None, 0.0)


def _of_classes(
    text: str,
    found: list[Quantity],
    places: Iterable[tuple[set[str], _Place]],
    words: _Words,
    whole: set[str],
) -> Iterator[Candidate]:
    asked = words.asked()
    for q, (said, place) in zip(found, places, strict=True):
        if q.value <= _MOST_CLASSES:
            named = frozenset(said | {f"asked {q.noun in asked}", f"value {min(q.value, 12)}"})
            yield Candidate(round(q.value), "number", q.words, named, frozenset(place.grams))
    kinds: list[tuple[int, str, int, int, set[str]]] = []
    for count, start, end, said in islice(_lists(text), _MOST):
        same = any(q.value == count for q in found)
        kinds.append((count, "list", start, end, said | {f"items {min(count, 12)}", f"same {same}"}))
    for match in _P["ordinal"].finditer(text):
        low, high = (ord(end) if end.isupper() else number_of_words(end) for end in match.groups())
        if low < high:
            kinds.append((round(high - low) + 1, "range", *match.span(), {f"from {low}", f"high {high}"}))
    for rows, start, end in _tables(text):
        kinds.append((len(rows), "rows", start, end, {f"items {min(len(rows), 12)}"}))
    for name, value in ("binary", 2), ("one_class", 1):
        kinds += [(value, name, *match.span(), set()) for match in _P[name].finditer(text)]
    for value, kind, start, end, said in kinds[:_MOST]:
        place = words.about(start, end)
        named = frozenset(said | place.named | whole)
        yield Candidate(value, kind, text[start:end], named, frozenset(place.grams))
    told = {f"told {kind[1]}" for kind in kinds} | {f"number {q.kind}" for q in found}
    every = frozenset(f"t {word}" for word in words.counts)
    yield Candidate(2, "whole", "", frozenset(whole | told), every)


def candidates_of(text: str, task: str | None = None) -> list[Candidate]:
    """Every number of the text, sums, differences, products and shares of those that are near, and what may
    be numbers of classes."""
    page = len(text) >= LONG_TEXT
    text = "\n".join(task_sentences(text))
    found = [q for q in quantities_in(text) if q.value >= 1][:_MOST]
    words, end = _Words(text), 0
    numbers: list[_Place] = []
    for q in found:
        start = max(text.find(q.words, end), 0) or max(text.find(q.words), 0)
        end = start + 1
        numbers.append(words.about(start, start + len(q.words)))
    shares = [(share, kind, words.about(*match.span()), match[0]) for share, kind, match in _shares(text)]
    whole = {f"page {page}", f"task {task}"} | {f"share told {kind}" for _, kind, _, _ in shares}
    whole |= {f"text {group}" for groups in words.groups for group in groups}
    named = [_of_quantity(at, found, place, words) | whole for at, place in enumerate(numbers)]
    out = [
        Candidate(round(q.value), "plain", q.words, frozenset(said), frozenset(place.grams))
        for q, said, place in zip(found, named, numbers, strict=True)
        if q.value >= LEAST
    ]
    for rows, start, stop in _tables(text):
        place = words.about(start, stop)
        of_rows = frozenset(place.named | whole)
        out.append(Candidate(round(sum(rows)), "sum", text[start:stop], of_rows, frozenset(place.grams)))
    if task is None or not task.endswith(WITHOUT_CLASSES):
        out += _of_classes(text, found, zip(named, numbers, strict=True), words, whole)

    def made(value: float, kind: str, one: int, other: _Place, said: set[str], label: str) -> None:
        far = abs(numbers[one].start - other.start)
        both = named[one] | {f"B {each}" for each in said} | {f"far {min(far.bit_length(), 9)}"}
        grams = numbers[one].grams | {f"B {each}" for each in other.grams}
        out.append(Candidate(round(value), kind, label, frozenset(both), frozenset(grams)))

    counts = [at for at, q in enumerate(found) if q.value >= 10 and q.kind in ("sample", "group", "unknown")]
    for one in sorted(counts, key=lambda at: -found[at].value)[:_WHOLES]:
        for share, kind, place, words_of_it in shares:
            if abs(place.start - numbers[one].start) < 400:
                said = place.named | {f"share {round(4 * share)}", f"told {kind}"}
                label = f"{found[one].words}, {words_of_it}"
                made(found[one].value * share, "share", one, place, said, label)
                if " " not in kind:  # else the other part is told, too
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

    def odds(self, candidates: list[Candidate]) -> list[Odds]:
        """Of each role: number -> its probability, and the words that it was made of."""
        logits = [values @ self.weights[places] for places, values in map(features_of, candidates)]
        powers = np.exp(np.stack([*logits, self.weights[-1]]).clip(-60, 60))
        serves = [each.serves(role) for each in candidates for role in ROLES]
        powers[:-1] *= np.reshape(serves, (-1, len(ROLES)))
        powers /= powers.sum(axis=0)
        out: list[Odds] = []
        for role in powers[:-1].T:
            found: Odds = {}
            for at in np.argsort(-role).tolist():
                before, words = found.get(candidates[at].value, (0.0, candidates[at].words))
                found[candidates[at].value] = before + float(role[at]), words
            out.append(found)
        return out

    def judged(self, facts: InferredFacts, text: str) -> InferredFacts:
        """The facts with the counts that it is sure of; what arrays and tables say stays."""
        candidates, in_slices = candidates_of(text, facts.task), facts.n_train is not None
        tells = tells_of(text)
        read = dict(zip(ROLES, self.odds(candidates), strict=True))
        plain = {each.value for each in candidates if each.made in ("plain", "number")}
        plain -= {told(found, tells[name])[0] for name, found in read.items()}
        for name in (each for each in ROLES if getattr(facts, each) is None and read[each]):
            found = read[name]
            first = max(found, key=lambda value: found[value][0])
            least = max(RIVAL * (1.0 - found[first][0]), _LEAST_RIVAL)
            rivals = [value for value in plain & found.keys() - {first} if found[value][0] >= least]
            changed: dict[str, Any] = {}
            if any(max(value, first) >= _APART * min(value, first) for value in rivals):
                changed["rivals"] = {**facts.rivals, name: (first, *rivals)}
            value, words = told(found, tells[name])
            if value is not None:
                changed |= {name: value, "words": {**facts.words, name: words}}
            facts = replace(facts, **changed)
        if facts.n_classes and facts.n_train and facts.n_classes > facts.n_train:
            facts = replace(facts, n_classes=None)  # boxes, or labels that are written anew for each
        kinds = read["n_classes"].get(facts.n_groups or 0, (0.0, ""))[0]
        if kinds >= _NAMED_ONES and not in_slices:
            facts = replace(facts, n_groups=None, group_by=None)  # what is to be named
        return facts


def tells_of(text: str) -> dict[str, float]:
    """Of each role the probability from which a number of this text is told."""
    return TELLS_ON_PAGE if len(text) >= LONG_TEXT else TELLS


def told(found: Odds, least: float) -> tuple[int | None, str]:
    """The likeliest number and its words, where it has the least probability."""
    best = max(found, key=lambda value: found[value][0], default=None)
    return (best, found[best][1]) if best is not None and found[best][0] >= least else (None, "")


@cache
def count_classifier() -> CountClassifier:
    """The one that ships."""
    with np.load(resources.path("seeds", FILE), allow_pickle=False) as file:
        return CountClassifier(file["weights"].astype(np.float32))
