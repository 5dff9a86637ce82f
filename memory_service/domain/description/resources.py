"""GPU, time limit and model that a description states: "GPU Notebook <= 9 hours run-time", "two T4s, 1h30",
"Train efficientnet-b4 at 380"; and whether weights can be fetched.

Conservative: two different GPUs, or two different limits of which not exactly one is the GPU's, mean that
neither is known. Short names that also mean something else (T4, L4, A10) need a word of hardware, a count or
a span of time beside them. Pages name many models: one is wanted only behind a verb that opens a clause, or
where a text opens with it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import patterns, readable, sentences_of
from memory_service.domain.description.quantities import NUMBER_WORD, number_of_words
from memory_service.domain.hardware.gpu_spec import normal_gpu_name

_NEAR = 120
"""Characters about a card or a span of time that tell what it is."""

_MOST_WORDS = 4
_SHORT = 3


_COUNTS = {"dual": 2, "twin": 2, "quad": 4}
_NUMBERS = shipped_table(__package__, "resources.toml")["numbers"]
_OTHERS = {word: float(value) for value, words in _NUMBERS.items() for word in words.split()}
_P = patterns(
    "resources",
    counts="|".join(_COUNTS),
    number_word=NUMBER_WORD,
    others="|".join(sorted(_OTHERS, key=len, reverse=True)),
)


def cores_in(text: str) -> int | None:
    """How many cores the text gives a machine, where a sentence on machines or time says one number."""
    told = (
        each
        for each in sentences_of(readable(text))
        if _P["span"].search(each) or _P["hardware"].search(each)
    )
    said = {_count(match[1]) for sentence in told for match in _P["cores"].finditer(sentence)}
    return said.pop() if len(said) == 1 else None


class _Card(NamedTuple):
    """One that a sentence names, at these characters; gib: the memory that stands behind it, 0 = none."""

    gpu: str
    start: int
    end: int
    gib: int = 0


def resources_in(text: str, gpus: Mapping[str, str]) -> dict[str, Any]:
    """`{"gpu": slug, "minutes": float, "vram_gib": int}` as far as the text says so; two of a card are
    "2xt4", none is "cpu".

    gpus   normalised name of a GPU model -> its slug
    """
    cards: set[str] = set()
    memory: set[int] = set()
    limits: set[tuple[float, int]] = set()
    sentences = sentences_of(readable(text))
    for sentence in sentences:
        here = _cards_in(sentence, gpus)
        cards |= {card.gpu for card in here}
        memory |= {card.gib for card in here if card.gib}
        limits |= _limits_in(sentence, here)
    if not cards:
        alone = [
            sentence
            for sentence in sentences
            if (others := _P["processor"].sub("", sentence)) != sentence
            and not ("gpu" in others.lower() or _P["of_rules"].search(sentence))
        ]
        cards |= {"cpu" for _ in alone}
        limits |= {limit for each in alone for limit in _limits_in(each, [_Card("cpu", 0, 0)])}
    closest = max((of for _, of in limits), default=0)
    minutes = {minutes for minutes, of in limits if of == closest}
    found: dict[str, Any] = {"gpu": cards.pop()} if len(cards) == 1 else {}
    if found and len(memory) == 1:
        found["vram_gib"] = memory.pop()
    return found | ({"minutes": minutes.pop()} if len(minutes) == 1 else {})


def cards_in(text: str, gpus: Mapping[str, str]) -> list[str]:
    """Slugs of all cards that the text names, two of one as "2xt4"."""
    named = (card.gpu for each in sentences_of(readable(text)) for card in _cards_in(each, gpus))
    return list(dict.fromkeys(named))


def _cards_in(sentence: str, gpus: Mapping[str, str]) -> list[_Card]:
    words = list(_P["word"].finditer(sentence))
    found: list[_Card] = []
    place = 0
    while place < len(words):
        for last in range(min(place + _MOST_WORDS, len(words)), place, -1):
            start, end = words[place].start(), words[last - 1].end()
            named = _named(sentence[start:end], gpus)
            if named is None:
                continue
            slug, n, sure = named
            before, behind = sentence[max(0, start - _NEAR) : start], sentence[end : end + _NEAR]
            count = _P["count_before"].search(before)
            n = n or (_count(count[1]) if count else 0)
            after = _P["count_behind"].match(behind)
            n = n or (int(after[1] or after[2]) if after else 1)
            joined = bool(found) and sentence[found[-1].end : start].strip(" ,/").lower() in ("or", "and", "")
            counted = n > 1 and (bool(named[1]) or sentence[end - 1] == "s")
            if sure or counted or joined or _of_hardware(sentence, start, end):
                said, memory = slug if n <= 1 else f"{n}x{slug}", _P["memory"].match(behind)
                gib = int(memory[1]) if memory else 0
                found.append(_Card(said, start - len(before) + count.start() if count else start, end, gib))
                place = last - 1
            break
        place += 1
    return found


def _named(words: str, gpus: Mapping[str, str]) -> tuple[str, int, bool] | None:
    """(slug, how many the words themselves count, whether nothing else is called so) of a card's name."""
    name, n = normal_gpu_name(words), 0
    if name not in gpus and (parts := _P["count_within"].fullmatch(name)) and parts[2] in gpus:
        name, n = parts[2], int(parts[1] or parts[3] or 0)
    plural = words.endswith("s") and name[:-1] in gpus and (name not in gpus or not words.islower())
    name = name[:-1] if plural else name
    if name not in gpus or not re.search(r"\d", name):
        return None
    bare = name.isdigit()
    return gpus[name], n, len(name) > _SHORT and not bare


