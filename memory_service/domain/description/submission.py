"""The form of a submission, as a page tells or shows it: columns, what stands between them, an answer."""

import re
from collections.abc import Sequence

from memory_service.domain.description.phrases import patterns, sentences_of
from memory_service.domain.description.stated_split import Stated

_P = patterns("submission")
_MARKS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "bar": "|", "space": " ", "blank": " "}
_PASSAGE = 14
"""Sentences and lines, behind one that speaks of a submission, in which its form is told."""

_QUOTES = "`\"'“”* "
BETWEEN, NO_HEADER = " / ", "no header"
"""What stands between lines of the fact, and the line of names where there is to be none."""


def submission_in(text: str) -> Stated:
    """submission: the line of names and, where shown, one of answers: "file,angle / x.png,3.2"; without a
    line of names "no header / id,class"."""
    lines = sentences_of(_P["code_tag"].sub("`", _P["block"].sub("\n", text)))
    for place, line in enumerate(lines):
        if not _P["submits"].search(line) or _P["of_data"].search(line):
            continue
        passage = [line]
        for each in lines[place + 1 : place + _PASSAGE]:
            if _P["heading"].match(each) or _P["of_data"].search(each):
                break
            passage.append(each)
        if form := _form_of(passage):
            return {"submission": (BETWEEN.join(form), " ".join(passage)[:200])}
    return {}


def _form_of(passage: Sequence[str]) -> list[str]:
    """The lines of the fact; none where nothing is told."""
    prose = "\n".join(passage)
    told = _P["mark"].search(prose)
    mark = _MARKS[next(filter(None, told.groups()), "tab").lower()] if told else ""
    (rows, mark), bare = _shown(passage, mark), bool(_P["no_header"].search(prose))
    if any(re.fullmatch(r"\.{2,3}|…", cell) for row in rows for cell in row):
        return []  # how many there are is not shown
    bare |= len(rows) > 1 and _shape(rows[0]) == _shape(rows[1]) != rows[0][0]
    names, answers = (rows[0], rows[1:2]) if rows and not bare else (_named(passage), rows[:1])
    if not bare and any(_P["no_name"].fullmatch(cell) for cell in names):
        return []
    if bare:
        names = answers[0] if answers else names
        answers = []
    written = [mark.join(row) for row in (names, *answers) if row]
    return [*([NO_HEADER] if bare else []), *written] if names else []


def _shape(row: Sequence[str]) -> str:
    """img_001.png and img_002.png have the same: neither is a name of a column."""
    return re.sub(r"\d+", "0", row[0])


def _shown(passage: Sequence[str], mark: str) -> tuple[list[list[str]], str]:
    """(two rows of as many cells, one below the other, the mark between cells); none of a line alone."""
    rows: list[list[str]] = []
    for line in passage[1:]:
        if _P["fence"].match(line) or _P["ruled"].fullmatch(line):
            continue
        ruled = _P["table_row"].fullmatch(line.strip())
        sign = "|" if ruled else mark.strip() or next((each for each in ";,|" if each in line), mark or "\0")
        sign = sign if ruled or sign in line or not mark.isspace() else " "  # what is shown goes before words
        cells = (ruled[1] if ruled else line).split(sign)
        cells = [cell.strip(" `*") for cell in cells]
        fits = len(cells) > 1 and all(_P["cell"].fullmatch(cell) for cell in cells)
        rows = rows if fits and rows and len(cells) == len(rows[0]) else []
        rows += [cells] if fits else []
        if len(rows) == 2:
            return rows, (mark or ",") if ruled else sign
    return [], mark or ","


def _named(passage: Sequence[str]) -> list[str]:
    """Names of columns that a sentence on submissions, or the one behind it, lists, or of what it says that a
    line has."""
    before = ""
    for sentence in passage:
        near = before if _P["form"].search(before) else ""
        before = sentence if _P["submits"].search(sentence) else ""
        if not (before or near):
            continue
        for match in _P["listed"].finditer(re.sub(r"\(\d\) ", "", sentence)):
            tokens = _P["token"].findall(re.sub(r"\([^()]{0,80}\)", " ", match["names"]))
            quoted = [each for each in tokens if not (each[0].isalpha() or each[0] == "_")]
            if not quoted and match[0].lower().startswith("format") and not re.search(r"\w,\w", match[0]):
                continue
            names = [each for token in quoted or tokens for each in re.split("[,;|\t]", token.strip(_QUOTES))]
            names = [each.strip(" .") for each in names if not _P["file"].search(each)]
            if len(names) > 1 and not _P["beside"].search(sentence[: match.start()]):
                return names
            if quoted and names and _P["one"].search(sentence[: match.end("names")]):
                return names
        if of_line := _P["line_has"].search(sentence):
            return [re.findall(r"\w+", of_line[part])[-1] for part in ("first", "last")]
        if _P["one_a_line"].search(sentence):
            return ["answer"]
    return []
