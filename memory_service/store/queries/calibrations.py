"""Queries of devices and their calibrations."""

from collections.abc import Collection, Sequence

from sqlalchemy import select

from memory_service.store.session import ReadSession, WriteSession, locked_if
from memory_service.store.tables.devices import Calibration, Device

ACTIVE = ("queued", "running")


def devices(session: ReadSession, gpu: str | None = None) -> list[Device]:
    """All devices, or those of one GPU model, by name."""
    query = select(Device).order_by(Device.name)
    return list(session.scalars(query if gpu is None else query.where(Device.gpu == gpu)))


def names_by_gpu(session: ReadSession, gpus: Sequence[str]) -> dict[str, list[str]]:
    """GPU model -> names of its devices, in order."""
    query = select(Device.gpu, Device.name).where(Device.gpu.in_(gpus)).order_by(Device.name)
    found: dict[str, list[str]] = {slug: [] for slug in gpus}
    for slug, name in session.execute(query):
        found[str(slug)].append(name)
    return found


def device(session: ReadSession, name: str, *, to_change: bool = False) -> Device | None:
    query = locked_if(select(Device).where(Device.name == name), to_change)
    return session.scalars(query).one_or_none()


def remove_device(session: WriteSession, row: Device) -> None:
    """Delete a device and its calibrations."""
    session.delete(row)
    session.flush()


def add(session: WriteSession, row: Device | Calibration) -> None:
    session.add(row)
    session.flush()


def calibration(session: ReadSession, key: str, *, to_change: bool = False) -> Calibration | None:
    query = locked_if(select(Calibration).where(Calibration.id == key), to_change)
    return session.scalars(query).one_or_none()


def of_device(session: ReadSession, names: Sequence[str]) -> list[Calibration]:
    """Every calibration of these devices, newest first."""
    query = select(Calibration).where(Calibration.device.in_(names))
    return list(session.scalars(query.order_by(Calibration.started_at.desc(), Calibration.id)))


def ended(session: ReadSession, gpus: Collection[str | None] | None = None) -> list[Calibration]:
    """Calibrations that ended, however, with something measured; newest first. gpus: of these alone."""
    query = select(Calibration).where(Calibration.status.not_in(ACTIVE), Calibration.measured > 0)
    if gpus is not None:
        query = query.where(Calibration.gpu.in_(gpus))
    return list(session.scalars(query.order_by(Calibration.started_at.desc(), Calibration.id)))


def active(session: ReadSession) -> list[Calibration]:
    """Calibrations that have not ended, oldest first."""
    query = select(Calibration).where(Calibration.status.in_(ACTIVE)).order_by(Calibration.started_at)
    return list(session.scalars(query))
