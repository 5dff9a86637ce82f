"""Exact nearest-neighbour index in memory: one matrix product.

Passages of one competition stand in consecutive rows. This index serves SQLite and is the oracle that
pgvector's approximate index is tested against.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class VectorIndex:
    """Unit vectors of passages (P, d), grouped by competition 0..C-1."""

    def __init__(
        self, owners: Sequence[int] | NDArray[np.int64], vectors: Vectors, n_competitions: int
    ) -> None:
        owner = np.asarray(owners, dtype=np.int64)
        order = np.argsort(owner, kind="stable")
        self._vectors = np.ascontiguousarray(vectors[order], dtype=np.float32)
        self.n_competitions = n_competitions
        present, starts = np.unique(owner[order], return_index=True)
        self._present = present
        self._starts = starts

    def __len__(self) -> int:
        return len(self._vectors)

    def scores(self, queries: Vectors) -> Vectors:
        """Cosine per competition (C,): mean over the question's passages of the best; -1 without passages."""
        out = np.full(self.n_competitions, -1.0, dtype=np.float32)
        if not len(self._vectors) or not len(queries):
            return out
        products = self._vectors @ np.asarray(queries, dtype=np.float32).T
        out[self._present] = np.maximum.reduceat(products, self._starts, axis=0).mean(axis=1)
        return out
