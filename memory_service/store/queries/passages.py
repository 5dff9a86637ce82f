"""Queries of passages: by nearest vector, by words."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update

from memory_service.store import dialects
from memory_service.store.dialects import EMBEDDING_DIMENSIONS, Vector32
from memory_service.store.session import ReadSession, WriteSession, bulk
from memory_service.store.tables.knowledge import Passage

MAX_QUERY_WORDS = 64
"""A question of 2 000 words matches everything; its first distinct words already say what it is about."""

_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be been by can could do does for from had has have how if in "
        "into is it its may more must no not of on one only or other our should so some such than that "
        "the their them then there these they this those to under up use used using was we were what when "
        "where which who will with would you your",
    )
)


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to store; without an encoder `embedding` and `encoder` are None."""

    kind: str
    text: str
    embedding: Vector32 | None = None
    encoder: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A stored passage without its vector."""

    id: int
    competition: str
    kind: str
    digest: str
    encoder: str | None


@dataclass(frozen=True, slots=True)
class VectorTable:
    """All encoded passages, ordered by competition, then position: `vectors` is (n, 384) float32."""

    ids: list[int]
    competitions: list[str]
    kinds: list[str]
    vectors: Vector32


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found; `score` is better when higher (cosine, or the database's word rank)."""

    passage: int
    competition: str
    score: float


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def replace(session: WriteSession, competition: str, passages: Sequence[NewPassage]) -> None:
    """Store these as all the passages of a competition; unchanged texts keep their vectors."""
    encoded = {
        (old.text_digest, old.encoder): old.embedding
        for old in session.scalars(select(Passage).where(Passage.competition == competition))
        if old.embedding is not None
    }
    by_text = {text_digest: (encoder, vector) for (text_digest, encoder), vector in encoded.items()}
    session.execute(delete(Passage).where(Passage.competition == competition))
    rows = []
    for position, passage in enumerate(passages):
        encoder, vector = passage.encoder, passage.embedding
        if vector is None:
            encoder, vector = by_text.get(digest(passage.text), (None, None))
        own = {"kind": passage.kind, "text": passage.text, "text_digest": digest(passage.text)}
        place = {"competition": competition, "position": position}
        rows.append(place | own | {"encoder": encoder, "embedding": vector})
    if rows:
        session.execute(insert(Passage), rows)


def many(session: WriteSession) -> contextlib.AbstractContextManager[None]:
    """Around thousands of `replace`: indexes are built once, at the end of the block."""
    return dialects.of(session).many_passages(session)


def of_competitions(session: ReadSession) -> dict[str, list[StoredPassage]]:
    """Competition -> its passages in their order."""
    passages: dict[str, list[StoredPassage]] = {}
    columns = (Passage.id, Passage.competition, Passage.kind, Passage.text_digest, Passage.encoder)
    for row in session.execute(select(*columns).order_by(Passage.competition, Passage.position)):
        passages.setdefault(row[1], []).append(StoredPassage(*row))
    return passages


def unencoded(session: ReadSession, encoder: str) -> list[tuple[int, str]]:
    """(id, text) of passages without a vector of this encoder."""
    missing = or_(Passage.embedding.is_(None), Passage.encoder.is_distinct_from(encoder), *_cut(session))
    return [(row[0], row[1]) for row in session.execute(select(Passage.id, Passage.text).where(missing))]


def cut_vectors(session: ReadSession) -> list[int]:
    """Passages whose stored vector is no whole one; PostgreSQL keeps none such."""
    query = select(Passage.id).order_by(Passage.id)
    return [found for condition in _cut(session) for found in session.scalars(query.where(condition))]


def _cut(session: ReadSession) -> list[ColumnElement[bool]]:
    embedded = dialects.of(session).embedded
    return [func.length(Passage.embedding) != 4 * EMBEDDING_DIMENSIONS] if embedded else []


def set_embeddings(session: WriteSession, vectors: Iterable[tuple[int, str, Vector32]], encoder: str) -> int:
    """Give passages (id, text as it was encoded, vector) their vectors; changed texts are left."""
    done = 0
    for passage, text, vector in vectors:
        same = (Passage.id == passage, Passage.text_digest == digest(text))
        values = {"embedding": vector, "encoder": encoder}
        done += bulk(session, update(Passage).where(*same).values(**values))
    return done


def encoders(session: ReadSession) -> dict[str | None, int]:
    """Encoder -> number of passages it made the vector of (None: no vector yet)."""
    rows = session.execute(select(Passage.encoder, func.count()).group_by(Passage.encoder))
    return {row[0]: row[1] for row in rows}


def all_vectors(session: ReadSession) -> VectorTable:
    """Every vector, for an exact index in memory."""
    query = select(Passage.id, Passage.competition, Passage.kind, Passage.embedding)
    query = query.where(Passage.embedding.is_not(None)).order_by(Passage.competition, Passage.position)
    rows = [row for row in session.execute(query) if row[3] is not None]
    stacked = [np.asarray(row[3]) for row in rows]
    vectors = np.stack(stacked) if stacked else np.zeros((0, EMBEDDING_DIMENSIONS), np.float32)
    return VectorTable([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], vectors)


def nearest(session: ReadSession, vectors: Vector32, limit: int) -> list[list[Hit]]:
    """Of each vector (n, 384) the passages by cosine similarity, nearest first: HNSW on PostgreSQL, exact on
    SQLite."""
    ranked = dialects.of(session).nearest(session, vectors, limit)
    hits = iter(_hits(session, [one for some in ranked for one in some]))
    return [list(islice(hits, len(some))) for some in ranked]


def search_words(session: ReadSession, text: str, limit: int) -> list[Hit]:
    """Passages that hold any of the text's words, best rank first; nothing for a text without words."""
    words = list(dict.fromkeys(re.findall(r"[^\W_]{2,40}", text.lower())))
    words = [word for word in words if word not in _STOP_WORDS][:MAX_QUERY_WORDS]
    if not words:
        return []
    return _hits(session, dialects.of(session).search_words(session, words, limit))


def _hits(session: ReadSession, ranked: Sequence[tuple[int, float]]) -> list[Hit]:
    ids = {passage for passage, _ in ranked}
    rows = session.execute(select(Passage.id, Passage.competition).where(Passage.id.in_(ids)))
    competition = {row[0]: row[1] for row in rows}
    return [Hit(passage, competition[passage], score) for passage, score in ranked]


def vectors_of(session: ReadSession, competition: str) -> Vector32:
    """The vectors (n, 384) of one competition's encoded passages, in their order."""
    query = select(Passage.embedding).where(
        Passage.competition == competition, Passage.embedding.is_not(None)
    )
    stacked = [vector for vector in session.scalars(query.order_by(Passage.position)) if vector is not None]
    return np.stack(stacked) if stacked else np.zeros((0, EMBEDDING_DIMENSIONS), np.float32)
