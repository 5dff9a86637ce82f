"""GPU and time limit that a description states: "GPU Notebook <= 9 hours run-time", "on a T4 in 30 minutes".

Conservative: two different GPUs, or two different limits of which not exactly one is the GPU's, mean that
neither is known. Short names that also mean something else (T4, L4, A10) need a word of hardware beside them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memory_service.domain.description.phrases import sentences_of
from memory_service.domain.hardware.gpu_names import normal_gpu_name

MOST_READ = 20_000
"""Characters: the resources of a competition stand in its first sections."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_MODEL = re.compile(r"(?=.*\d)(?=.*[a-z]).*")
"""A name like "3090" alone is as likely a number of rows."""

_MOST_WORDS = 4
_SHORT = 3
_HARDWARE = re.compile(
    r"\b(?:gpus?|nvidia|tesla|cards?|accelerators?|notebooks?|kaggle|colab|cuda|vram)\b"
    r"|\b(?:on|have|with|using|own) (?:an?|one|the|two|my)\b|\d\s?[x×]\s?$|^\s?[x×]\s?\d",
    re.IGNORECASE,
)
_COUNT_BEFORE = re.compile(r"\b(\d)\s?[x×]\s?$", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"^\s?[x×]\s?(\d)\b|^\s?\(x(\d)\)", re.IGNORECASE)

_SPAN = re.compile(
    r"\b(?P<n>\d{1,4}(?:\.\d+)?|half an|an|one|two|three|four|five|six|nine|twelve)[\s-]?"
    r"(?P<unit>hours?|hrs?|h|minutes?|mins?)\b",
    re.IGNORECASE,
)
_NUMBERS = {
    "half an": 0.5, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "nine": 9,
    "twelve": 12,
}  # fmt: skip
_LIMIT_BEFORE = re.compile(
    r"(?:<=?|≤|\bat most|\bup to|\bwithin|\bunder|\b(?:no|not) (?:more|longer) than|\bless than"
    r"|\bmax(?:imum)?(?: of)?|\blimit(?:ed)?(?: is| of| to)?:?|\bbudget(?: is| of)?:?|\b(?:i|we|you) have)"
    r"(?: about| only| just| a)*\s*$",
    re.IGNORECASE,
)
_LIMIT_BEHIND = re.compile(
    r"^\s*(?:of )?(?:run-?\s?time|time limit|limit|budget|(?:of )?(?:compute|training|gpu)|to train)",
    re.IGNORECASE,
)
_WEAK_BEFORE = re.compile(r"\b(?:in|for|with|and)(?: about| only| just)?\s*$|^\W*$|[,;:(]\s*$", re.IGNORECASE)
_WEAK_BEHIND = re.compile(r"^\s*(?:on|with|of) (?:an?|one|two|the|my|our|\d)\b", re.IGNORECASE)
"""Beside a card a span of time is the limit: "two hours on a T4", "one A100, 30 minutes"."""
_OF_DATA = re.compile(
    r"\b(?:next|last|past|previous|every|each|per|of|after|before|ahead)\s*$", re.IGNORECASE
)


def resources_in(text: str, gpus: Mapping[str, str]) -> dict[str, Any]:
    """`{"gpu": slug, "minutes": float}` as far as the text says so; two of a card are "2xt4".

    gpus   normalised name of a GPU model -> its slug
    """
    cards: set[str] = set()
    limits: set[tuple[float, bool]] = set()
    for sentence in sentences_of(text[:MOST_READ]):
        here = _cards_in(sentence, gpus)
        cards |= here
        limits |= {(minutes, near) for minutes, near in _limits_in(sentence, on_gpu=bool(here))}
    of_gpu = {minutes for minutes, near in limits if near}
    minutes = of_gpu if len(of_gpu) == 1 else {minutes for minutes, _ in limits}
    found: dict[str, Any] = {"gpu": cards.pop()} if len(cards) == 1 else {}
    return found | ({"minutes": minutes.pop()} if len(minutes) == 1 else {})


def _cards_in(sentence: str, gpus: Mapping[str, str]) -> set[str]:
    words = list(_WORD.finditer(sentence))
    found, place = set(), 0
    while place < len(words):
        for last in range(min(place + _MOST_WORDS, len(words)), place, -1):
            start, end = words[place].start(), words[last - 1].end()
            name = normal_gpu_name(sentence[start:end])
            slug = gpus.get(name) if _MODEL.fullmatch(name) else None
            if slug is None:
                continue
            before, behind = sentence[:start], sentence[end:]
            if len(name) > _SHORT or _HARDWARE.search(before[-25:]) or _HARDWARE.search(behind[:12]):
                count = _COUNT_BEFORE.search(before) or _COUNT_BEHIND.search(behind)
                n = next(filter(None, count.groups()), "1") if count else "1"
                found.add(slug if n in "01" else f"{n}x{slug}")
                place = last - 1
            break
        place += 1
    return found


def _limits_in(sentence: str, *, on_gpu: bool) -> set[tuple[float, bool]]:
    """(minutes, whether the GPU's) of spans of time that are said to be a limit."""
    found = set()
    for span in _SPAN.finditer(sentence):
        before, behind = sentence[: span.start()], sentence[span.end() :]
        weak = on_gpu and (_WEAK_BEFORE.search(before) or _WEAK_BEHIND.search(behind))
        limit = (weak and not _OF_DATA.search(before)) or _LIMIT_BEFORE.search(before)
        if not (limit or _LIMIT_BEHIND.search(behind)):
            continue
        given = span["n"].lower()
        number = float(_NUMBERS[given]) if given in _NUMBERS else float(given)
        minutes = number * (60.0 if span["unit"][0] in "hH" else 1.0)
        if minutes > 0:
            clause = before[max(before.rfind(";"), before.rfind(",")) + 1 :][-40:]
            found.add((minutes, on_gpu or "gpu" in clause.lower()))
    return found
