"""Counts listed phrases in a text, in time linear in the text.

Words are lower-cased, split at punctuation, underscores and CamelCase (`EncodedPixels` is "encoded
pixels"), and read in the singular, so that a table of phrases stays plain.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

from memory_service.domain.common.tables import shipped_table, with_parts

Key = TypeVar("Key", bound=Hashable)

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<![Mm]ax\.)\s+(?=[A-Z0-9\"'(*#\[-]|\w{1,40}\.(?:csv|json|zip|tar|parquet|npy)\b)|\n+"
)
READ_CHARACTERS = 16_000
"""Of a longer text the beginning is read: pages state their task in the first ones."""

MOST_OF_A_WORD, MOST_OF_A_SENTENCE = 200, 1_000
"""Longer words are sequences, encodings and links, longer sentences tables: no part of either is prose."""

_KEEPS_ITS_S = ("ss", "us", "is", "ous", "ics")


def readable(text: str) -> str:
    """The text as patterns meet it, of every caller: its first `READ_CHARACTERS`, one space between words,
    none at the ends of lines, no empty line, words cut to `MOST_OF_A_WORD`."""
    lines = (line.split() for line in text.splitlines())
    cut = (" ".join(word[:MOST_OF_A_WORD] for word in line) for line in lines if line)
    return "\n".join(cut)[:READ_CHARACTERS]


@lru_cache(maxsize=65536)
def singular(word: str) -> str:
    """A rough singular of a lower-case word; the same rule is used for tables and for texts."""
    if len(word) <= 3 or not word.endswith("s") or word.endswith(_KEEPS_ITS_S):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]


def words_of(text: str) -> list[str]:
    """The normalised words of a text, in order."""
    return [singular(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text))]


def sentences_of(text: str) -> list[str]:
    """The sentences and lines of a text, blank ones left out, in order; those of more than
    `MOST_OF_A_SENTENCE` characters in pieces, so that work within a sentence has a bound."""
    return [piece for raw in _SENTENCE_END.split(text) for piece in _pieces(raw.strip())]


def _pieces(sentence: str) -> Iterator[str]:
    while len(sentence) > MOST_OF_A_SENTENCE:
        end = sentence.rfind(" ", 1, MOST_OF_A_SENTENCE)
        end = end if end > 0 else MOST_OF_A_SENTENCE
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence


class PhraseTable(Generic[Key]):
    """Phrases, each with the keys it stands for; `count` finds all of them in one pass."""

    def __init__(self, phrases: Mapping[str, Iterable[Key]]) -> None:
        self._by_first: dict[str, list[tuple[tuple[str, ...], str, tuple[Key, ...]]]] = {}
        for phrase, keys in phrases.items():
            words = tuple(words_of(phrase))
            self._by_first.setdefault(words[0], []).append((words, phrase, tuple(keys)))
        for entries in self._by_first.values():
            entries.sort(key=lambda entry: -len(entry[0]))

    def find(self, words: list[str]) -> Iterator[tuple[int, str, Key]]:
        """(position, phrase, key) of each occurrence; where phrases with the same key begin at one word,
        the longest."""
        for start, word in enumerate(words):
            entries = self._by_first.get(word)
            if entries is None:
                continue
            seen: set[Key] = set()
            for phrase_words, phrase, keys in entries:
                length = len(phrase_words)
                if length > 1 and tuple(words[start : start + length]) != phrase_words:
                    continue
                for key in keys:
                    if key not in seen:
                        seen.add(key)
                        yield start, phrase, key


def phrases_listed(text: str) -> PhraseTable[bool]:
    """A table of phrases that are told from no others, of a list with commas."""
    return PhraseTable({" ".join(phrase.split()): [True] for phrase in text.split(",")})


_CUES = shipped_table(__package__, "cues.toml")
INPUT_CUES: Mapping[str, Mapping[str, str]] = _CUES["input"]
ANSWER_CUES: Mapping[str, Mapping[str, str]] = _CUES["answer"]
"""Kind -> weight -> phrases with commas between them."""

INPUT_PRIOR = {"tabular": 1.5}
"""A description that names no kind of data is nearly always of a table."""

ANSWER_PRIOR = {"class": 1.5, "value": 0.5}
"""One that names no kind of answer nearly always asks for a class."""

TASK_OF: dict[tuple[str, str], str] = {
    (given, answer): task for pair, task in _CUES["tasks"].items() for given, answer in [pair.split()]
}

SENTENCES = {kind: phrases_listed(listed) for kind, listed in _CUES["sentences"].items()}
"""Kind of sentence -> phrases that make it one. A `goal` says what the task is, rather than why it matters:
its cues count double."""

SMALL_WORDS: Mapping[str, str] = _CUES["small_words"]


_PATTERNS = shipped_table(__package__, "patterns.toml")


def patterns(section: str, **parts: str) -> dict[str, re.Pattern[str]]:
    """Those of a section of `patterns.toml` by name, with its parts and these put in."""
    known = parts | {name: text.replace("\n", "") for name, text in _PATTERNS[section].items()}
    return {name: re.compile(with_parts(known[name], known), re.IGNORECASE) for name in _PATTERNS[section]}
