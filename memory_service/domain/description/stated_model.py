"""What a description wants trained: "Train efficientnet-b4 at 380 on two T4s"; and whether it can be fetched.

Pages name many models: one is wanted only behind a verb that opens a clause, or where a text opens with it.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from memory_service.domain.description.phrases import patterns, readable, sentences_of

_P = patterns("stated_model")

_MOST_WORDS = 3
_WORD = re.compile(r"[A-Za-z0-9][\w./-]{0,80}")
_TRAINS = re.compile(r"(?:train|tun)(?:e|ing)?\s(?:\w+ |pre-?trained ){0,3}$", re.IGNORECASE)
_NOT = re.compile(r"(?:\bnot|\bnever|n't|n’t|\bwithout|\bavoid)\b[^,;]{0,20}$", re.IGNORECASE)
_OPENS = re.compile(r"\s?(?:,|$|(?:on|at|with|for)\b)")
"""Behind a model that a text opens with."""
_SIZED = re.compile(r"[\d_/]|^(?:lightgbm|xgboost|catboost)$")
"""Names of one network; others are of a family."""
_LIKE_A_MODEL = re.compile(r"[A-Za-z]{3,20}[A-Za-z_-]{0,20}\d[\w-]{0,20}")
_ANOTHER = re.compile(r"\s?(?:,|and|or|\+|/|vs\.?|against|plus)\s?(?:an? )?", re.IGNORECASE)
_LEAST_SIDE, _MOST_SIDE = 32, 2048


_WITHOUT = re.compile(r"\b(?:no|without(?: an| any)?) internet(?: access| connection)?\b", re.IGNORECASE)


class StatedModel(NamedTuple):
    """name: of the catalogue, None where it has no such model; words: of the text; size: of its input,
    0 where none stands beside it, with its words."""

    name: str | None
    words: str
    size: int = 0
    size_words: str = ""


def models_in(text: str, listed: Callable[[str], str | None]) -> list[StatedModel]:
    """The models that the text wants trained, each once.

    listed   name of the catalogue that words spell exactly; None
    """
    found: dict[str, StatedModel] = {}
    for place, sentence in enumerate(sentences_of(readable(text))):
        starts = [match.end() for match in _P["verb"].finditer(sentence)]
        for start in starts if place else [0, *starts]:
            for model in _listed_from(sentence, start, listed):
                found.setdefault(model.name or model.words, model)
    known = [model for model in found.values() if model.name is not None]
    return known or list(found.values())


def _listed_from(sentence: str, start: int, listed: Callable[[str], str | None]) -> Iterator[StatedModel]:
    """The model that begins there, and those that are joined to it: "efficientnet-b4 and convnext_base"."""
    first, joined = start, False
    while not _NOT.search(sentence[max(0, start - 40) : start]) and _WORD.match(sentence, start):
        name, words = _spelled(sentence, start, listed)
        end = start + len(words)
        named = _LIKE_A_MODEL.fullmatch(words) and _TRAINS.search(sentence[max(0, first - 40) : first])
        if name is None and (start == 0 or joined or not named):
            return
        if first == start == 0 and not _OPENS.match(sentence[end:]):
            return
        side = _P["side"].match(sentence[end : end + 100])
        size = int(side["side"] or side["pixels"]) if side else 0
        fits = _LEAST_SIDE <= size <= _MOST_SIDE
        yield StatedModel(name, words, *((size, side["at"] or side["px"]) if side and fits else (0, "")))
        another = _ANOTHER.match(sentence, end)
        if another is None:
            return
        start, joined = another.end(), True


def _spelled(sentence: str, start: int, listed: Callable[[str], str | None]) -> tuple[str | None, str]:
    words = [match[0] for match in _WORD.finditer(sentence[start : start + 120])][:_MOST_WORDS]
    for count in range(len(words), 0, -1):
        said = " ".join(words[:count]).rstrip(".")
        if sentence.startswith(said, start) and (name := listed(said)) and _SIZED.search(name):
            return name, said
    return None, words[0].rstrip(".")


def offline_words(text: str) -> str | None:
    """The words that say that nothing can be fetched while it trains."""
    for sentence in sentences_of(readable(text)):
        found = _P["offline"].search(sentence) or (
            _P["machine"].search(sentence) and _WITHOUT.search(sentence)
        )
        if found:
            return found[0]
    return None
