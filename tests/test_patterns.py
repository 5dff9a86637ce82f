"""Is every pattern, and the reading of descriptions as a whole, linear in the text, whatever the text is?"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from memory_service.domain.common import unpriced_models
from memory_service.domain.description.languages import READ_LANGUAGES, in_english, language_of
from memory_service.domain.description.phrases import (
    MOST_OF_A_SENTENCE,
    MOST_OF_A_WORD,
    READ_CHARACTERS,
    readable,
    sentences_of,
)
from memory_service.domain.description.quantities import MOST, number_of_words, quantities_in
from memory_service.domain.description.resources import cards_in, resources_in
from memory_service.domain.hardware import device_names
from memory_service.domain.planning import model_names
from memory_service.errors import InvalidInput
from memory_service.recall.passages import passages_of, query_passages
from memory_service.recall.recognition import Words
from tests.patterns import (
    COMMON,
    WORDS,
    at_most,
    grows_too_fast,
    patterns_of_the_package,
    pieces_of,
    processor_seconds,
)
from tests.reading import counts_alone, read_alone

OF_NAMES = (device_names, unpriced_models, model_names)
NAMES: dict[str, Callable[[str], object]] = {
    "device": device_names.normal_gpu_name,
    "count": device_names.counted,
    "list": device_names.several,
    "memory": device_names.memory_beside,
    "platform": device_names.without_platform,
    "no card": lambda name: device_names.no_card(name, {}),
    "neighbours": lambda name: device_names.neighbours(name, {}),
    "unpriced": unpriced_models.kind_of,
    "spellings": model_names.spellings,
    "built": model_names.built_name,
    "twin": lambda name: model_names.twin(name, {"resnet_50": "resnet50"}, {"resnet50": False}),
}


@pytest.mark.parametrize("way", NAMES)
def test_a_name_however_long_is_read_at_once(way: str):
    for piece in (*COMMON, "nvidia ", "rtx", "gpu 0: ", "1 x ", "16 gb ", "fpn/", "a_", "-"):
        with at_most(5.0), suppress(InvalidInput):
            NAMES[way](repeated(piece))


def test_every_pattern_of_the_package_is_linear_over_repeated_pieces():
    patterns = patterns_of_the_package()
    assert len(patterns) > 500
    wrong = []
    for pattern, place in patterns.items():
        if place.startswith(tuple(module.__name__ for module in OF_NAMES)):
            continue  # names are cut before a pattern sees them: the test below
        found = (grows_too_fast(pattern, piece) for piece in (*COMMON, *pieces_of(pattern)))
        if (how := next(filter(None, found), None)) is not None:
            wrong.append(f"{place}: {how}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("language", READ_LANGUAGES)
def test_no_glossary_is_tried_word_by_word_at_each_place_of_a_text(language: str):
    """A call of a pattern stops all other threads: what it costs at a place must not grow with its words."""
    signs = "".join(f"\\frac{{1}}{{n_{n}}}\\sum_{{i={n}}} (y_i - x^{{{n}}}) " for n in range(900))
    chinese = " ".join(chr(0x4E00 + 7 * n % 20_000) * 3 for n in range(4_000))
    for text in (signs[:READ_CHARACTERS], "a b c d e f g h " * 1_000, chinese):
        once = processor_seconds(partial(language_of, text), 3)
        assert processor_seconds(partial(in_english, text, language), 3) < 20 * once


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w*(?:_\w*|[a-z]\w*\d\w*|\d\w*[A-Za-z]\w*)",  # was recall.recognition._COLUMN
        r"\s*(?:each|per|every)\b",
        r"precision\b[^+]*?IoU",
        r"(a|a)*b",
    ],
)
def test_a_pattern_that_is_not_linear_is_found(pattern: str):
    compiled = re.compile(pattern)
    assert any(grows_too_fast(compiled, piece) for piece in (*COMMON, *pieces_of(compiled)))


GPUS = {"t4": "t4", "a100": "a100", "4090": "rtx4090", "rtx4090": "rtx4090", "v100": "v100", "l4": "l4"}
USUAL = (
    "We have 7,349 pictures of dogs of 120 breeds, taken by 300 people. Predict the breed of each; the score "
    "is log loss over 10,357 test images. You have two hours on a T4. The test set has other dogs. Images "
    "are 512x512 pixels. Several pictures of the same dog are given.\n"
)
LONG = 100_000


def read(text: str) -> None:
    """All that a question's description goes through before a plan is made."""
    counts_alone(text)
    resources_in(text, GPUS)
    cards_in(text, GPUS)
    query_passages(text)
    passages_of({"slug": "a", "description": text})
    in_english(text, language_of(text))
    words = Words(readable(text))
    assert words.names is not None


def repeated(piece: str, length: int = LONG) -> str:
    return (piece * (length // len(piece) + 1))[:length]


MOST_TIMES = 8.0


def test_no_description_of_repeated_pieces_takes_much_longer_than_prose():
    usual = processor_seconds(lambda: read(repeated(USUAL)), 3)
    taken: dict[str, float] = {}
    for piece in (
        *COMMON,
        *WORDS,
        "wood / glass, ",
        "a" * 3_000,
        "ACGU" * 700 + " ",
        "Predict " + "a1_" * 900,
    ):
        with at_most(20 * MOST_TIMES * usual + 5):
            taken[piece] = processor_seconds(lambda piece=piece: read(repeated(piece)))  # type: ignore[misc]
    for piece in [piece for piece, seconds in taken.items() if seconds > MOST_TIMES * usual]:
        taken[piece] = processor_seconds(lambda piece=piece: read(repeated(piece)), 3)  # type: ignore[misc]
    assert {piece[:40]: seconds for piece, seconds in taken.items() if seconds > MOST_TIMES * usual} == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a  b\t\tc   \n\n\n \n  d\r\ne\x0cf", "a b c\nd\ne\nf"),
        ("x" * 10_000 + " dog", "x" * MOST_OF_A_WORD + " dog"),
        (" " * 90_000 + "dog", "dog"),
        ("dog " * 50_000, ("dog " * 50_000)[:READ_CHARACTERS]),
    ],
)
def test_texts_are_read_with_short_words_single_spaces_and_a_bound(given: str, expected: str):
    assert readable(given) == expected
    assert readable(readable(given)) == expected.strip()


def test_a_long_sentence_is_read_in_pieces_that_end_at_words():
    pieces = sentences_of("a dog and " * 500)
    assert max(map(len, pieces)) <= MOST_OF_A_SENTENCE
    assert " ".join(pieces) == ("a dog and " * 500).strip()


@pytest.mark.parametrize("count", [1, 12, 13, 400])
def test_dozens_of_dozens_are_a_number(count: int):
    words = "dozen " * count
    assert 0 < number_of_words(words) <= MOST
    assert all(quantity.value <= MOST for quantity in quantities_in(f"There are {words}photos."))
    assert read_alone(words + "photos").confidence <= 1.0


WAYS: dict[str, Callable[[str], object]] = {"facts": read_alone, "passages": query_passages}


@pytest.mark.parametrize("way", WAYS)
def test_what_stands_behind_a_long_word_is_read(way: str):
    text = "The sequence is " + "A" * 50_000 + ". Classify photos of dogs into 120 breeds, log loss."
    assert "120" in str(WAYS[way](text))
