"""Exports that were made before, while no row of their table has changed."""

import threading
from collections.abc import Iterator

from cachetools import LRUCache

from memory_service.services.database.transactions import Database
from memory_service.store.queries.fingerprints import fingerprints

MOST_BYTES = 16 * 2**20
MOST_OF_ONE = 4 * 2**20
"""A larger file is made anew each time, and never whole in memory."""

CACHED_TABLES = ("claims", "competitions", "models", "profiles", "solutions", "strategies")
"""Whose export says nothing but their own rows: no devices, no outcomes of runs."""

Key = tuple[str, str]
"""(table, what was asked of it)"""


class ExportCache:
    """Up to 16 MiB of files; the oldest use goes first. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: LRUCache[Key, tuple[object, bytes]] = LRUCache(MOST_BYTES, lambda file: len(file[1]))

    def get(self, key: Key, state: object) -> bytes | None:
        """The file, None where it was made of another state of its table, or never."""
        with self._lock:
            known, file = self._files.get(key, (None, b""))
        return file if known == state else None

    def put(self, key: Key, state: object, file: bytes) -> None:
        with self._lock:
            self._files[key] = (state, file)


def cached_file(database: Database, key: Key) -> bytes | None:
    """The file as it was made before, where no row has changed since."""
    return database.caches.of(ExportCache).get(key, _state(database, key[0]))


def caching(database: Database, key: Key, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces; when the last has left, they are the file of the next who asks, unless a row changed
    meanwhile."""
    before, file, size = _state(database, key[0]), list[bytes](), 0
    for piece in pieces:
        size += len(piece)
        file = [*file, piece] if size <= MOST_OF_ONE else []
        yield piece
    if size <= MOST_OF_ONE and _state(database, key[0]) == before:
        database.caches.of(ExportCache).put(key, before, b"".join(file))


def _state(database: Database, table: str) -> object:
    with database.read() as transaction:
        return fingerprints(transaction.session, table)[table]
