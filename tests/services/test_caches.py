"""Caches belong to one database object."""

from __future__ import annotations

import gc
import weakref

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
