"""Caches that belong to one object (a database, a state of the cards) and go with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Cache = TypeVar("Cache")
P = ParamSpec("P")


class Caches:
    """The caches of one owner, one of each kind, made when it is first asked for. Threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Callable[..., Any], Any] = {}

    def of(self, kind: Callable[P, Cache], *args: P.args, **kwargs: P.kwargs) -> Cache:
        """The owner's cache of this kind; the arguments count where it is made now."""
        with self._lock:
            if kind not in self._made:
                self._made[kind] = kind(*args, **kwargs)
            cache: Cache = self._made[kind]
        return cache
