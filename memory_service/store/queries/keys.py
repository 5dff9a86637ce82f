"""Queries of API keys and sessions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from memory_service.store.session import ReadSession, WriteSession, bulk
from memory_service.store.tables.keys import ApiKey, BrowserSession


def find(session: ReadSession, key_id: str) -> ApiKey | None:
    return session.scalars(select(ApiKey).where(ApiKey.id == key_id)).one_or_none()


def find_or_another(session: ReadSession, key_id: str) -> ApiKey | None:
    """The key of this id, else any other: equal timing hides which ids exist."""
    exact = select(ApiKey.id).where(ApiKey.id == key_id).scalar_subquery()
    first = select(func.min(ApiKey.id)).scalar_subquery()
    return session.scalars(select(ApiKey).where(ApiKey.id == func.coalesce(exact, first))).one_or_none()


def in_use(session: ReadSession, name: str) -> ApiKey | None:
    """The key of this name that is not revoked."""
    query = select(ApiKey).where(ApiKey.name == name, ApiKey.revoked_at.is_(None))
    return session.scalars(query).one_or_none()


def every(session: ReadSession) -> list[ApiKey]:
    """All keys, the latest first."""
    return list(session.scalars(select(ApiKey).order_by(ApiKey.created_at.desc(), ApiKey.id)))


def add(session: WriteSession, values: Mapping[str, Any]) -> None:
    """Insert a key; IntegrityError when a key in use has its name."""
    session.execute(insert(ApiKey), [values])


def change(session: WriteSession, key_id: str, values: Mapping[str, Any]) -> None:
    bulk(session, update(ApiKey).where(ApiKey.id == key_id).values(**values))


def used(session: WriteSession, last: Mapping[str, dt.datetime]) -> None:
    """Store when keys (id -> moment) were last used."""
    for key_id, moment in sorted(last.items()):
        change(session, key_id, {"last_used_at": moment})


def session_of(session: ReadSession, digest: str) -> tuple[BrowserSession, ApiKey] | None:
    """The session and its key."""
    query = select(BrowserSession, ApiKey).join(ApiKey, ApiKey.id == BrowserSession.key_id)
    found = session.execute(query.where(BrowserSession.digest == digest)).one_or_none()
    return None if found is None else (found[0], found[1])


def add_session(session: WriteSession, values: Mapping[str, Any]) -> None:
    session.execute(insert(BrowserSession), [values])


def remove_session(session: WriteSession, digest: str) -> bool:
    """Whether there was one."""
    done = session.execute(delete(BrowserSession).where(BrowserSession.digest == digest))
    return bool(getattr(done, "rowcount", 0))


def remove_sessions(
    session: WriteSession, *, of_key: str | None = None, before: dt.datetime | None = None
) -> None:
    """Those of a key, or those that ended before."""
    query = delete(BrowserSession)
    if of_key is not None:
        query = query.where(BrowserSession.key_id == of_key)
    if before is not None:
        query = query.where(BrowserSession.expires_at < before)
    session.execute(query)
