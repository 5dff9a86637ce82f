"""The real encoder, once a session, and databases of both kinds whose competitions are encoded by it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_service.recall.encoder import Encoder, LoadedEncoder, load_encoder
from memory_service.services.competitions.snapshot import texts_of
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from tests.catalogue import shipped_seeds
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
    rows = shipped_seeds()["competitions"].values()
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


@pytest.fixture(scope="session")
def encoded(servers: Servers, remembering: Remembering) -> Callable[[str], str]:
    """The name of a template with all seeds and their vectors, made once of a kind."""

    def template(kind: str) -> str:
        if (kind, "encoded") not in servers.templates:
            url = servers.new(kind, "seeded")
            database = Database(url)
            seeding.fill_embeddings(database, remembering)
            database.close()
            servers.templates[kind, "encoded"] = url
        return "encoded"

    return template


@pytest.fixture(scope="session")
def known_in(servers: Servers, encoded: Callable[[str], str]) -> Iterator[Callable[[str], Database]]:
    """Of a kind the database that all tests share, whichever kind the test before had."""
    with ExitStack() as opened:

        @cache
        def database_of(kind: str) -> Database:
            url = servers.new(kind, encoded(kind))
            opened.callback(servers.drop, url)
            database = Database(url)
            opened.callback(database.close)
            return database

        yield database_of


@pytest.fixture(params=KINDS)
def known(request: pytest.FixtureRequest, known_in: Callable[[str], Database]) -> Database:
    """All seeds with their vectors; only to read."""
    return known_in(str(request.param))
