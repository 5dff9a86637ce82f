"""Words are searched by rarity; nothing a user types can break the search."""

from __future__ import annotations

import pytest

from memory_service.errors import InvalidInput
from memory_service.recall.encoder import LoadedEncoder
from memory_service.recall.words import DocumentFrequencies, plain, shared_terms
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.competitions.similar import similar
from memory_service.services.database.transactions import Database

RARITY = DocumentFrequencies.of(
    ["salt bodies in seismic images", "dogs in images", "cats in images", "audio of whales", "images of ice"]
)

HOSTILE = (
    '"unbalanced AND (salt OR',
    "NEAR/3 NOT",
    "salt* -images text:salt ^salt {a b}: +c",
    "'; DROP TABLE passages; --",
    "%_\\ && || ! :* <-> ''",
    "\x00\x01 salt",
    "ﬁnd ﬂuke Übersegmentierung 塩 соль ملح",
    "a",
    "🙂🙂",
    "-" * 5000,
)


def test_rare_words_come_first_and_unknown_ones_are_left_out() -> None:
    assert RARITY.terms("Images of salt, salt and images; zebra") == ["salt", "images"]


def test_a_search_stays_within_its_budget() -> None:
    terms = ["salt", "images", "dogs"]
    assert RARITY.affordable(terms, n_texts=5, budget=2) == ["salt", "dogs"]
    assert RARITY.affordable(["images"], n_texts=5_000, budget=2) == ["images"]


def test_bm25_prefers_the_text_with_the_rare_word() -> None:
    terms = ["salt", "images"]
    salty = RARITY.bm25(terms, plain("Salt bodies in seismic images"))
    assert salty > RARITY.bm25(terms, plain("dogs in images")) > RARITY.bm25(terms, plain("whales")) == 0.0
    assert shared_terms(terms, plain("a salt, an image"), 3) == ("salt", "images")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_the_search(known: Database, loaded: LoadedEncoder, text: str) -> None:
    answer = similar(known, SimilarRequest.model_construct(text=text), loaded)
    assert len(answer.items) in (0, 5)  # nothing alike is stored, or the five nearest


@pytest.mark.parametrize("text", ["", "   \n\t "])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        checked(SimilarQuery, {"text": text})
