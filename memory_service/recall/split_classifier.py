"""How a text says that test data differ from training: the clause that says it, how likely, and the unit.

A linear model over hashed words finds the few clauses that could say it. A second reads the states of their
tokens after `LAYERS` layers of the packaged encoder: the largest of each of some projections tells the split,
a score of each token the word of the unit. `python -m benchmarks.fit_split --fit` fits and judges them.
"""

import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.domain.description.phrases import spaced, words_of
from memory_service.domain.description.prose import task_sentences
from memory_service.domain.description.stated_split import Separation, unit_in_singular
from memory_service.recall.encoder import States, TokenStates

FILE = "split_classifier.npz"
LABELS = ("none", "group", "time", "random")
CANDIDATES = 4
"""Clauses of a text that are read: the likeliest by their words."""

HINTS = 0.05
"""A clause that is less likely by its words alone is not encoded."""

LAYERS = 3
"""From the fourth on fewer splits of an author who was kept apart are told."""

LONGEST_CLAUSE, MOST_CLAUSES, LEAST_WORDS = 120, 400, 4
WORD_BUCKETS = 4096
WORDS = 2.0
"""Length of the features of a clause."""

Floats = NDArray[np.float32]
_CLAUSE = re.compile(
    r"; |, (?=(?:so|and|but|as|because|since|while|whereas|therefore|which|nobody|none|no)\b)|: | - | – "
)
_CODE = re.compile(
    r"\b(?:stratified[ -]?)?group[ -]?(?:k-?folds?|shuffle[ -]?split)\b"
    r"(?:[^.;,]{0,20}?\b(?:by|on|over|groups?)[ =]{1,3}[\"'`]?(?P<a>[a-z]\w{1,40}))?"
    r"|\bgroup(?:s|ed)? (?:by|on) [\"'`]?(?P<b>[a-z]\w{0,40}_id)\b",
    re.IGNORECASE,
)
"""What programmers write, which is exact."""

_DENIED_BEFORE = re.compile(
    r"(?:\b(?:no|not|never|nor|without|reject\w*)\b|n't\b)(?:(?!\b(?:so|but|hence|instead)\b)[^,:(]){0,60}$",
    re.IGNORECASE,
)
_DENIED_BEHIND = re.compile(
    r"[\s\"'`)]{0,4}(?:(?:is|was|are|were|did|do|does|has|had|can|could|would|should)(?:n't| not| never)"
    r"|rejected)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(r"[^\W\d][\w'-]{0,40}\w")


def clauses_of(text: str) -> list[str]:
    """The sentences of a text and, of those with several clauses, each of these."""
    found: list[str] = []
    for sentence in task_sentences(text):
        parts = _CLAUSE.split(sentence)
        found += [sentence, *parts] if len(parts) > 1 else [sentence]
    long = (each for each in found if len(words_of(each)) >= LEAST_WORDS)
    return [each for each, _ in zip(long, range(MOST_CLAUSES), strict=False)]


def word_grams(clause: str) -> set[str]:
    """Words and pairs."""
    tokens = ["#" if word.isdigit() else word for word in words_of(clause)][:LONGEST_CLAUSE]
    return {*tokens, *(f"{first} {second}" for first, second in pairwise(tokens))}


def places_of(grams: Collection[str]) -> NDArray[np.intp]:
    return np.array([zlib.crc32(gram.encode()) % WORD_BUCKETS for gram in grams], dtype=np.intp)


@dataclass(frozen=True, slots=True)
class SplitClassifier:
    """finds: (WORD_BUCKETS + 1, labels); projections: (385, p); labels: (p + 1, labels); units: (384,)."""

    finds: Floats
    projections: Floats
    labels: Floats
    units: Floats

    def separation(self, text: str, states: States | None) -> Separation | None:
        """What a text says: by words alone without an encoder, else only clauses whose words hint at it are
        encoded."""
        clauses = clauses_of(text)
        coded = [(code, each) for each in clauses if (code := _CODE.search(each))]
        for code, clause in coded:
            before, behind = clause[: code.start()], clause[code.end() :]
            if not (_DENIED_BEFORE.search(before) or _DENIED_BEHIND.match(behind)):
                return Separation("group", 1.0, clause, code["a"] or code["b"])
        denied = {clause for _, clause in coded}
        clauses = [each for each in clauses if each not in denied]
        if not clauses:
            return None
        grams = [word_grams(each) for each in clauses]
        scales = [WORDS / np.sqrt(max(len(each), 1)) for each in grams]
        sums = [s * self.finds[places_of(g)].sum(axis=0) for s, g in zip(scales, grams, strict=True)]
        odds = _odds(np.stack(sums) + self.finds[-1])
        told = odds[:, 1:].max(axis=1)
        likely = [int(place) for place in np.argsort(-told, kind="stable")[:CANDIDATES]]
        likely = [place for place in likely if told[place] >= HINTS] or likely[:1]
        read = [clauses[place] for place in likely]
        if states is None or told[likely[0]] < HINTS:
            return self._likeliest(read, odds[likely], None)
        read = [spaced(each) for each in read]
        tokens = states(read, LAYERS)
        projected = [np.maximum(x @ self.projections[:-1] + self.projections[-1], 0.0) for x, _ in tokens]
        logits = np.stack([each.max(axis=0) for each in projected]) @ self.labels[:-1] + self.labels[-1]
        return self._likeliest(read, _odds(logits), tokens)

    def _likeliest(
        self, clauses: Sequence[str], odds: Floats, tokens: Sequence[TokenStates] | None
    ) -> Separation:
        """The likeliest split, as if clauses said it independently, and the clause that says it best."""
        label = max(range(1, len(LABELS)), key=lambda label: _together(clauses, odds[:, label]))
        best = int(odds[:, label].argmax())
        unit = self.unit(clauses[best], tokens[best]) if tokens and LABELS[label] == "group" else None
        return Separation(LABELS[label], _together(clauses, odds[:, label]), clauses[best], unit)

    def unit(self, clause: str, tokens: TokenStates) -> str | None:
        """The word whose rows stay together, in the singular; None where no token stands out."""
        scores = tokens[0] @ self.units
        words = list(_UNIT.finditer(clause))
        for best in np.argsort(-scores)[:3]:
            start = tokens[1][best][0]
            word = next((each for each in words if each.start() <= start < each.end()), None)
            if scores[best] > 0.0 and word is not None:
                return unit_in_singular(word[0])
        return None


def _together(clauses: Sequence[str], odds: Floats) -> float:
    """Probability that one of them says it; a clause and the sentence that it is of count once."""
    said: list[str] = []
    silent = 1.0
    for place in np.argsort(-odds, kind="stable"):
        if not any(clauses[place] in each or each in clauses[place] for each in said):
            said.append(clauses[place])
            silent *= 1.0 - float(odds[place])
    return 1.0 - silent


def _odds(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)


@cache
def split_classifier() -> SplitClassifier:
    """The one that ships."""
    with np.load(resources.path("seeds", FILE), allow_pickle=False) as file:
        return SplitClassifier(**{name: file[name].astype(np.float32) for name in SplitClassifier.__slots__})
