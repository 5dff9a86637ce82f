"""Counts listed phrases in a text, in time linear in the text.

Words are lower-cased, split at punctuation, underscores and CamelCase (`EncodedPixels` is "encoded
pixels"), and read in the singular, so that a table of phrases stays plain.

Of a page, timeline, prizes, rules and thanks are left out: whole sections by their heading, single sentences
by what they speak of. They are full of words (notebook, image, video, team) that would count as cues.
"""

import html
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


_P = patterns("prose")

LONG_TEXT = 1_200
"""Characters from which a text is a page, with more in it than the task."""

_PLAIN_SECTION_SENTENCES = 25

OF_SETS = _P["of_sets"]
"""In what a page says of its rows and sets, and not in its story, its prizes or its earlier editions."""


def task_sentences(text: str) -> list[str]:
    """The sentences, list items and rows of tables that can tell the task, in order.

    If everything looks administrative, everything is given back.
    """
    text = prose_of(readable(text))
    sentences = sentences_of(text)
    long = len(text) >= LONG_TEXT
    selected: list[str] = []
    skipping_level = 0
    skipped = 0
    for sentence in sentences:
        heading = _heading(sentence)
        if heading is not None:
            level, title = heading
            administrative = bool(_P["administrative"].search(title)) and not _P["informative"].search(title)
            if administrative:
                skipping_level = min(level, skipping_level) if skipping_level else level
                skipped = 0
            elif skipping_level and (level <= skipping_level or _P["informative"].search(title)):
                skipping_level = 0
        if skipping_level:
            skipped += 1
            if skipping_level < 7 or skipped <= _PLAIN_SECTION_SENTENCES:
                continue
            skipping_level = 0
        if not long or next(iter(SENTENCES["administrative"].find(words_of(sentence))), None) is None:
            selected.append(sentence)
    return selected or sentences


def _heading(line: str) -> tuple[int, str] | None:
    """(level, title) of a heading: 1-6 in Markdown, 7 for a bold or plain line that reads like one."""
    if match := _P["markdown_heading"].match(line):
        return len(match[1]), match[2].strip(" #:")
    if match := _P["bold_heading"].match(line):
        return 7, match[1]
    plain = line.strip().rstrip(":")
    short = len(plain) <= 40 and len(plain.split()) <= 4
    return (7, plain) if short and plain[:1].isupper() and plain.replace(" ", "").isalpha() else None


def prose_of(text: str) -> str:
    """The lines of a page in Markdown or HTML that say something in words; a plain text stays as it is.

    Sample submissions, addresses, file names of pictures and formulas are full of numbers that count nothing.
    The text of a link stays; a row of a table becomes a sentence ("train: 8,420 images, 310 patients").
    """
    if "<" in text:
        text = _without_tags(text)
    return "\n".join(_rows_told(_lines(text)))


def _without_tags(text: str) -> str:
    parts, shown, start = [], True, 0
    for tag in _P["hidden"].finditer(text):
        parts.append(text[start : tag.start()] if shown else "\n")
        shown, start = bool(tag[1]), tag.end()
    text = "".join([*parts, text[start:] if shown else ""])
    text = _P["heading_tag"].sub(lambda tag: "\n" + "#" * int(tag[1]) + " ", _P["cell_end"].sub(" | ", text))
    return html.unescape(_P["tag"].sub("", _P["block_tag"].sub("\n", text)))


def _lines(text: str) -> Iterator[str]:
    """Lines outside of code, with links as their texts; an unclosed fence hides nothing."""
    lines = text.splitlines()
    fences = [place for place, line in enumerate(lines) if _P["fence"].match(line)]
    hidden: set[int] = set(fences)
    for first, last in zip(fences[::2], fences[1::2], strict=False):
        hidden.update(range(first, last))
    for place, line in enumerate(lines):
        if place in hidden:
            continue
        plain = _plain(line) if any(sign in line for sign in "[\\/*`") else line
        if not _P["comma_separated"].fullmatch(plain.strip()):
            yield plain


def _plain(line: str) -> str:
    """A line without addresses, escapes and emphasis; bold lines are headings and stay bold."""
    told = _P["link"].sub(r"\1", _P["link"].sub(r"\1", _P["picture"].sub(" ", line)))
    told = _P["escaped"].sub(r"\1", _P["address"].sub(" ", told))
    return told if _P["bold_line"].fullmatch(told.strip()) else _P["emphasis"].sub("", told)


def _rows_told(lines: Iterator[str]) -> Iterator[str]:
    """Rows of tables as sentences, other lines as they are."""
    table: list[list[str]] = []
    for line in [*lines, ""]:
        if "|" in line:
            if not _P["separator"].fullmatch(line):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        yield from _told(table)
        table = []
        if line and not _P["separator"].fullmatch(line):
            yield line


def _told(table: list[list[str]]) -> Iterator[str]:
    """ "train: 8,420 images, 310 patients": the first cell of a row, then the others with column names."""
    if len(table) < 2 or any(cell[:1].isdigit() for cell in table[0]):
        yield from (" | ".join(row) for row in table)
        return
    header = table[0]
    for row in table[1:]:
        cells = [f"{cell} {name}".strip() for cell, name in zip(row[1:], header[1:], strict=False) if cell]
        yield f"{row[0]}: {', '.join(cells)}" if cells else row[0]
