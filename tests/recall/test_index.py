"""The exact index is exact; the database's own vector index finds nearly all of what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from memory_service.recall.snapshot import VectorIndex
from memory_service.services.database.transactions import Database
from memory_service.store.queries import passages, rows


def unit_vectors(n: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, 384)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def test_scores_are_the_mean_over_questions_of_the_best_passage() -> None:
    vectors, queries = unit_vectors(40, 1), unit_vectors(3, 2)
    owners = np.random.default_rng(3).integers(0, 8, 40)
    owners[owners == 5] = 4
    scores = VectorIndex(owners, vectors, 9).scores(queries)
    for competition in range(9):
        own = vectors[owners == competition]
        expected = (own @ queries.T).max(axis=0).mean() if len(own) else -1.0
        assert scores[competition] == pytest.approx(expected, abs=1e-5)


def test_an_empty_index_answers() -> None:
    scores = VectorIndex([], np.zeros((0, 384), np.float32), 3).scores(unit_vectors(1, 1))
    assert scores.tolist() == [-1.0, -1.0, -1.0]


def test_the_index_of_the_database_finds_what_the_exact_one_finds(database: Database) -> None:
    """2 000 vectors in 40 loose clusters, as texts are: recall at 20 of at least 0.95."""
    centres = unit_vectors(40, 7)
    vectors = centres[np.arange(2000) % 40] + 0.6 * unit_vectors(2000, 8)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    with database.write() as unit:
        for k in range(200):
            row = {"slug": f"c{k:03}", "title": f"c{k}", "description": "text", "source": "test"}
            row |= {"grade": "claimed"} | rows.bookkeeping("user", unit.now)
            rows.insert_all(unit.session, "competitions", [row])
            new = [passages.NewPassage("text", f"{k} {i}", vectors[10 * k + i], "test") for i in range(10)]
            passages.replace(unit.session, f"c{k:03}", new)
    with database.read() as unit:
        table = passages.all_vectors(unit.session)
        found = []
        for query, hits in zip(centres, passages.nearest(unit.session, centres[:20], 20), strict=False):
            exact = set(np.array(table.ids)[np.argsort(-(table.vectors @ query))[:20]].tolist())
            found.append(len(exact & {hit.passage for hit in hits}) / 20)
    assert float(np.mean(found)) >= 0.95
