"""Caches belong to one database object."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from functools import partial

from memory_service.services.database.caches import Caches
from memory_service.services.database.transactions import Database


class _Anything:
    """A cache of something."""


def test_an_owner_has_one_cache_of_a_kind_and_shares_it_with_nobody():
    one, other = Caches(), Caches()
    assert one.of(_Anything) is one.of(_Anything) is not other.of(_Anything)


def test_caches_go_with_their_database(database: Database):
    with Database(str(database.engine.url.render_as_string(hide_password=False))) as another:
        with another.read() as transaction:
            cache = weakref.ref(transaction.caches.of(_Anything))
        assert cache() is another.caches.of(_Anything) is not database.caches.of(_Anything)
    del another, transaction
    gc.collect()
    assert cache() is None


def test_of_rows_only_those_that_changed_are_asked_for_all_at_once():
    caches, asked = Caches(), []

    def make(keys: Sequence[str]) -> dict[str, str]:
        asked.append(sorted(keys))
        return {key: key.upper() for key in keys}

    assert list(caches.of_rows("runs", {"b": 1, "a": 1}, make, 3).items()) == [("b", "B"), ("a", "A")]
    assert caches.of_rows("runs", {"c": 1, "a": 2, "b": 1}, make, 3) == {"c": "C", "a": "A", "b": "B"}
    assert caches.of_rows("runs", {"a": 2}, make, 3) == {"a": "A"}
    assert asked == [["a", "b"], ["a", "c"]]
    assert caches.of_rows("runs", dict.fromkeys("defg", 1), make, 3).keys() == set("defg"), "more than stay"


def test_an_owner_beside_many_of_its_kind_remembers_its_share():
    caches, made = Caches(), list[int]()
    caches.share = 0.25

    def square(key: int) -> int:
        made.append(key)
        return key**2

    for key in (*range(8), *range(8), 7):
        caches.stored("squares", key, partial(square, key), 16)
    assert made == [*range(8), *range(8)]
