"""Queries of devices and their calibrations."""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, TextClause, and_, false, func, or_, select, text
from sqlalchemy.orm import defer

from memory_service.domain.hardware.device_names import normal_gpu_name, plain_name
from memory_service.store.queries.runs import parts
from memory_service.store.session import ReadSession, WriteSession, each_value, locked_if
from memory_service.store.tables.devices import ENDED, Calibration, Device

ACTIVE = ("queued", "running")

MOST_DEVICES = 256
"""Of one reporter, those told of last: each costs whoever asks next a millisecond when one changed."""

MOST_OF_DEVICE, MOST_OF_REPORTER = 4, 128
"""Calibrations of one reporter that are read: of a device the newest (and the first, which others' later ones
are held against), and of all its devices."""

MOST_LOOKED_AT = 2_048
"""To find those: whatever a reporter posts, what others ask costs no more."""


def devices(session: ReadSession, gpu: str | None = None) -> list[Device]:
    """All devices, or those of one GPU model, by name; of a reporter with very many those told of last."""
    found = (row for (row,) in _told_last(session, Device) if gpu in (None, row.gpu))
    return sorted(found, key=attrgetter("name"))


def names_by_gpu(session: ReadSession, gpus: Sequence[str]) -> dict[str, list[str]]:
    """GPU model -> names of its `devices`, in order."""
    found: dict[str, list[str]] = {slug: [] for slug in gpus}
    for name, slug in sorted(_told_last(session, Device.name, Device.gpu)):
        found.get(slug, []).append(name)
    return found


def _told_last(session: ReadSession, *what: Any) -> Iterator[Any]:
    order = Device.told_at.desc(), Device.name.desc()
    for who in each_value(session, Device.told_by):
        query = select(*what).where(Device.told_by == who).order_by(*order)
        yield from session.execute(query.limit(MOST_DEVICES)).all()


def device(session: ReadSession, name: str, *, to_change: bool = False) -> Device | None:
    query = locked_if(select(Device).where(Device.name == name), to_change)
    return session.scalars(query).one_or_none()


def name_alike(session: ReadSession, name: str, who: str | None) -> str | None:
    """The name of another device that differs from this one in case alone or, where somebody else than `who`
    told of it, in case and separators (None: of nobody's)."""
    of_another = and_(_plain_name == plain_name(name), Device.told_by != who) if who is not None else false()
    query = select(Device.name).where(or_(_lower_name == name.lower(), of_another), Device.name != name)
    return session.scalars(query.limit(1)).first()


def bearing(session: ReadSession, names: Iterable[str], but: Collection[str]) -> str | None:
    """A device that bears one of these names of a GPU model, but for case, separators and maker, and that
    none of `but` told of."""
    plain = {each for name in names for each in (plain_name(name), normal_gpu_name(name))}
    query = select(Device.name).where(_plain_name.in_(plain), Device.told_by.not_in(but))
    return session.scalars(query.limit(1)).first()


_lower_name = func.lower(Device.name)
_plain_name = func.replace(func.replace(func.replace(_lower_name, "-", ""), "_", ""), ".", "")


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
    one = [Calibration.device == name for name in names if len(names) == 1]
    return _few(session, most, lambda row: row.device in names, *one)


def ended(session: ReadSession, gpus: Collection[str | None] | None = None) -> list[Calibration]:
    """Calibrations that ended, however, with something measured, of each reporter a few; newest first. gpus:
    of these alone."""
    return _few(session, MOST_OF_DEVICE, lambda row: gpus is None or row.gpu in gpus, text(ENDED))


def _few(
    session: ReadSession,
    of_device: int,
    wanted: Callable[[Any], bool],
    *where: ColumnElement[bool] | TextClause,
) -> list[Calibration]:
    """Of each reporter so many of a device, and MOST_OF_REPORTER in all, those cut short last; of the
    MOST_LOOKED_AT that it told of last."""
    at, ids = Calibration.heartbeat_at, list[str]()
    columns = Calibration.id, Calibration.device, Calibration.gpu, Calibration.status, at
    for who in each_value(session, Calibration.told_by, *where):
        query = select(*columns).where(*where, Calibration.told_by == who)
        query = query.order_by(at.desc(), Calibration.id.desc()).limit(MOST_LOOKED_AT)
        by_device: dict[str, list[Any]] = {}
        for row in filter(wanted, session.execute(query)):
            by_device.setdefault(row.device, []).append(row)
        turns: list[tuple[int, float, str]] = []
        for rows in by_device.values():
            best = enumerate(sorted(rows, key=lambda row: row.status in ("failed", "timed_out")))
            few = (each for each in best if each[0] < of_device or each[1] is rows[-1])
            turns += ((turn, -row.heartbeat_at.timestamp(), row.id) for turn, row in few)
        ids += (key for *_, key in heapq.nsmallest(MOST_OF_REPORTER, turns))
    of = (session.scalars(select(Calibration).where(Calibration.id.in_(some))) for some in parts(ids))
    return sorted(chain.from_iterable(of), key=lambda row: (-row.started_at.timestamp(), row.id))


def active(session: ReadSession) -> list[Calibration]:
    """Calibrations that have not ended, oldest first, without their sections."""
    query = select(Calibration).where(Calibration.status.in_(ACTIVE)).order_by(Calibration.started_at)
    return list(session.scalars(query.options(defer(Calibration.sections))))
