"""Tables of API keys and sessions; nothing in them lets anybody sign in."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import Json, Name
from memory_service.store.tables.outcomes import Base

__all__ = ["ApiKey", "Base", "BrowserSession"]

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
