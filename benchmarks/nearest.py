"""How well, and how fast, does PostgreSQL's HNSW find passages among many?

    python -m benchmarks.nearest [--vectors 100000]

Vectors are drawn like the shipped passages (normal, with their mean and covariance, of unit length), and
questions are the encoded texts of tests/knowledge/paraphrases.jsonl. The index is built and asked as the
service does; recall is by exact search in numpy, and searching takes turns with encoding the same text.
docs/methods/scale.md quotes what it prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy import select

from benchmarks.servers import ROOT, postgresql, seeded
from memory_service.recall.encoder import PACKAGED_SHA256, load_encoder, read_vectors
from memory_service.recall.passages import query_passages
from memory_service.services.database.transactions import Database
from memory_service.store.dialects import Vector32
from memory_service.store.queries import passages
from memory_service.store.tables.knowledge import Competition

DEPTH = 60
"""Passages that the service asks of the index (`services.competitions.signals`)."""


def drawn(count: int, seed: int = 7) -> Vector32:
    """Unit vectors (count, 384) with the mean and covariance of the shipped ones."""
    shipped = np.stack(list(read_vectors(PACKAGED_SHA256).values())).astype(np.float64)
    spread = np.linalg.cholesky(np.cov(shipped.T) + 1e-9 * np.eye(shipped.shape[1]))
    draw = np.random.default_rng(seed)
    vectors = shipped.mean(axis=0) + draw.standard_normal((count, shipped.shape[1])) @ spread.T
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def fill(database: Database, vectors: Vector32) -> float:
    """Store the vectors as passages of one competition; seconds that the index took."""
    with database.write() as writing:
        slug = writing.session.scalars(select(Competition.slug).limit(1)).one()
        with passages.many(writing.session):
            driver = writing.session.connection().connection.driver_connection
            assert driver is not None
            driver.execute("SET LOCAL statement_timeout = 0")
            into = "COPY passages (competition, position, kind, text, text_digest, embedding) FROM STDIN"
            with driver.cursor() as cursor, cursor.copy(into) as copy:
                for n, vector in enumerate(vectors):
                    copy.write_row((slug, 1_000 + n, "text", "", str(n), str(vector.tolist())))
            began = time.perf_counter()
        return time.perf_counter() - began


def main() -> None:
    """Print what was found."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--vectors", type=int, default=100_000)
    given = reader.parse_args()
    encoder = load_encoder().encoder
    assert encoder is not None
    lines = (ROOT / "tests" / "knowledge" / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    vectors = drawn(given.vectors)
    with tempfile.TemporaryDirectory() as folder, postgresql(Path(folder)) as url:
        seeded(url)
        with Database(url) as database:
            built = fill(database, vectors)
            found: dict[int, list[float]] = {10: [], DEPTH: []}
            encoding, searching = [], []
            for text in texts:
                began = time.perf_counter()
                asked = encoder.encode([p.text for p in query_passages(text)])
                encoding.append(time.perf_counter() - began)
                began = time.perf_counter()
                with database.read() as transaction:
                    hits = passages.nearest(transaction.session, asked, DEPTH)
                searching.append(time.perf_counter() - began)
                for one, of in zip(asked, hits, strict=True):
                    scores = np.sort(vectors @ one)[::-1]
                    for most, shares in found.items():
                        near = sum(hit.score >= scores[most - 1] - 1e-5 for hit in of[:most])
                        shares.append(near / most)
    ratios = [s / e for s, e in zip(searching[10:], encoding[10:], strict=True)]
    print(f"{given.vectors:,} vectors, index built in {built:.0f} s")
    for most, shares in found.items():
        print(f"recall@{most}: mean {np.mean(shares):.4f}, least {min(shares):.2f}, {len(shares)} questions")
    print(f"searching {statistics.median(searching[10:]) * 1e3:.1f} ms (median), ", end="")
    print(f"encoding {statistics.median(encoding[10:]) * 1e3:.1f} ms, ", end="")
    print(f"(encoding + searching) / encoding {1.0 + statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
