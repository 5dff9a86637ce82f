"""The language of a description, and what its words mean in English, so that one reader serves all.

    in_english("Zu 12.500 Fotos soll die Art genannt werden") -> "to 12500 photos shall the species ..."

Only words that tell a task, a metric or a count are known (`languages.toml`); all others stay as they are.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from unicodedata import normalize

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import SMALL_WORDS, patterns, readable

_TABLES = shipped_table(__package__, "languages.toml")
_P = patterns("languages")
READ_LANGUAGES: tuple[str, ...] = tuple(_TABLES)
"""Beside English, by ISO 639-1."""

_SCRIPTS = (("hi", r"[\u0900-\u097f]"), ("ja", r"[\u3040-\u30ff]"), ("zh", r"[\u4e00-\u9fff]"))
_LEAST_SMALL_WORDS = 3
_SMALL_WORDS = {name: listed.split() for name, listed in SMALL_WORDS.items()}
_OTHERS = _SMALL_WORDS.pop("others")


def language_of(text: str) -> str:
    """ISO 639-1 of a text's language; "en" where nothing speaks for another, "other" for one that is not
    read."""
    text = readable(text)
    letters = sum(map(str.isalpha, text))
    if 5 * len(_P["other_script"].findall(text)) > letters:
        found = (name for name, script in _SCRIPTS if 12 * len(re.findall(script, text)) > letters)
        return next(found, "other")
    words = re.findall(r"[^\W\d_]+", text.lower())
    counts = {name: sum(map(listed.count, words)) for name, listed in _SMALL_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    others = sum(map(_OTHERS.count, words))
    if best == "en" and others < _LEAST_SMALL_WORDS:
        return "en"
    if counts[best] < (_LEAST_SMALL_WORDS if counts["en"] else 2):
        return "en" if others < _LEAST_SMALL_WORDS or others <= counts["en"] else "other"
    return best


def in_english(text: str, language: str) -> str:
    """The text with the words that matter in English and its numbers as English has them."""
    if language not in _TABLES:
        return text if language == "en" else _P["grouped"].sub(_digits, text)
    pattern, meaning = _glossary(language)
    text = pattern.sub(lambda match: meaning(match[0]), _plain_numbers(_plain(text), language))
    if language in ("zh", "ja"):
        return _P["count_behind"].sub(r"\2 \1", re.sub(" {2,}", " ", _P["beside_signs"].sub(" ", text)))
    return _P["behind_its_noun"].sub(r"\2 \1", text) if language in ("es", "fr", "it", "pt") else text


@lru_cache(maxsize=len(_TABLES))
def _glossary(language: str) -> tuple[re.Pattern[str], Callable[[str], str]]:
    english: dict[str, str] = {}
    for entry in filter(str.strip, _TABLES[language].replace("\n", ";").split(";")):
        meant, words = entry.split(":", 1)
        english |= {_plain(word.strip().lower()): meant.strip() for word in words.split(",")}
    spaced = language not in ("zh", "ja")
    ordered = sorted(english, key=len, reverse=True)
    edges = (r"(?<![^\W\d_])", r"(?![\w])") if language != "hi" and spaced else ("", "")
    if language == "hi":
        edges = (r"(?<![\u0900-\u097f])", r"(?![\u0900-\u097f])")
    # Few branches at each place of a text: one for each letter that a word begins with, none with a group.
    by_first = groupby(sorted(ordered, key=itemgetter(0)), key=itemgetter(0))
    starts = [
        f"{re.escape(first)}(?:{'|'.join(_part(word[1:]) for word in words)})"
        if first != "*"
        else "|".join(map(_part, words))
        for first, words in by_first
    ]
    found_by = re.compile(f"{edges[0]}(?:{'|'.join(starts)}){edges[1]}", re.IGNORECASE)
    which = re.compile("|".join(f"({_part(word)})" for word in ordered), re.IGNORECASE)

    def meaning(found: str) -> str:
        place = which.fullmatch(found)
        meant = english[ordered[place.lastindex - 1]] if place and place.lastindex else found
        meant = meant.capitalize() if found[0].isupper() else meant  # a sentence still begins with a capital
        return meant if spaced else f" {meant} "

    return found_by, meaning


def _part(word: str) -> str:
    return re.escape(word).replace(r"\*", r"\w*")


_MEASURE_WORDS = {
    "张張枚幅": "photos",
    "条條件例份": "samples",
    "段": "clips",
    "名人位": "people",
    "个個本篇": "",
}
_SIGNS = str.maketrans(
    {"、": ",", "，": ",", "：": ":", "；": ";", "（": "(", "）": ")", "。": ".\n", "।": ".\n"}
)


def _plain(text: str) -> str:
    """In composed letters, without the dot below those of Hindi, which is often left out."""
    return normalize("NFC", normalize("NFD", text).replace("\u093c", ""))


def _plain_numbers(text: str, language: str) -> str:
    if language in ("zh", "ja"):
        text = re.sub(r"(?<=[\u3040-\u9fff])(?=\d)", " ", text)
        text = _P["ten_thousands"].sub(
            lambda m: f"{float(m[1]) * (1e4 if m[2] in '万萬' else 1e8):.0f}", text
        )
        for signs, meant in _MEASURE_WORDS.items():
            text = re.sub(rf"(?<=\d)\s{{0,9}}[{signs}]", f" {meant} ", text)
        text = _P["few_kinds"].sub(lambda match: f"{'一二三四五六七八九十'.index(match[0]) + 1}", text)
    elif language != "hi":
        return re.sub(r"(?<=\d),(?=\d)", ".", _P["grouped"].sub(_digits, text))
    return text.translate(_SIGNS)


def _digits(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])
