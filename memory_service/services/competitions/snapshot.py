"""The recall snapshot of a database: built once for each state of its competitions.

Texts of a competition as vectors, made before a write transaction opens.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select

from memory_service.errors import Unavailable
from memory_service.recall.encoder import TextEncoder, load_encoder, use_model
from memory_service.recall.passages import passages_of
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.tables.usable_rows import readable_rows
from memory_service.store import dialects
from memory_service.store.dialects import EMBEDDING_DIMENSIONS
from memory_service.store.queries import passages
from memory_service.store.queries.passages import NewPassage
from memory_service.store.queries.rows import fingerprints
from memory_service.store.tables.knowledge import Knowledge


class _Latest:
    """The latest snapshot of a database's competitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: RecallSnapshot | None = None
        self._solutions: object = None

    def get(self, transaction: ReadTransaction) -> RecallSnapshot:
        session = transaction.session
        revision = session.execute(select(Knowledge.revision)).scalar_one()
        known = self._snapshot
        if known is not None and known.revision == revision:
            return known
        with self._lock:
            before = known = self._snapshot
            if known is None or known.revision != revision:
                prints = fingerprints(session, "competitions", "solutions")
                state = (prints["competitions"], passages.encoders(session))
                if known is not None and known.state == state:
                    known = replace(known, revision=revision)
                else:
                    known, self._solutions = _built(transaction, revision, state), None
                if self._solutions != prints["solutions"]:
                    known = known.with_solutions(readable_rows(transaction, "solutions")[0], before)
                    self._solutions = prints["solutions"]
                self._snapshot = known
        return known


def recall_snapshot(transaction: ReadTransaction) -> RecallSnapshot:
    """The snapshot of this unit's knowledge revision: built once, then one cheap read per question."""
    return transaction.caches.of(_Latest).get(transaction)


def _built(transaction: ReadTransaction, revision: int, state: object) -> RecallSnapshot:
    competitions, _ = readable_rows(transaction, "competitions")
    if not dialects.of(transaction.session).embedded:
        return RecallSnapshot.build(revision, competitions, state=state)
    table = passages.all_vectors(transaction.session)
    return RecallSnapshot.build(
        revision, competitions, state=state, owners=table.competitions, vectors=table.vectors
    )


__all__ = ["TextEncoder", "encode", "encoder_at", "texts_of", "use_model", "vectors_of"]

MAX_PASSAGES = 40
"""Of a description of a megabyte; the first 40 000 characters say what the competition is."""


def encoder_at(embedding_model: str = "") -> tuple[TextEncoder | None, str | None]:
    """The encoder of the setting `MEMORY_EMBEDDING_MODEL`, or None and the reason. Seconds at the first
    call."""
    loaded = load_encoder(embedding_model or None)
    return loaded.encoder, loaded.reason


def texts_of(competition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(kind, text) of the passages of a competition, at most `MAX_PASSAGES`."""
    return [(passage.kind, passage.text) for passage in passages_of(competition)[:MAX_PASSAGES]]


def encode(texts: Sequence[tuple[str, str]], encoder: TextEncoder | None) -> list[NewPassage]:
    """Passages with their vectors; without vectors where there is no encoder."""
    if encoder is None:
        return [NewPassage(kind, text) for kind, text in texts]
    vectors = vectors_of([text for _, text in texts], encoder)
    pairs = zip(texts, vectors, strict=True)
    return [NewPassage(kind, text, vector, encoder.name) for (kind, text), vector in pairs]


def vectors_of(texts: Sequence[str], encoder: TextEncoder) -> npt.NDArray[np.float32]:
    """(n, 384) float32; Unavailable when the encoder gives anything else."""
    vectors = encoder.encode(list(texts))
    if vectors.shape != (len(texts), EMBEDDING_DIMENSIONS) or not np.isfinite(vectors).all():
        raise Unavailable(
            f"the embedding model {encoder.name} gives vectors of shape {vectors.shape}; "
            f"({len(texts)}, {EMBEDDING_DIMENSIONS}) finite ones can be stored"
        )
    return vectors
