"""Token buckets in memory that forked processes share.

A fixed table in an anonymous mapping: a name's place follows from its hash, and where all places for it are
taken the one that was used longest ago is forgotten. Nothing is locked: two processes that take from one
bucket in the same microsecond may both get the same token.
"""

import mmap
import struct
from hashlib import blake2b

_BUCKET = struct.Struct("<Qdd")
_PROBES = 8


class SharedBuckets:
    """name -> (tokens left, when), for some `most` names."""

    def __init__(self, most: int) -> None:
        self._places = 2 * most + _PROBES
        self._memory = mmap.mmap(-1, self._places * _BUCKET.size)

    def get(self, name: str) -> tuple[float, float] | None:
        """Tokens left, and at which time; None where the name was not used, or is forgotten."""
        key, first = self._key(name)
        for place in range(first, first + _PROBES):
            stored, left, at = _BUCKET.unpack_from(self._memory, place * _BUCKET.size)
            if stored == key:
                return left, at
        return None

    def put(self, name: str, left: float, at: float) -> None:
        """Remember them."""
        key, first = self._key(name)
        oldest, place = float("inf"), first
        for candidate in range(first, first + _PROBES):
            stored, _, used = _BUCKET.unpack_from(self._memory, candidate * _BUCKET.size)
            if stored in (key, 0):
                place = candidate
                break
            if used < oldest:
                oldest, place = used, candidate
        _BUCKET.pack_into(self._memory, place * _BUCKET.size, key, left, at)

    def _key(self, name: str) -> tuple[int, int]:
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        return key, key % (self._places - _PROBES)
