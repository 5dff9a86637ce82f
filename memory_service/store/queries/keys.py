"""Queries of API keys, sessions, what keys used, and answers by Idempotency-Key."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from memory_service.store.session import ReadSession, WriteSession, bulk
from memory_service.store.tables.keys import ApiKey, BrowserSession, IdempotentAnswer, KeyUsage


def find(session: ReadSession, key_id: str) -> ApiKey | None:
    return session.scalars(select(ApiKey).where(ApiKey.id == key_id)).one_or_none()


def find_or_another(session: ReadSession, key_id: str) -> ApiKey | None:
    """The key of this id, else any other: equal timing hides which ids exist."""
    exact = select(ApiKey.id).where(ApiKey.id == key_id).scalar_subquery()
    first = select(func.min(ApiKey.id)).scalar_subquery()
    return session.scalars(select(ApiKey).where(ApiKey.id == func.coalesce(exact, first))).one_or_none()


def counts(session: ReadSession) -> tuple[int, int]:
    """(keys, revoked ones), which differs after one was made or revoked, whatever the servers' clocks say."""
    made, revoked = session.execute(select(func.count(), func.count(ApiKey.revoked_at))).one()
    return made, revoked


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


def keep_sessions(session: WriteSession, key_id: str, most: int) -> None:
    """End those of a key but the latest."""
    latest = (
        select(BrowserSession.digest)
        .filter_by(key_id=key_id)
        .order_by(BrowserSession.created_at.desc(), BrowserSession.digest)
    )
    for digest in session.scalars(latest).all()[most:]:
        remove_session(session, digest)


def add_usage(session: WriteSession, day: str, key_id: str, events: int, size: int) -> None:
    """Count a key's events and bytes of a day."""
    more = {"events": KeyUsage.events + events, "bytes": KeyUsage.bytes + size}
    if not bulk(session, update(KeyUsage).filter_by(key_id=key_id, day=day).values(more)):
        session.execute(insert(KeyUsage), [{"key_id": key_id, "day": day, "events": events, "bytes": size}])


def usage_of(session: ReadSession, day: str) -> dict[str, tuple[int, int]]:
    """Key id -> (events, bytes) of a day."""
    rows = session.execute(select(KeyUsage.key_id, KeyUsage.events, KeyUsage.bytes).filter_by(day=day))
    return {key_id: (events, size) for key_id, events, size in rows}


def remove_usage(session: WriteSession, before: str) -> None:
    bulk(session, delete(KeyUsage).where(KeyUsage.day < before))


def idempotent_answer(session: ReadSession, caller: str, key: str) -> IdempotentAnswer | None:
    return session.get(IdempotentAnswer, (caller, key))


def add_idempotent_answer(session: WriteSession, values: Mapping[str, Any]) -> None:
    """IntegrityError where another did at the same time."""
    session.execute(insert(IdempotentAnswer), [values])


def change_idempotent_answer(session: WriteSession, caller: str, key: str, values: Mapping[str, Any]) -> None:
    bulk(session, update(IdempotentAnswer).filter_by(caller=caller, key=key).values(**values))


def remove_idempotent_answer(session: WriteSession, caller: str, key: str) -> None:
    bulk(session, delete(IdempotentAnswer).filter_by(caller=caller, key=key))


def remove_old_idempotent_answers(
    session: WriteSession, before: dt.datetime, unfinished_before: dt.datetime
) -> None:
    """Those of requests that ended, and those of requests that never did."""
    answer = IdempotentAnswer
    lost = answer.status.is_(None) & (answer.updated_at < unfinished_before)
    gone = delete(answer).where(or_(answer.updated_at < before, lost))
    bulk(session, gone)
