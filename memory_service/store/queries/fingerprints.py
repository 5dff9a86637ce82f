"""Cheap fingerprints that tell whether a table of knowledge has changed."""

from functools import lru_cache
from typing import Any

from sqlalchemy import CompoundSelect, func, literal, select, union_all

from memory_service.store.queries.rows import ENTITIES
from memory_service.store.session import ReadSession
from memory_service.store.tables.devices import Calibration, Device


def fingerprints(session: ReadSession, *tables: str) -> dict[str, tuple[int, int, str]]:
    """Table -> (rows, sum of versions, latest change), which differs after any insert, correction or deletion
    of a row. One statement for all."""
    return {
        table: (int(count), int(versions or 0), str(latest))
        for table, count, versions, latest in session.execute(_statement(tables))
    }


@lru_cache(maxsize=8)
def _statement(tables: tuple[str, ...]) -> CompoundSelect[Any]:
    """Profiles are written whole, never corrected: their versions, behind 15 MB of figures, are not read."""

    def of(table: str) -> Any:
        entity, count = ENTITIES[table], func.count()
        changes = count if table == "profiles" else func.sum(entity.version)
        return select(literal(table), count, changes, func.max(entity.updated_at))

    return union_all(*map(of, tables))


def devices_fingerprint(session: ReadSession) -> tuple[str, ...]:
    """Changes when a device is registered, seen or deleted, and when a calibration ends."""
    devices = session.execute(
        select(func.count(), func.max(Device.registered_at), func.max(Device.seen_at))
    ).one()
    calibrations = session.execute(
        select(func.count(), func.max(Calibration.ended_at)).where(Calibration.ended_at.is_not(None))
    ).one()
    return tuple(str(value) for value in (*devices, *calibrations))
