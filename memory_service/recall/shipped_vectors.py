"""Vectors of the texts that ship: passages of the seeded competitions and the example sentences.

`seeds/vectors.npz` holds them in half precision with the checksum of the weights that made them, so that a
first start need not encode a thousand texts. `python -m checks.vectors` writes it.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from memory_service import resources

FILE = "vectors.npz"
_DIGEST_BYTES = 16

Vectors = Mapping[bytes, NDArray[np.float16]]


def digest(text: str) -> bytes:
    """What a text is looked up by."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def read_vectors(weights_sha256: str) -> Vectors:
    """Digest -> unit vector (384,); empty where the file is missing or other weights made it."""
    try:
        path = resources.path("seeds", FILE)
    except FileNotFoundError:
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["weights_sha256"]) != weights_sha256:
            return {}
        digests, vectors = file["digests"].tobytes(), file["vectors"]
    keys = (digests[i : i + _DIGEST_BYTES] for i in range(0, len(digests), _DIGEST_BYTES))
    return dict(zip(keys, vectors, strict=True))
