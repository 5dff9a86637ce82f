"""How a text says that test data differ from training: the clause that says it, how likely, and the unit.

Three linear models over hashed words: one that finds the few clauses that could say it, one that reads them
(with the rules of `domain.description.stated_split` and, if encoded, their vectors), and one that finds the
noun of the unit. `python -m benchmarks.fit_split --fit` fits, judges and writes them.
"""

import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.domain.description.phrases import LONG_TEXT, OF_SETS, singular, task_sentences, words_of
from memory_service.domain.description.quantities import KIND_OF
from memory_service.domain.description.stated_split import NO_UNIT, UNLESS, Separation, split_in

FILE = "split_classifier.npz"
LABELS = ("none", "group", "time", "random")
CANDIDATES = 4
"""Clauses of a text that are read: the likeliest by their words."""

HINTS = 0.1
"""Below it by words alone a text says nothing of a split: one of a hundred that does."""

LONGEST_CLAUSE, MOST_CLAUSES, LEAST_WORDS = 120, 400, 4
WORD_BUCKETS, BUCKETS, UNIT_BUCKETS = 4096, 16384, 4096
WORDS, VECTOR, RULE = 2.0, 2.0, 1.0
"""Scale of the features: the same penalty then suits all."""

Floats = NDArray[np.float32]
_CLAUSE = re.compile(
    r"; |, (?=(?:so|and|but|as|because|since|while|whereas|therefore|which|nobody|none|no)\b)|: | - | – "
)
_TOKEN = re.compile(r"[^\W\d_][\w'-]{0,40}|\d[\d.,]{0,20}|[,;:.()?!`]")
_FUNCTION_WORDS = (
    " the a an of in on at for from to by with and or but so as is are was were be been not no never nobody "
    "none it its they them we you i that which who whom whose this these those there here have has had do "
    "does did can must should may will would than then if when one each every any all both same other new "
    "different unseen only "
)


def _is_function_word(word: str) -> bool:
    return f" {word} " in _FUNCTION_WORDS


def clauses_of(text: str) -> list[str]:
    """The sentences of a text and, of those with several clauses, each of these."""
    found: list[str] = []
    page = len(text) >= LONG_TEXT
    for sentence in task_sentences(text):
        if UNLESS.search(sentence) or (page and not OF_SETS.search(sentence)):
            continue
        parts = _CLAUSE.split(sentence)
        found += [sentence, *parts] if len(parts) > 1 else [sentence]
    long = (each for each in found if len(words_of(each)) >= LEAST_WORDS)
    return [each for each, _ in zip(long, range(MOST_CLAUSES), strict=False)]


def tokens_of(clause: str) -> list[str]:
    return ["#" if word.isdigit() else word for word in words_of(clause)][:LONGEST_CLAUSE]


def word_grams(tokens: Sequence[str]) -> set[str]:
    """Words and pairs."""
    return {*tokens, *(f"{first} {second}" for first, second in pairwise(tokens))}


def all_grams(tokens: Sequence[str]) -> set[str]:
    """The same with triples, and pairs that one or two words part."""
    grams = word_grams(tokens)
    grams |= {" ".join(each) for each in zip(tokens, tokens[1:], tokens[2:], strict=False)}
    grams |= {f"{first} * {second}" for first, second in zip(tokens, tokens[2:], strict=False)}
    return grams | {f"{first} ** {second}" for first, second in zip(tokens, tokens[3:], strict=False)}


def shape_grams(tokens: Sequence[str], usual: Collection[str]) -> set[str]:
    """Grams of the clause with "x" for every word that is not usual, and pairs of usual ones far apart."""
    shape = [word if word in usual or word == "#" else "x" for word in tokens]
    grams = {f"A {gram}" for gram in all_grams(shape)}
    grams |= {f"A {' '.join(four)}" for four in zip(shape, shape[1:], shape[2:], shape[3:], strict=False)}
    told = [word for word in shape if word != "x"][:40]
    return grams | {f"F {a} {b}" for place, a in enumerate(told) for b in told[place + 1 : place + 9]}


def places_of(grams: Collection[str], buckets: int) -> NDArray[np.intp]:
    return np.array([zlib.crc32(gram.encode()) % buckets for gram in grams], dtype=np.intp)


def summed(grams: Collection[str], weights: Floats) -> Floats:
    """What a set of grams, of length `WORDS` in all, adds to the logits. weights: (buckets, ...)."""
    scale = WORDS / np.sqrt(max(len(grams), 1))
    return np.asarray(scale * weights[places_of(grams, len(weights))].sum(axis=0), dtype=np.float32)


def rules_of(clause: str) -> list[float]:
    """What the rules read, by label."""
    read = split_in(clause).get("split", ("none", ""))[0]
    return [RULE * (read == label) for label in LABELS]


