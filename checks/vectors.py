"""Vectors of the texts that ship, encoded once.

    python -m checks.vectors         (`make vectors` writes seeds/vectors.npz)

After a change of seeds/competitions.jsonl; a test says when it is due. Texts that have vectors of the same
weights are not encoded again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memory_service.recall.encoder import (
    FILE,
    PACKAGED_SHA256,
    Bert,
    digest,
    packaged_model_path,
    read_vectors,
)
from memory_service.services.competitions.snapshot import texts_of
from memory_service.services.editorial.seed_files import read_seeds

SEEDS = Path(__file__).resolve().parent.parent / "seeds"


def shipped_texts() -> list[str]:
    """Every text that a first start encodes, each once."""
    competitions = read_seeds(SEEDS)["competitions"].values()
    return list(dict.fromkeys(text for seed in competitions for _, text in texts_of(seed.values)))


def main() -> None:
    path = packaged_model_path()
    if path is None:
        raise SystemExit("the packaged encoder is not installed")
    texts, known = shipped_texts(), dict(read_vectors(PACKAGED_SHA256))
    new = [text for text in texts if digest(text) not in known]
    if new:
        vectors = Bert(path).encode(new).astype(np.float16)
        known |= dict(zip(map(digest, new), vectors, strict=True))
    np.savez_compressed(
        SEEDS / FILE,
        digests=np.frombuffer(b"".join(map(digest, texts)), dtype=np.uint8),
        vectors=np.array([known[digest(text)] for text in texts]),
        weights_sha256=np.array(PACKAGED_SHA256),
    )
    print(f"{len(texts)} texts in {SEEDS.name}/{FILE}, {len(new)} of them new")


if __name__ == "__main__":
    main()
