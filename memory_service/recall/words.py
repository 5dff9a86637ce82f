"""Search words of a question, and the BM25 score of a competition for them.

A long description holds hundreds of words that every competition holds too. Those that are rare among what
is stored are searched by the database's full-text search; what the user typed never reaches its query
syntax, because only letters and digits are passed on. What it finds is scored here by bm25 over the whole
competition: PostgreSQL's `ts_rank` knows nothing of a word's rarity, SQLite's bm25 sees single passages,
and the answer must not depend on the database.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import readable, singular

MAX_TERMS = 32
"""Terms of one search, the rarest of the question. A long description has hundreds."""

MAX_FOUND = 400
"""Competitions that one search may find: ranking them costs the database 3 microseconds a passage, and
words that half of ten thousand competitions hold (80 ms) tell nothing."""

_LEAST_TERMS = 1
_K1, _B = 1.2, 0.75
_TERM = re.compile(r"[^\W_]{2,40}")
_STOP = frozenset(shipped_table(__package__, "words.toml")["search"]["stop"].split())


@dataclass(frozen=True, slots=True)
class DocumentFrequencies:
    """Document frequencies of words (in the singular) over `n` stored texts."""

    document_frequency: Mapping[str, int]
    n: int
    mean_length: float = 1.0

    @classmethod
    def of(cls, texts: Iterable[str]) -> DocumentFrequencies:
        counts: Counter[str] = Counter()
        n = length = 0
        for text in texts:
            words, count = _counted(text)
            counts.update(words)
            length += count
            n += 1
        return cls(counts, n, length / max(1, n))

    def weight(self, word: str) -> float:
        """Inverse document frequency as in bm25; 0 for a word of most texts or of none."""
        frequency = self.document_frequency.get(singular(word), 0)
        return float(np.log1p((self.n - frequency + 0.5) / (frequency + 0.5))) if frequency else 0.0

    def rarity(self, word: str) -> float:
        """The same of a word in the singular; greatest for one that no text has."""
        frequency = self.document_frequency.get(word, 0)
        return float(np.log1p((self.n - frequency + 0.5) / (frequency + 0.5)))

    def terms(self, text: str, limit: int = MAX_TERMS) -> list[str]:
        """The words of a text worth searching for: rare in the store, frequent in the text."""
        spelled: dict[str, str] = {}
        counts = words_worth(readable(text), spelled)
        worth = {word: self.weight(word) * (1 + np.log(n)) for word, n in counts.items()}
        ranked = sorted((word for word in worth if worth[word] > 0), key=lambda word: (-worth[word], word))
        return [spelled[word] for word in ranked[:limit]]

    def affordable(self, terms: Sequence[str], n_texts: int, budget: int = MAX_FOUND) -> list[str]:
        """The terms whose search finds at most about `budget` of `n_texts` texts; never none."""
        scale = n_texts / max(1, self.n)
        out: list[str] = []
        cost = 0.0
        for term in terms:
            found = self.document_frequency.get(singular(term), 0) * scale
            if len(out) < _LEAST_TERMS or cost + found <= budget:
                out.append(term)
                cost += found
        return out

    def bm25(self, terms: Sequence[str], text: str) -> float:
        """Okapi bm25 of a `plain` text for the searched terms (k1 = 1.2, b = 0.75)."""
        norm = _K1 * (1 - _B + _B * text.count(" ") / self.mean_length)
        score = 0.0
        for term in terms:
            if f" {_stem(term)}" in text and (count := _occurrences(term, text)):
                score += self.weight(term) * count * (_K1 + 1) / (count + norm)
        return score


@lru_cache(maxsize=2_048)
def _counted(text: str) -> tuple[frozenset[str], int]:
    """(its words in the singular, how many words it has); kept while others are added."""
    words = _TERM.findall(text.lower())
    return frozenset(map(singular, words)), len(words)


def words_worth(text: str, spelled: dict[str, str] | None = None) -> Counter[str]:
    """How often a text has each word in the singular, numbers and stop words left out. `spelled` is filled
    with the first spelling of each."""
    counts: Counter[str] = Counter()
    for word in _TERM.findall(text):
        lower = word.lower()
        if lower in _STOP or lower.isdigit():
            continue
        counts[singular(lower)] += 1
        if spelled is not None:
            spelled.setdefault(singular(lower), lower)
    return counts


def plain(text: str) -> str:
    """Lower case, single blanks around every word, nothing else."""
    return f" {' '.join(_TERM.findall(text.lower()))} "


def shared_terms(terms: Sequence[str], text: str, limit: int = 3) -> tuple[str, ...]:
    """The first searched terms that a `plain` text holds."""
    return tuple(islice((term for term in terms if _occurrences(term, text)), limit))


@lru_cache(maxsize=65536)
def _stem(term: str) -> str:
    """The prefix that all counted spellings share."""
    one = singular(term)
    return one if term.startswith(one) else one[:-1]


def _occurrences(term: str, text: str) -> int:
    """As spelled, in the singular, and with an s: three searches in C."""
    return sum(text.count(f" {form} ") for form in {term, singular(term), singular(term) + "s"})
