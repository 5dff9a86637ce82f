"""A cache of exported files, each valid while no row of its table changes."""

import threading
from collections.abc import Iterator

from cachetools import LRUCache

from memory_service.services.database.transactions import Database
from memory_service.store.queries.fingerprints import fingerprints

MOST_BYTES = 16 * 2**20
MOST_OF_ONE = 4 * 2**20
"""A larger file is made anew each time, and never whole in memory."""

CACHED_TABLES = ("claims", "competitions", "models", "profiles", "solutions", "strategies")
"""Whose export depends on their own rows alone, not on devices or outcomes of runs."""

Key = tuple[str, str]
"""(table, query)"""


class ExportCache:
    """Up to 16 MiB of files; the least recently used goes first. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: LRUCache[Key, tuple[object, bytes]] = LRUCache(MOST_BYTES, lambda file: len(file[1]))

    def get(self, key: Key, fingerprint: object) -> bytes | None:
        """The file, None where it was made of other rows, or never."""
        with self._lock:
            known, file = self._files.get(key, (None, b""))
        return file if known == fingerprint else None

    def put(self, key: Key, fingerprint: object, file: bytes) -> None:
        with self._lock:
            self._files[key] = (fingerprint, file)


def cached(database: Database, key: Key, pieces: Iterator[bytes]) -> tuple[bytes] | Iterator[bytes]:
    """The whole file from the cache; else the pieces, which are cached once all were read."""
    fingerprint = _fingerprint(database, key[0])
    known = database.caches.of(ExportCache).get(key, fingerprint)
    return (known,) if known is not None else _caching(database, key, fingerprint, pieces)


def _caching(database: Database, key: Key, fingerprint: object, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Nothing is cached where a row changed since the fingerprint was taken: each page of rows is a
    transaction of its own."""
    file, size = list[bytes](), 0
    for piece in pieces:
        size += len(piece)
        file = [*file, piece] if size <= MOST_OF_ONE else []
        yield piece
    if size <= MOST_OF_ONE and _fingerprint(database, key[0]) == fingerprint:
        database.caches.of(ExportCache).put(key, fingerprint, b"".join(file))


def _fingerprint(database: Database, table: str) -> object:
    with database.read() as transaction:
        return fingerprints(transaction.session, table)[table]
