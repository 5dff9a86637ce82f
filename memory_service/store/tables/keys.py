"""Tables of API keys, sessions and what keys used; nothing in them lets anybody sign in."""

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import Json, Name, Prose
from memory_service.store.tables.outcomes import Base

__all__ = ["ApiKey", "Base", "BrowserSession", "IdempotentAnswer", "KeyUsage"]

_IN_USE = text("revoked_at IS NULL")


class ApiKey(Base):
    """A key (`domain.common.api_keys`), by its public id. A name belongs to one key that is not revoked.

    digest        SHA-256 of the whole key
    expires_at    null: never
    last_used_at  to about a minute
    """

    __tablename__ = "api_keys"
    __table_args__ = (
        Index("uq_api_keys_name", "name", unique=True, sqlite_where=_IN_USE, postgresql_where=_IN_USE),
    )

    id: Mapped[str] = mapped_column(Name, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    scopes: Mapped[Any] = mapped_column(Json, nullable=False)
    digest: Mapped[str]
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str]
    expires_at: Mapped[dt.datetime | None]
    last_used_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]


class BrowserSession(Base):
    """Somebody signed in on the pages. `digest`: SHA-256 of the random id that the browser's cookie holds."""

    __tablename__ = "browser_sessions"

    digest: Mapped[str] = mapped_column(Name, primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)


class KeyUsage(Base):
    """Events and bytes that a key sent to be stored on a day (UTC, ISO 8601)."""

    __tablename__ = "key_usage"

    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[str] = mapped_column(Name, primary_key=True)
    events: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)


class IdempotentAnswer(Base):
    """A request with an Idempotency-Key, for a day.

    caller   id of the API key, empty without one
    digest   of the request
    status   of its answer; null while it is worked on
    headers, body   of the answer; null where it holds a secret
    """

    __tablename__ = "idempotent_answers"

    caller: Mapped[str] = mapped_column(Name, primary_key=True)
    key: Mapped[str] = mapped_column(Name, primary_key=True)
    digest: Mapped[str]
    status: Mapped[int | None]
    headers: Mapped[Any] = mapped_column(Json, nullable=True)
    body: Mapped[str | None] = mapped_column(Prose)
    updated_at: Mapped[dt.datetime] = mapped_column(index=True)
