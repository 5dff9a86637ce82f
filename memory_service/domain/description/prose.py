"""Finds the part of a competition page that describes the task; drops timeline, prizes, rules and thanks.

Pages of competitions repeat the same administrative text, full of words (notebook, image, video, team,
paper) that would count as cues. Whole sections are left out by their heading, single sentences by what they
speak of.
"""

import html
from collections.abc import Iterator

from memory_service.domain.description.phrases import SENTENCES, patterns, readable, sentences_of, words_of

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
