"""One edition of a series is not another one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory_service.recall.recognition import WEIGHTS, Evidence, Words, another_edition
from memory_service.recall.words import DocumentFrequencies, words_worth

AGREES = Evidence(*[0.0] * len(WEIGHTS.__dataclass_fields__))
DISAGREES = replace(AGREES, metric=-1.0)

BIRDS, PLAY = (
    ("birdclef-2024", "BirdCLEF 2024"),
    ("playground-series-s4e1", "Playground - Season 4, Episode 1"),
)
M5 = "m5-forecasting-uncertainty", "M5 Forecasting - Uncertainty"
DEC = "tabular-playground-series-dec-2021", "Tabular Playground Series - Dec 2021"
CASSAVA = "cassava-leaf-disease", "Cassava Leaf Disease"
Told = tuple[tuple[str, str], str, Evidence]
EDITIONS: list[Told] = [
    (BIRDS, "BirdCLEF+ 2025. Birds and insects of the Magdalena valley.", AGREES),
    (("plantclef-2025", "PlantCLEF 2025"), "In PlantCLEF 2024 plots are photographed.", AGREES),
    (PLAY, "Playground Season 3, Episode 24: smokers.", AGREES),
    (PLAY, "playground-series-s5e9, beats per minute", AGREES),
    (DEC, "Tabular Playground Series May 2022", AGREES),
    (M5, "M5 Forecasting - Accuracy, RMSSE of 28 days", DISAGREES),
    (CASSAVA, "# Okra Leaf Disease\nPhotos of okra leaves.", AGREES),
    (CASSAVA, "Leaf Blight of Okra\nFive kinds of leaf disease on photos.", AGREES),
]
SAME: list[Told] = [
    (BIRDS, "BirdCLEF 2024; clips of BirdCLEF 2023 may be used.", AGREES),
    (BIRDS, "Birds of the Western Ghats by sound, 182 species in 2024", DISAGREES),
    (M5, "M5 Forecasting - Accuracy", AGREES),
    (CASSAVA, "Disease of a cassava leaf", DISAGREES),
    (CASSAVA, "# Overview\nDisease of a cassava leaf", AGREES),
    (CASSAVA, "# Cassava Leaf Disease: the Dataset\nPhotos", AGREES),
    (CASSAVA, "# Cassava Leaf Challenge\nPhotos", AGREES),
    (CASSAVA, "Leaf Disease Challenge\nPhotos of cassava", AGREES),
]


def other(name: tuple[str, str], text: str, evidence: Evidence) -> bool:
    slug, title = name
    known = frozenset(words_worth(f"{title} photos of leaf disease"))
    rows = [{"slug": slug, "title": title}]
    texts = [title, *["leaf disease, okra leaf disease"] * 2, *["challenge"] * 9]
    frequencies = DocumentFrequencies.of(texts)
    snapshot = cast(
        "Any",
        SimpleNamespace(competitions=rows, known_words=lambda _: known, word_frequencies=frequencies),
    )
    return another_edition(snapshot, 0, Words(text), evidence)


@pytest.mark.parametrize("told", EDITIONS)
def test_another_edition_is_another_competition(told: Told) -> None:
    assert other(*told)


@pytest.mark.parametrize("told", SAME)
def test_the_competition_itself_is_no_other_edition(told: Told) -> None:
    assert not other(*told)
