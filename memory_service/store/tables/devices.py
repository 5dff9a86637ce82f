"""Tables of registered devices and their calibrations."""

import datetime as dt
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from memory_service.store.dialects import JsonObject, Name, Prose
from memory_service.store.tables.knowledge import LISTED, Base, key_column

__all__ = ["ENDED", "LISTED", "Base", "Calibration", "Device"]

_ACTIVE = text("status IN ('queued', 'running')")

ENDED = "measured > 0 AND status NOT IN ('queued', 'running')"
"""Calibrations that predictions may rest on. In these very words an index of them is found."""

_LATEST = ("told_by", "heartbeat_at", "id")


class Device(Base):
    """A registered device as last seen (`domain.calibration.calibration.Fingerprint`); null until it reports.

    word   what its own host calls it: "cuda:0", "cpu"; host: that host's name
    told_by   who first said what it is, else who registered it; told_at: when somebody last said what it is
    """

    __tablename__ = "devices"
    __table_args__ = (Index(None, "told_by", "told_at", "name"),)

    name: Mapped[str] = key_column()
    gpu: Mapped[str | None] = mapped_column(Name, index=True)
    kind: Mapped[str | None]
    uuid: Mapped[str | None] = mapped_column(Name, index=True)
    word: Mapped[str | None]
    host: Mapped[str | None]
    fingerprint: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    environment: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    registered_at: Mapped[dt.datetime]
    seen_at: Mapped[dt.datetime | None]
    told_by: Mapped[str] = mapped_column(server_default="")
    told_at: Mapped[dt.datetime | None]


class Calibration(Base):
    """One timed benchmark of one device (`domain.calibration.calibration.Calibration`), running or ended.

    fingerprint, environment   of the device at that time
    progress      0 to 1; doing: the section that runs; measured: number of sections
    error_percent   of the self-check
    runner        the process that runs it here, "host/pid/start"; null for one that runs elsewhere
    told_by       who began it, as the history has it
    """

    __tablename__ = "calibrations"
    __table_args__ = (
        CheckConstraint("status IN ('queued', 'running', 'done', 'failed', 'timed_out')", name="status"),
        CheckConstraint("origin IN ('local', 'posted')", name="origin"),
        Index(
            "uq_calibrations_active", "device", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE
        ),
        Index("ix_calibrations_ended", *_LATEST, sqlite_where=text(ENDED), postgresql_where=text(ENDED)),
        Index("ix_calibrations_latest", *_LATEST),
        Index("ix_calibrations_of_device", "device", *_LATEST),
    )

    id: Mapped[str] = key_column()
    device: Mapped[str] = mapped_column(ForeignKey("devices.name", ondelete="CASCADE"), index=True)
    gpu: Mapped[str] = mapped_column(Name, index=True)
    status: Mapped[str] = mapped_column(Name, index=True)
    progress: Mapped[float]
    doing: Mapped[str | None]
    measured: Mapped[int] = mapped_column(index=True)
    error_percent: Mapped[float | None] = mapped_column(index=True)
    contended: Mapped[bool]
    budget_seconds: Mapped[float]
    seconds: Mapped[float | None]
    why: Mapped[str | None] = mapped_column(Prose)
    origin: Mapped[str]
    runner: Mapped[str | None]
    version: Mapped[str]
    started_at: Mapped[dt.datetime] = mapped_column(index=True)
    heartbeat_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    fingerprint: Mapped[Any] = mapped_column(JsonObject, nullable=False)
    environment: Mapped[Any] = mapped_column(JsonObject, nullable=False)
    sections: Mapped[Any] = mapped_column(JsonObject, nullable=False)
    missing: Mapped[Any] = mapped_column(JsonObject, nullable=False)
    self_check: Mapped[Any] = mapped_column(JsonObject, nullable=True)
    told_by: Mapped[str] = mapped_column(server_default="")
