"""The real encoder, once a session, and databases of both kinds whose competitions are encoded by it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_service.recall.encoder import Encoder, LoadedEncoder, load_encoder
from memory_service.resources import path
from memory_service.services.competitions.encoding import texts_of
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.editorial.seed_files import read_seeds
from tests.conftest import KINDS, Servers


@pytest.fixture(scope="session")
def loaded() -> LoadedEncoder:
    return load_encoder()


@pytest.fixture(scope="session")
def encoder(loaded: LoadedEncoder) -> Encoder:
    assert loaded.encoder is not None, loaded.reason
    return loaded.encoder


class Remembering:
    """The encoder, each text once: both databases hold the same passages. `kept`: vectors of before."""

    def __init__(self, encoder: Encoder, kept: Mapping[str, NDArray[np.float32]]) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._kept = dict(kept)

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if new:
            self._kept.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._kept[text] for text in texts])


@pytest.fixture(scope="session")
def remembering(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Remembering:
    """Has the vectors of all seeds, which the first worker that needs them computes for all."""
    rows = read_seeds(path("seeds"))["competitions"].values()
    texts = [text for row in rows for _, text in texts_of(row.values)]
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    file = folder / "vectors-of-seeds.npy"
    with (folder / "vectors-of-seeds.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            np.save(file, encoder.encode(texts))
    return Remembering(encoder, dict(zip(texts, np.load(file), strict=True)))


@pytest.fixture(scope="session", params=KINDS)
def known(request: pytest.FixtureRequest, servers: Servers, remembering: Remembering) -> Iterator[Database]:
    """All seeds with their vectors; only to read."""
    url = servers.new(str(request.param), "seeded")
    database = Database(url)
    seeding.fill_embeddings(database, remembering)
    yield database
    database.close()
    servers.drop(url)
