"""Prose of a page in Markdown or HTML: paragraphs, list items and tables, without code and addresses.

Sample submissions, addresses, file names of pictures and formulas are full of numbers that count nothing.
The text of a link stays; a row of a table becomes a sentence ("train: 8,420 images, 310 patients").
"""

import html
import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_HIDDEN = re.compile(r"<(/?)(?:pre|script|style)\b[^<>]{0,300}>", re.IGNORECASE)
_CELL_END = re.compile(r"</t[dh]\s?>", re.IGNORECASE)
_HEADING_TAG = re.compile(r"<h([1-6])\b[^<>]{0,300}>", re.IGNORECASE)
_BLOCK_TAG = re.compile(
    r"</?(?:p|br|li|ul|ol|tr|div|h[1-6]|table|thead|tbody|section|blockquote|hr)\b[^<>]{0,300}>",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"</?(?:a|b|i|u|em|strong|span|code|td|th|img|sup|sub|font|center|figure|small)\b[^<>]{0,500}>",
    re.IGNORECASE,
)
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,300}\]\((?:[^()\n]|\([^()\n]{0,200}\)){0,500}\)")
_LINK = re.compile(r"\[([^\[\]\n]{0,500})\](?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,500}\)|\[[^\[\]\n]{0,60}\])")
_ADDRESS = re.compile(r"<?\b(?:https?://|www\.)[^\s<>]{1,500}>?")
_ESCAPED = re.compile(r"\\([\\$%_*#&\[\](){}~.!|<>+-])")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,3}(?=[\w\"'(`])|(?<=[\w.,:;!?)\"'`%])\*{1,3}(?![\w*])|`")
_BOLD_LINE = re.compile(r"\*\*[^*]{2,60}\*\*:?")
_SEPARATOR = re.compile(r"[\s|:=_*-]*")
_COMMA_SEPARATED = re.compile(r"[^\s,]{1,200}(?:,[^\s,]{0,200}){1,400}")


def prose_of(text: str) -> str:
    """The lines of a page that say something in words; a plain text stays as it is."""
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
    return html.unescape(_TAG.sub("", _BLOCK_TAG.sub("\n", text)))


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
