"""Signing in on the pages with a key, and out again.

The browser holds a random id; the database its SHA-256. A session ends after twelve hours, when its key is
revoked or expires, or when its person signs out; a restart of the server does not end it.
"""

import datetime as dt
import secrets
from dataclasses import dataclass

from memory_service.domain.common.api_keys import digest
from memory_service.services.access.keyring import Holder
from memory_service.services.database.transactions import Database
from memory_service.services.tables.audit import note
from memory_service.store.queries import keys as store

HOURS = 12.0


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
        values = {"digest": digest(session_id), "key_id": holder.key_id}
        store.add_session(transaction.session, {**values, "created_at": transaction.now, "expires_at": ends})
        note(transaction, "sessions", holder.key_id, "create", "signed in on the pages", who=holder.name)
        return Session(session_id, max(1, int((ends - transaction.now).total_seconds())))


def sign_out(database: Database, session_id: str, who: str) -> None:
    """The session's end."""
    with database.write_untracked() as transaction:
        found = store.session_of(transaction.session, digest(session_id))
        if found is not None:
            store.remove_session(transaction.session, found[0].digest)
            note(transaction, "sessions", found[1].id, "delete", "signed out", who=who)
