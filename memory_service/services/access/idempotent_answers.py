"""Answers by Idempotency-Key, for a day: a repeated request is answered alike by every server."""

import datetime as dt
from collections.abc import Mapping

from memory_service.errors import Conflict
from memory_service.services.database.transactions import Database
from memory_service.store.queries import keys as store
from memory_service.store.tables.keys import IdempotentAnswer

__all__ = ["IdempotentAnswer", "claim", "keep", "release"]

KEPT = dt.timedelta(days=1)
UNFINISHED = dt.timedelta(minutes=5)
"""After which a request counts as lost with its process. An answer begins within two minutes."""


def claim(database: Database, caller: str, key: str, digest: str) -> IdempotentAnswer | None:
    """None: the request is new, and noted as worked on; else as it was kept. Of two servers that are
    asked at once one is told so."""
    try:
        return _claim(database, caller, key, digest)
    except Conflict:  # another was quicker
        return _claim(database, caller, key, digest)


def _claim(database: Database, caller: str, key: str, digest: str) -> IdempotentAnswer | None:
    with database.write_untracked() as writing:
        session, now = writing.session, writing.now
        store.remove_old_idempotent_answers(session, now - KEPT, now - UNFINISHED)
        known = store.idempotent_answer(session, caller, key)
        if known is None:
            values = {"caller": caller, "key": key, "digest": digest, "updated_at": now}
            store.add_idempotent_answer(session, values)
        return known


def keep(
    database: Database, caller: str, key: str, status: int, headers: Mapping[str, str], body: str | None
) -> None:
    """The request has this answer."""
    with database.write_untracked() as writing:
        values = {"status": status, "headers": dict(headers), "body": body, "updated_at": writing.now}
        store.change_idempotent_answer(writing.session, caller, key, values)


def release(database: Database, caller: str, key: str) -> None:
    """The request was refused: it may be sent again."""
    with database.write_untracked() as writing:
        store.remove_idempotent_answer(writing.session, caller, key)
