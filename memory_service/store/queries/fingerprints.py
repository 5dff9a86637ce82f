"""Cheap fingerprints that tell whether a table of knowledge has changed."""

from __future__ import annotations

from sqlalchemy import func, select

from memory_service.store.queries.rows import ENTITIES
from memory_service.store.session import ReadSession
from memory_service.store.tables.devices import Calibration, Device


def fingerprint(session: ReadSession, table: str) -> tuple[int, int, str]:
    """(rows, sum of versions, latest change): differs after any insert, correction or deletion of a row."""
    entity = ENTITIES[table]
    rows, versions, latest = session.execute(
        select(func.count(), func.sum(entity.version), func.max(entity.updated_at))
    ).one()
    return int(rows), int(versions or 0), str(latest)


def devices_fingerprint(session: ReadSession) -> tuple[str, ...]:
    """Changes when a device is registered, seen or deleted, and when a calibration ends."""
    devices = session.execute(
        select(func.count(), func.max(Device.registered_at), func.max(Device.seen_at))
    ).one()
    calibrations = session.execute(
        select(func.count(), func.max(Calibration.ended_at)).where(Calibration.ended_at.is_not(None))
    ).one()
    return tuple(str(value) for value in (*devices, *calibrations))
