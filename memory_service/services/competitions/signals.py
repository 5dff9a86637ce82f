"""What meaning and words of a text say of every stored competition, as arrays over competitions (C,)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.stated_split import column_named
from memory_service.domain.description.task_inference import (
    InferredFacts,
    facts_and_tasks,
    with_separation,
    with_speech_kind,
)
from memory_service.recall.count_classifier import count_classifier
from memory_service.recall.encoder import TextEncoder
from memory_service.recall.passages import query_passages
from memory_service.recall.snapshot import RecallSnapshot, searched_text
from memory_service.recall.split_classifier import split_classifier
from memory_service.recall.task_classifier import task_classifier
from memory_service.services.database.transactions import ReadTransaction
from memory_service.store.queries import passages

_SEARCH_DEPTH, _WORDS_DEPTH = 60, 60
"""Passages asked of the database's vector index and of its full text."""

_SCORED = 40
"""Competitions found by words that are scored."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text, read once: what it says, how likely each task is, and the vectors of its passages if
    encoded. `text` is in English as far as words of other languages are known; language: ISO 639-1 of the
    original, "other" for one that is not read."""

    text: str
    facts: InferredFacts
    task_probability: Mapping[str, float]
    vectors: Scores | None
    language: str = "en"


LONGEST_REMEMBERED = 8_000


def read_text(text: str, encoder: TextEncoder | None) -> ReadText:
    """Read a text of any length: one batch of at most three passages is encoded, once while nobody asked of
    128 others. Opens no transaction."""
    return _remembered(text, encoder) if len(text) <= LONGEST_REMEMBERED else _read(text, encoder)


def _read(text: str, encoder: TextEncoder | None) -> ReadText:
    language = language_of(text)
    text = in_english(text, language)
    vectors = encoder.encode([p.text for p in query_passages(text)]) if encoder is not None else None
    reported, tasks = facts_and_tasks(text, task_classifier().given(vectors))
    reported = count_classifier().judged(reported, text)
    if reported.split is None or reported.split == "time":
        encode = encoder.encode if encoder is not None else None
        reported = with_separation(reported, split_classifier().separation(text, encode))
    if reported.language is None and language not in ("en", "other") and reported.modality == "text":
        reported = replace(reported, language=language, words={**reported.words, "language": "its own"})
    reported = with_speech_kind(reported, text)
    reported = replace(reported, group_by=column_named(reported.group_by, text))
    return ReadText(text, reported, tasks, vectors, language)


@cached(LRUCache(128), lock=Lock())
def _remembered(text: str, encoder: TextEncoder | None) -> ReadText:
    return _read(text, encoder)


def text_signals(
    transaction: ReadTransaction | None, snapshot: RecallSnapshot, place: int | None, read: ReadText | None
) -> tuple[dict[str, Scores], list[str]]:
    """What meaning and words say of every competition, as far as they can be had, and the words searched
    for."""
    signals: dict[str, Scores] = {}
    row = snapshot.competitions[place] if place is not None else None
    vectors = read.vectors if read is not None else None
    if row is not None and transaction is not None:
        vectors = passages.vectors_of(transaction.session, str(row["slug"]))
    meaning = _by_meaning(transaction, snapshot, vectors) if vectors is not None and len(vectors) else None
    if meaning is not None:
        signals["embedding"] = meaning
    prose = searched_text(row) if row is not None else read.text if read is not None else ""
    terms = snapshot.document_frequencies.terms(prose) if prose else []
    if terms and transaction is not None:
        signals["words"] = _by_words(transaction, snapshot, terms)
    return signals, terms


def _by_meaning(
    transaction: ReadTransaction | None, snapshot: RecallSnapshot, vectors: Scores
) -> Scores | None:
    """Cosine per competition (C,): exact in memory, or from the database's own vector index."""
    if snapshot.vectors is not None:
        return snapshot.vectors.scores(vectors)
    if transaction is None:
        return None
    total = np.zeros(len(snapshot.competitions), dtype=np.float32)
    for hits in passages.nearest(transaction.session, vectors, _SEARCH_DEPTH):
        # What the index did not return is at most as near as the last it did.
        best = np.full(len(total), hits[-1].score if hits else 0.0, dtype=np.float32)
        for hit in hits:
            found = snapshot.position.get(hit.competition)
            if found is not None:
                best[found] = max(best[found], hit.score)
        total += best
    return total / np.float32(len(vectors))


def _by_words(transaction: ReadTransaction, snapshot: RecallSnapshot, terms: list[str]) -> Scores:
    """bm25 of the competitions that the full-text search finds (C,), 0 for the others."""
    out = np.zeros(len(snapshot.competitions), dtype=np.float32)
    searched = snapshot.document_frequencies.affordable(terms, len(out))
    hits = passages.search_words(transaction.session, " ".join(searched), _WORDS_DEPTH)
    for slug in islice(dict.fromkeys(hit.competition for hit in hits), _SCORED):
        found = snapshot.position.get(slug)
        if found is not None:
            out[found] = snapshot.document_frequencies.bm25(terms, snapshot.plain_text(found))
    return out


def closeness_to(transaction: ReadTransaction | None, snapshot: RecallSnapshot, place: int) -> Scores | None:
    if transaction is None:
        return None
    own = passages.vectors_of(transaction.session, str(snapshot.competitions[place]["slug"]))
    return _by_meaning(transaction, snapshot, own) if len(own) else None
