"""The language of a description, and what its words mean in English, so that one reader serves all.

    in_english("Zu 12.500 Fotos soll die Art genannt werden") -> "to 12500 photos shall the species ..."

Only words that tell a task, a metric or a count are known (`languages.toml`); all others stay as they are.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import SMALL_WORDS, readable

_TABLES = shipped_table(__package__, "languages.toml")
READ_LANGUAGES: tuple[str, ...] = tuple(_TABLES)
"""Beside English, by ISO 639-1."""

_SCRIPTS = (("hi", r"[\u0900-\u097f]"), ("ja", r"[\u3040-\u30ff]"), ("zh", r"[\u4e00-\u9fff]"))
_OTHER_SCRIPT = re.compile(r"[^\W\d_a-z\u00c0-\u024f]", re.IGNORECASE)
_LEAST_SMALL_WORDS = 3
_SMALL_WORDS = {
    "en": SMALL_WORDS["english"],
    "de": "der die das und ist ein eine mit für auf von den dem zu im werden wird soll zum sind "
    "nach bis bewertet aus oder jede jeder jedes",
    "fr": "le la les des du une et est sur dans pour par un il faut avec qui aux leurs sont nous",
    "es": "el los las del y en con que se una es para por cada al la un de hay su",
    "pt": "o os um uma do da em não dos das e com para no na pela pelo que ao são",
}


def language_of(text: str) -> str:
    """ISO 639-1 of a text's language; "en" where nothing speaks for another, "other" for one that is not
    read."""
    text = readable(text)
    letters = sum(map(str.isalpha, text))
    if 5 * len(_OTHER_SCRIPT.findall(text)) > letters:
        found = (name for name, script in _SCRIPTS if 12 * len(re.findall(script, text)) > letters)
        return next(found, "other")
    words = re.findall(r"[^\W\d_]+", text.lower())
    counts = {name: sum(map(listed.split().count, words)) for name, listed in _SMALL_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    others = sum(map(SMALL_WORDS["others"].split().count, words))
    if best == "en" and others < _LEAST_SMALL_WORDS:
        return "en"
    if counts[best] < (_LEAST_SMALL_WORDS if counts["en"] else 2):
        return "en" if others < _LEAST_SMALL_WORDS or others <= counts["en"] else "other"
    return best


def in_english(text: str, language: str) -> str:
    """The text with the words that matter in English and its numbers as English has them."""
    if language not in _TABLES:
        return text
    pattern, meaning = _glossary(language)
    return pattern.sub(lambda match: meaning(match[0]), _plain_numbers(text, language))


@lru_cache(maxsize=len(_TABLES))
def _glossary(language: str) -> tuple[re.Pattern[str], Callable[[str], str]]:
    english: dict[str, str] = {}
    for line in _TABLES[language].strip().splitlines():
        meant, words = line.split(":", 1)
        english |= {word.strip().lower(): meant for word in words.split(",")}
    spaced = language not in ("zh", "ja")
    ordered = sorted(english, key=len, reverse=True)
    parts = [re.escape(word).replace(r"\*", r"\w*") for word in ordered]
    alternatives = "|".join(f"({part})" for part in parts)
    edges = (r"(?<![^\W\d_])(?:", r")(?![\w])") if language != "hi" and spaced else ("(?:", ")")
    if language == "hi":
        edges = (r"(?<![\u0900-\u097f])(?:", r")(?![\u0900-\u097f])")
    pattern = re.compile(f"{edges[0]}{alternatives}{edges[1]}", re.IGNORECASE)

    def meaning(found: str) -> str:
        place = pattern.fullmatch(found)
        meant = english[ordered[place.lastindex - 1]] if place and place.lastindex else found
        meant = meant.capitalize() if found[0].isupper() else meant  # a sentence still begins with a capital
        return meant if spaced else f" {meant} "

    return pattern, meaning


_GROUPED = {"de": r"\.", "es": r"\.", "pt": r"\.", "fr": "[ \u00a0\u202f.]"}
_MEASURE_WORDS = re.compile(r"(?<=\d)\s*[条張张枚个個件名人例份段幅本篇]")
_FEW_KINDS = re.compile(r"[一二三四五六七八九十](?=[个個]?(?:类|種|种|クラス|段階))")
_TEN_THOUSANDS = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{1,4})?)\s{0,2}[万萬]")


def _plain_numbers(text: str, language: str) -> str:
    if language in _GROUPED:
        mark = _GROUPED[language]
        text = re.sub(rf"(?<![\d.,])\d{{1,3}}(?:{mark}\d{{3}})+(?![\d.,]\d)", _digits, text)
        return re.sub(r"(?<=\d),(?=\d)", ".", text)
    if language in ("zh", "ja"):
        text = _TEN_THOUSANDS.sub(lambda match: f"{float(match[1]) * 10_000:.0f}", text)
        text = _MEASURE_WORDS.sub(" ", text)
        text = _FEW_KINDS.sub(lambda match: f"{'一二三四五六七八九十'.index(match[0]) + 1}", text)
        return text.translate(str.maketrans("、。，：；（）", ",.,:;()"))
    return text


def _digits(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])