def _of_hardware(sentence: str, start: int, end: int) -> bool:
    """Whether a short name, or a number, is a card's where it stands."""
    before, behind = sentence[max(0, start - _NEAR) : start], sentence[end : end + _NEAR]
    name = sentence[start:end]
    if name.isdigit():
        return bool(_P["bare"].search(before) and _P["bare_behind"].match(behind))
    if any(_P["hardware"].search(part) for part in (before[-25:], name, behind[:12])):
        return True
    if _P["card_after"].search(before) and re.match(r"\s?(?:$|[,.;:)])", behind):
        return True
    beside = _P["span"].search(behind)
    return beside is not None and bool(_P["time_beside"].match(behind[: beside.start()]))


def _count(word: str) -> int:
    return _COUNTS.get(word.lower()) or int(number_of_words(word))


def _limits_in(sentence: str, cards: list[_Card]) -> set[tuple[float, int]]:
    """(minutes, of what: 2 training, 1 a GPU, -1 prediction) of spans of time that are said to be a limit."""
    found = set()
    for span in _P["span"].finditer(sentence):
        before = sentence[max(0, span.start() - _NEAR) : span.start()]
        behind = sentence[span.end() : span.end() + _NEAR]
        left, right = _P["break"].split(before)[-1], _P["break"].split(behind)[0]
        clause = left + span[0] + right
        bound = _P["limit_before"].search(before)
        beyond = _P["limit_behind"].sub("", behind)
        limit = (
            bool(bound)
            or beyond != behind
            or bool(_P["must_before"].search(before) and _P["must"].search(clause))
        )
        bare = _P["alone_before"].search(before[: bound.start()] if bound else before) and re.match(
            r"\W*$|\s?[,;.)]", beyond
        )
        limit = (
            limit
            and bool(cards or bare or _P["run"].search(sentence))
            and (bool(cards) or not _P["data"].search(clause))
        )
        of_card = any(0 <= card.start - span.end() <= len(" of an ") for card in cards)
        if (span["day"] and not cards) or (_P["some_of"].match(behind) and not (limit or of_card)):
            continue
        if cards and not limit and not _P["of_data"].search(before):
            beside = any(0 <= span.start() - card.end <= 1 for card in cards)
            weak = not span["day"] and _P["weak_before"].search(before)
            limit = bool(
                beside or weak or _P["alone_before"].search(before) or _P["weak_behind"].search(behind)
            )
        if not cards and not limit and not _P["data"].search(sentence):
            limit = bool(_P["opens"].search(before) and _P["ends"].match(behind))
        minutes = _minutes(span)
        if limit and minutes > 0:
            of = left.rpartition(" and ")[2] + right.partition(" and ")[0]
            of_gpu = 1 if cards or "gpu" in clause.lower() else 0
            found.add(
                (minutes, 2 if _P["trains"].search(of) else -1 if _P["predicts"].search(of) else of_gpu)
            )
    return found


def _minutes(span: re.Match[str]) -> float:
    """Of a range, "2-3 hours", the lower end."""
    given = span["n"].lower()
    if "quarter" in given:
        number = 0.75 if given.startswith("three") else 0.25
    elif given[0].isdigit():
        number = float(given.replace(",", "."))
    else:
        number = 1.0 if given in ("a", "an") else _OTHERS.get(given) or number_of_words(given)
    number += 0.5 if span["half"] or span["half_behind"] else 0.0
    extra = number_of_words(span["rest"] or span["more"] or "0")
    return number * (1440.0 if span["day"] else 60.0 if span["hour"] else 1.0) + extra


_NAME_WORDS = 3
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
    while not _P["not"].search(sentence[max(0, start - 40) : start]) and _P["named"].match(sentence, start):
        name, words = _spelled(sentence, start, listed)
        end = start + len(words)
        named = _P["like_a_model"].fullmatch(words) and _P["model_trains"].search(
            sentence[max(0, first - 40) : first]
        )
        if name is None and (start == 0 or joined or not named):
            return
        if first == start == 0 and not _P["model_opens"].match(sentence[end:]):
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
    words = [match[0] for match in _P["named"].finditer(sentence[start : start + 120])][:_NAME_WORDS]
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
