"""Texts of a competition as vectors, made before a write transaction opens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.errors import Unavailable
from memory_service.recall.encoder import TextEncoder, load_encoder, use_model
from memory_service.recall.passages import passages_of
from memory_service.store.dialects import EMBEDDING_DIMENSIONS
from memory_service.store.queries.passages import NewPassage

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
