"""Finds the part of a competition page that describes the task; drops timeline, prizes, rules and thanks.

Pages of competitions repeat the same administrative text, full of words (notebook, image, video, team,
paper) that would count as cues. Whole sections are left out by their heading, single sentences by what they
speak of.
"""

import html
import re
from collections.abc import Iterator

from memory_service.domain.description.phrases import SENTENCES, patterns, readable, sentences_of, words_of

_P = patterns("prose")

LONG_TEXT = 1_200
"""Characters from which a text is a page, with more in it than the task."""

_PLAIN_SECTION_SENTENCES = 25
_MARKDOWN_HEADING = re.compile(r"^(#{1,6})\s(.*)")
_BOLD_HEADING = re.compile(r"^\*\*([^*]{2,60})\*\*:?$")

OF_SETS = re.compile(
    r"\b(?:train\w*|test(?:s|ed|ing|_\w+)?|hidden|held[- ]?out|hold-?out|unseen|splits?|[\w-]{0,20}folds?"
    r"|leaderboard|(?<!, )validation|group by|predict|forecast(?!s|er)|you are to|rows?|judged|scored)\b"
    r"|\w\.(?:csv|json|npz|npy|parquet|txt|zip)\b",
    re.IGNORECASE,
)
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
    if match := _MARKDOWN_HEADING.match(line):
        return len(match[1]), match[2].strip(" #:")
    if match := _BOLD_HEADING.match(line):
        return 7, match[1]
    plain = line.strip().rstrip(":")
    short = len(plain) <= 40 and len(plain.split()) <= 4
    return (7, plain) if short and plain[:1].isupper() and plain.replace(" ", "").isalpha() else None


_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_HIDDEN = re.compile(r"<(/?)(?:pre|script|style)\b[^<>]{0,300}>", re.IGNORECASE)
_CELL_END = re.compile(r"</t[dh]\s?>", re.IGNORECASE)
_HEADING_TAG = re.compile(r"<h([1-6])\b[^<>]{0,300}>", re.IGNORECASE)
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,300}\]\((?:[^()\n]|\([^()\n]{0,200}\)){0,500}\)")
_LINK = re.compile(r"\[([^\[\]\n]{0,500})\](?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,500}\)|\[[^\[\]\n]{0,60}\])")
_ADDRESS = re.compile(r"<?\b(?:https?://|www\.)[^\s<>]{1,500}>?")
_ESCAPED = re.compile(r"\\([\\$%_*#&\[\](){}~.!|<>+-])")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,3}(?=[\w\"'(`])|(?<=[\w.,:;!?)\"'`%])\*{1,3}(?![\w*])|`")
_BOLD_LINE = re.compile(r"\*\*[^*]{2,60}\*\*:?")
_SEPARATOR = re.compile(r"[\s|:=_*-]*")
_COMMA_SEPARATED = re.compile(r"[^\s,]{1,200}(?:,[^\s,]{0,200}){1,400}")


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
    for tag in _HIDDEN.finditer(text):
        parts.append(text[start : tag.start()] if shown else "\n")
        shown, start = bool(tag[1]), tag.end()
    text = "".join([*parts, text[start:] if shown else ""])
    text = _HEADING_TAG.sub(lambda tag: "\n" + "#" * int(tag[1]) + " ", _CELL_END.sub(" | ", text))
    return html.unescape(_P["tag"].sub("", _P["block_tag"].sub("\n", text)))


def _lines(text: str) -> Iterator[str]:
    """Lines outside of code, with links as their texts; an unclosed fence hides nothing."""
    lines = text.splitlines()
    fences = [place for place, line in enumerate(lines) if _FENCE.match(line)]
    hidden: set[int] = set(fences)
    for first, last in zip(fences[::2], fences[1::2], strict=False):
        hidden.update(range(first, last))
    for place, line in enumerate(lines):
        if place in hidden:
            continue
        plain = _plain(line) if any(sign in line for sign in "[\\/*`") else line
        if not _COMMA_SEPARATED.fullmatch(plain.strip()):
            yield plain


def _plain(line: str) -> str:
    """A line without addresses, escapes and emphasis; bold lines are headings and stay bold."""
    told = _LINK.sub(r"\1", _LINK.sub(r"\1", _PICTURE.sub(" ", line)))
    told = _ESCAPED.sub(r"\1", _ADDRESS.sub(" ", told))
    return told if _BOLD_LINE.fullmatch(told.strip()) else _EMPHASIS.sub("", told)


def _rows_told(lines: Iterator[str]) -> Iterator[str]:
    """Rows of tables as sentences, other lines as they are."""
    table: list[list[str]] = []
    for line in [*lines, ""]:
        if "|" in line:
            if not _SEPARATOR.fullmatch(line):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        yield from _told(table)
        table = []
        if line and not _SEPARATOR.fullmatch(line):
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
