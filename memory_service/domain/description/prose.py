"""Finds the part of a competition page that describes the task; drops timeline, prizes, rules and thanks.

Pages of competitions repeat the same administrative text, full of words (notebook, image, video, team,
paper) that would count as cues. Whole sections are left out by their heading, single sentences by what they
speak of.
"""

import re

from memory_service.domain.description.cues import SENTENCES
from memory_service.domain.description.page import prose_of
from memory_service.domain.description.phrases import readable, sentences_of, words_of

LONG_TEXT = 1_200
"""Characters from which a text is a page, with more in it than the task."""

_PLAIN_SECTION_SENTENCES = 25
_MARKDOWN_HEADING = re.compile(r"^(#{1,6})\s(.*)")
_BOLD_HEADING = re.compile(r"^\*\*([^*]{2,60})\*\*:?$")
_ADMINISTRATIVE = re.compile(
    r"\b(?:time ?line|important dates|deadlines?|prizes?|awards?|code requirements?|citations?|cite|"
    r"acknowledge?ments?|rules|faq|frequently asked|sponsors?|about (?:the )?(?:host|organi[sz]ers?|us|"
    r"kaggle|nfl|rsna|siim|[A-Z]\w+)|hosts?|team (?:limits?|merg\w+)|getting started|tutorials?|starter|"
    r"resources|contact|terms|licen[sc]es?|references|hackathon|conference|hardware|organi[sz]ers?|credits?|"
    r"thanks|support|eligibility|winners?|points|how to participate|register|kernels?[- ]only|code "
    r"competition|submission limits?|collaboration|travel|workshop|partners?|foundation|institutions?|"
    r"contributors?)\b",
    re.IGNORECASE,
)
_INFORMATIVE = re.compile(
    r"\b(?:overview|description|evaluation|metric|scoring|submission (?:file|format)|data(?:set)?|files?|"
    r"columns?|fields?|task|goal|objective|problem|training|test|labels?|annotations?|features?|format|"
    r"background|introduction|context|what|details?|classes)\b",
    re.IGNORECASE,
)


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
            administrative = bool(_ADMINISTRATIVE.search(title)) and not _INFORMATIVE.search(title)
            if administrative:
                skipping_level = min(level, skipping_level) if skipping_level else level
                skipped = 0
            elif skipping_level and (level <= skipping_level or _INFORMATIVE.search(title)):
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
