"""Queries of devices and their calibrations."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import defer

from memory_service.store.queries.history import created
from memory_service.store.session import ReadSession, WriteSession, locked_if
from memory_service.store.tables.devices import Calibration, Device
from memory_service.store.tables.knowledge import History

ACTIVE = ("queued", "running")

MOST_DEVICES = 256
"""Of one reporter, those seen last: each costs whoever asks next a millisecond when one of them changed."""

MOST_OF_DEVICE, MOST_OF_REPORTER = 4, 128
"""Calibrations of one reporter that are read: of a device the newest (and the first, which others' later ones
are held against), and of all its devices."""


def devices(session: ReadSession, gpu: str | None = None) -> list[Device]:
    """All devices, or those of one GPU model, by name; of a reporter with very many those seen last."""
    query = select(Device).where(Device.name.in_(_seen_last())).order_by(Device.name)
    return list(session.scalars(query if gpu is None else query.where(Device.gpu == gpu)))


def names_by_gpu(session: ReadSession, gpus: Sequence[str]) -> dict[str, list[str]]:
    """GPU model -> names of its `devices`, in order."""
    query = select(Device.gpu, Device.name).where(Device.gpu.in_(gpus), Device.name.in_(_seen_last()))
    found: dict[str, list[str]] = {slug: [] for slug in gpus}
    for slug, name in session.execute(query.order_by(Device.name)):
        found[str(slug)].append(name)
    return found


def _seen_last() -> Select[tuple[str]]:
    told = created("devices") & (History.row == Device.name)
    latest = func.coalesce(Device.seen_at, Device.registered_at).desc(), Device.name
    turn = func.row_number().over(partition_by=History.who, order_by=latest).label("turn")
    of = select(Device.name, turn).outerjoin(History, told).subquery().c
    return select(of.name).where(of.turn <= MOST_DEVICES)


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


def of_device(session: ReadSession, names: Sequence[str], most: int) -> list[Calibration]:
    """The newest calibrations of these devices, of each reporter a few; newest first."""
    return _read(session, _few([Calibration.device.in_(names)], most))


def ended(session: ReadSession, gpus: Collection[str | None] | None = None) -> list[Calibration]:
    """Calibrations that ended, however, with something measured, of each reporter a few; newest first. gpus:
    of these alone."""
    return _read(session, few_ended(gpus))


def few_ended(gpus: Collection[str | None] | None = None) -> Select[tuple[str]]:
    """The ids of those."""
    where = [Calibration.status.not_in(ACTIVE), Calibration.measured > 0]
    if gpus is not None:
        where.append(Calibration.gpu.in_(gpus))
    return _few(where, MOST_OF_DEVICE, Calibration.status != "done")


def _few(
    where: Sequence[ColumnElement[bool]], of_device: int, *before: ColumnElement[bool]
) -> Select[tuple[str]]:
    """Ids: of each reporter so many of a device, and MOST_OF_REPORTER in all. before: what comes first"""
    at, device = Calibration.heartbeat_at, (Calibration.device, History.who)
    newest_first: tuple[ColumnElement[Any], ...] = (*before, at.desc(), Calibration.id.asc())
    oldest_first = at, Calibration.id
    newest = func.row_number().over(partition_by=device, order_by=newest_first).label("newest")
    first = func.row_number().over(partition_by=device, order_by=oldest_first).label("first")
    told = created("calibrations") & (History.row == Calibration.id)
    query = select(Calibration.id, History.who, at, newest, first).outerjoin(History, told)
    of = query.where(*where).subquery().c
    order = of.newest, of.heartbeat_at.desc(), of.id
    turn = func.row_number().over(partition_by=of.who, order_by=order).label("turn")
    few = select(of.id, turn).where(or_(of.newest <= of_device, of.first == 1)).subquery().c
    return select(few.id).where(few.turn <= MOST_OF_REPORTER)


def _read(session: ReadSession, ids: Select[tuple[str]]) -> list[Calibration]:
    query = select(Calibration).where(Calibration.id.in_(ids))
    return list(session.scalars(query.order_by(Calibration.started_at.desc(), Calibration.id)))


def active(session: ReadSession) -> list[Calibration]:
    """Calibrations that have not ended, oldest first, without their sections."""
    query = select(Calibration).where(Calibration.status.in_(ACTIVE)).order_by(Calibration.started_at)
    return list(session.scalars(query.options(defer(Calibration.sections))))