def nouns_of(clause: str) -> Iterator[tuple[str, set[str]]]:
    """Each word that could be the unit, in the singular, with its features."""
    tokens = _TOKEN.findall(clause)[:LONGEST_CLAUSE]
    low = [token.lower() for token in tokens]
    single = [singular(token) for token in low]
    for place in range(len(tokens)):
        word = low[place].removesuffix("'s")
        unit = singular(word.partition("-")[0].removesuffix("_id"))
        if len(word) < 3 or not word[0].isalpha() or _is_function_word(word) or NO_UNIT.fullmatch(unit):
            continue
        before, behind = ["^", "^", "^", *low][place : place + 3], [*low, "$", "$"][place + 1 : place + 3]
        plural, kind = single[place] != word, KIND_OF.get(singular(word), "?")
        last, following = before[2], behind[0]
        found = {
            f"p1 {last}", f"p2 {before[1]} {last}", f"p3 {' '.join(before)}", f"n1 {following}",
            f"n2 {following} {behind[1]}", f"pn {last} {following}", f"kind {kind}", f"pk {last} {kind}",
            f"plural {plural}", f"end {word[-3:]}", f"word {unit}", f"id {word.endswith('_id')}",
            f"again {single.count(single[place]) > 1}", f"hyphen {word.partition('-')[2]}",
            f"place {min(place // 4, 5)}",
            f"near {_is_function_word(last)} {_is_function_word(following)} {plural}",
        }  # fmt: skip
        around = (*low[max(0, place - 5) : max(0, place - 1)], *low[place + 2 : place + 6])
        yield unit, found | {f"about {each}" for each in around if _is_function_word(each)}


@dataclass(frozen=True, slots=True)
class SplitClassifier:
    """usual: words of shapes; finds: (WORD_BUCKETS + 1, labels); encoded and plain: with and without vectors,
    (BUCKETS of words, of shapes, rules, vector, bias; labels); units: (UNIT_BUCKETS + 1,)."""

    usual: frozenset[str]
    finds: Floats
    encoded: Floats
    plain: Floats
    units: Floats

    def candidates(self, text: str) -> list[str]:
        """The clauses to read, `CANDIDATES` at most."""
        clauses = clauses_of(text)
        if not clauses:
            return []
        logits = [summed(word_grams(tokens_of(each)), self.finds[:-1]) for each in clauses]
        odds = _odds(np.stack(logits) + self.finds[-1])[:, 1:].max(axis=1)
        return [clauses[place] for place in np.argsort(-odds, kind="stable")[:CANDIDATES]]

    def separation(self, text: str, encode: Callable[[Sequence[str]], Floats] | None) -> Separation | None:
        """What a text says; only where its words hint at a split are clauses encoded."""
        clauses = self.candidates(text)
        by_words = self.read(clauses, None)
        if by_words is None or by_words.probability < HINTS or encode is None:
            return by_words
        return self.read(clauses, encode(clauses))

    def read(self, clauses: Sequence[str], vectors: Floats | None) -> Separation | None:
        """What the likeliest of them says. vectors: of each (n, 384), None without an encoder."""
        if not clauses:
            return None
        weights = self.plain if vectors is None else self.encoded
        words, shapes, rest = np.split(weights[:-1], [BUCKETS, 2 * BUCKETS])
        logits = []
        for place, clause in enumerate(clauses):
            tokens = tokens_of(clause)
            dense = rules_of(clause) + ([] if vectors is None else (VECTOR * vectors[place]).tolist())
            by_words = summed(all_grams(tokens), words) + summed(shape_grams(tokens, self.usual), shapes)
            logits.append(by_words + np.asarray(dense, np.float32) @ rest + weights[-1])
        odds = _odds(np.stack(logits))
        place, label = divmod(int(odds[:, 1:].argmax()), len(LABELS) - 1)
        split = LABELS[label + 1]
        unit = self.unit(clauses[place]) if split == "group" else None
        return Separation(split, float(odds[place, label + 1]), clauses[place], unit)

    def unit(self, clause: str) -> str | None:
        """The noun whose rows stay together; None where no noun is likelier than not."""
        scores = {noun: float(summed(found, self.units[:-1])) for noun, found in nouns_of(clause)}
        best = max(scores, key=lambda noun: scores[noun], default=None)
        return best if best is not None and scores[best] + self.units[-1] > 0.0 else None


def _odds(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)


@cache
def split_classifier() -> SplitClassifier:
    """The one that ships."""
    with np.load(resources.path("seeds", FILE), allow_pickle=False) as file:
        weights = {name: file[name].astype(np.float32) for name in ("finds", "encoded", "plain", "units")}
        return SplitClassifier(frozenset(file["usual"].tolist()), **weights)
