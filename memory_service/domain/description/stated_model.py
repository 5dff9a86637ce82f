"""What a description wants trained: "Train efficientnet-b4 at 380 on two T4s"; and whether it can be fetched.

Pages name many models: one is wanted only behind a verb that opens a clause, or where a text opens with it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from memory_service.domain.description.phrases import patterns, readable, sentences_of

_P = patterns("stated_model")

_MOST_WORDS = 3
_LEAST_SIDE, _MOST_SIDE = 32, 2048


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
    while not _P["not"].search(sentence[max(0, start - 40) : start]) and _P["word"].match(sentence, start):
        name, words = _spelled(sentence, start, listed)
        end = start + len(words)
        named = _P["like_a_model"].fullmatch(words) and _P["trains"].search(
            sentence[max(0, first - 40) : first]
        )
        if name is None and (start == 0 or joined or not named):
            return
        if first == start == 0 and not _P["opens"].match(sentence[end:]):
            return
        side = _P["side"].match(sentence[end : end + 100])
        size = int(side["side"] or side["pixels"]) if side else 0
        fits = _LEAST_SIDE <= size <= _MOST_SIDE
        yield StatedModel(name, words, *((size, side["at"] or side["px"]) if side and fits else (0, "")))
        another = _P["another"].match(sentence, end)
        if another is None:
            return
        start, joined = another.end(), True


def _spelled(sentence: str, start: int, listed: Callable[[str], str | None]) -> tuple[str | None, str]:
    words = [match[0] for match in _P["word"].finditer(sentence[start : start + 120])][:_MOST_WORDS]
    for count in range(len(words), 0, -1):
        said = " ".join(words[:count]).rstrip(".")
        if sentence.startswith(said, start) and (name := listed(said)) and _P["sized"].search(name):
            return name, said
    return None, words[0].rstrip(".")


def offline_words(text: str) -> str | None:
    """The words that say that nothing can be fetched while it trains."""
    for sentence in sentences_of(readable(text)):
        found = _P["offline"].search(sentence) or (
            _P["machine"].search(sentence) and _P["without"].search(sentence)
        )
        if found:
            return found[0]
    return None
