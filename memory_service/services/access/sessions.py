"""Signing in on the pages with a key, and out again.

The browser holds a random id; the database its SHA-256. A session ends after twelve hours, when its key is
revoked or expires, or when its person signs out; a restart of the server does not end it.
"""

import datetime as dt
import secrets
from dataclasses import dataclass

from memory_service.domain.common.api_keys import digest
from memory_service.services.access.keyring import Holder
from memory_service.services.database.transactions import Database, WriteTransaction
from memory_service.services.tables.audit import note
from memory_service.store.queries import history
from memory_service.store.queries import keys as store

HOURS = 12.0

MOST_OF_KEY = 20
"""Sessions of one key; a further one ends the oldest."""

_NOTED = dt.timedelta(minutes=1)
"""Of a key that signs in again and again the history has one entry in this time."""


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """`id` is what the browser is to send; `seconds` until it ends."""

    id: str
    seconds: int


def sign_in(database: Database, holder: Holder, before: str | None = None) -> Session:
    """A new session of this key, whatever the browser sent; the one `before` ends."""
    session_id = secrets.token_urlsafe(32)
    with database.write_untracked() as transaction:
        ends = transaction.now + dt.timedelta(hours=HOURS)
        if holder.ends < ends.timestamp():
            ends = dt.datetime.fromtimestamp(holder.ends, dt.UTC)
        if before is not None:
            store.remove_session(transaction.session, digest(before))
        store.remove_sessions(transaction.session, before=transaction.now)
        store.keep_sessions(transaction.session, holder.key_id, MOST_OF_KEY - 1)
        values = {"digest": digest(session_id), "key_id": holder.key_id}
        store.add_session(transaction.session, {**values, "created_at": transaction.now, "expires_at": ends})
        _note(transaction, holder.key_id, "create", "signed in on the pages", holder.name)
        return Session(session_id, max(1, int((ends - transaction.now).total_seconds())))


def sign_out(database: Database, session_id: str, who: str) -> None:
    """The session's end."""
    with database.write_untracked() as transaction:
        found = store.session_of(transaction.session, digest(session_id))
        if found is not None:
            store.remove_session(transaction.session, found[0].digest)
            _note(transaction, found[1].id, "delete", "signed out", who)


def _note(transaction: WriteTransaction, key_id: str, action: history.Action, why: str, who: str) -> None:
    latest = history.of_row(transaction.session, "sessions", key_id, 2)
    if not any(each.action == action and transaction.now - each.at < _NOTED for each in latest):
        note(transaction, "sessions", key_id, action, why, who=who)
