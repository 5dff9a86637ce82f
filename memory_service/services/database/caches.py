"""Caches that belong to one object (a database, a state of the cards) and go with it."""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from cachetools import LRUCache

Cache = TypeVar("Cache")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
P = ParamSpec("P")


@dataclass(eq=False)
class _Latest:
    lock: threading.Lock = field(default_factory=threading.Lock)
    state: object = field(default_factory=object)
    value: Any = None


class Caches:
    """The caches of one owner, one of each kind, made when it is first asked for. Threads may share them.

    share   of the most that is `stored`: of an owner beside many of its kind
    """

    share = 1.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Callable[..., Any], Any] = {}
        self._latest: dict[Hashable, _Latest] = {}
        self._stored: dict[Hashable, LRUCache[Hashable, Any]] = {}

    def of(self, kind: Callable[P, Cache], *args: P.args, **kwargs: P.kwargs) -> Cache:
        """The owner's cache of this kind; the arguments count where it is made now."""
        with self._lock:
            if kind not in self._made:
                self._made[kind] = kind(*args, **kwargs)
            cache: Cache = self._made[kind]
        return cache

    def latest(self, name: Hashable, state: object, make: Callable[[], Value]) -> Value:
        """What `make` gave of the latest state: made anew where that is another than before, by one thread
        while the others wait."""
        with self._lock:
            known = self._latest.setdefault(name, _Latest())
        with known.lock:
            if known.state is not state and known.state != state:
                known.value, known.state = make(), state
            value: Value = known.value
        return value

    def stored(self, name: Hashable, key: Hashable, make: Callable[[], Value], most: int) -> Value:
        """What `make` gave for the key, of the `most` that were asked for last. Two threads may make the
        same."""
        with self._lock:
            found = self._stored.setdefault(name, LRUCache(most * self.share))
            if key in found:
                known: Value = found[key]
                return known
        made = make()
        with self._lock:
            found[key] = made
        return made

    def known(self, name: Hashable, key: Hashable) -> Any:
        """What is `stored` of the key; None where nothing is."""
        with self._lock:
            found = self._stored.get(name)
            return None if found is None else found.get(key)

    def of_rows(
        self,
        name: Hashable,
        states: Mapping[Key, object],
        make: Callable[[Sequence[Key]], Mapping[Key, Value]],
        most: int,
    ) -> dict[Key, Value]:
        """What `make` gave of each row, in the order of `states`: asked, once for all, of those that are new
        or have another state than when it was made. The `most` that were asked for last are kept."""
        with self._lock:
            found = self._stored.setdefault(name, LRUCache(most))
            kept = {key: found.get(key) for key in states}
        known = {key: one for key, one in kept.items() if one is not None and one[0] == states[key]}
        stale = [key for key in states if key not in known]
        if stale:
            made = make(stale)
            new = {key: (states[key], made[key]) for key in stale}
            with self._lock:
                found.update(new.items())
            known |= new
        return {key: known[key][1] for key in states}
