"""Calibrations: read, listed, followed, and taken in when they were made elsewhere.

One without news for `SILENT_SECONDS`, or whose process is gone, has failed: the first reader
writes that down. What it had measured is kept.
"""

import contextlib
import datetime as dt
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import psutil
from sqlalchemy import select

from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement, device_card
from memory_service.domain.calibration.corrected_rates import self_check
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.errors import Conflict, FieldError, Forbidden, NotFound, Unavailable
from memory_service.linear_algebra import on_one_thread
from memory_service.resources import path
from memory_service.schemas.calibrations import Posted, posted_calibration
from memory_service.schemas.fields import key_text
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.devices import devices
from memory_service.services.editorial.seed_files import read_lines
from memory_service.services.tables.audit import ANONYMOUS, SERVICE, note
from memory_service.services.tables.table_rows import on_the_wire
from memory_service.services.tables.usable_rows import usable_sheets
from memory_service.store.queries import calibrations as store
from memory_service.store.tables import devices as tables

ENDED = ("done", "failed", "timed_out")
STATUSES = (*store.ACTIVE, *ENDED)

SILENT_SECONDS = 30.0
"""A calibration reports every three seconds; ten missed reports are its end."""

MOST_SETTLED, MOST_CHECKED = 4, 400
"""At once, and sections of them: whoever asks waits for the self-check of each. A whole one has some 250."""

_UNCHECKED: Mapping[str, Any] = {
    "median_error_percent": None, "networks": [], "doubt": "it stopped before anybody checked it",
}  # fmt: skip

_settling = threading.Lock()

_SLOW_DISK = 10.0
"""Times as long for a process that lives on this host: its reports may wait for the disk."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event for a listener; `id` lets it resume."""

    name: str
    data: Mapping[str, Any]
    id: str


def runner_here() -> str:
    """This process, as the calibrations that it runs carry it: "host/pid/start"."""
    me = psutil.Process()
    return f"{devices.host_name()}/{me.pid}/{me.create_time():.2f}"


def settle(database: Database) -> int:
    """Write down which active calibrations have in fact failed; how many. Cheap when there are none."""
    with database.read() as transaction:
        active = store.active(transaction.session)
        dead = {row.id: row.measured for row in active if _death(row, dt.datetime.now(dt.UTC))}
    count, room = 0, MOST_CHECKED
    for key, sections in islice(dead.items(), MOST_SETTLED):
        room -= sections if (few := sections <= MOST_CHECKED) else 0
        if room < 0:
            break
        check = check_of(database, key, {}) if few else _UNCHECKED
        with database.write() as writing:
            row = store.calibration(writing.session, key, to_change=True)
            why = _death(row, writing.now) if row is not None and row.status in store.ACTIVE else None
            if row is not None and why is not None:
                finish(writing, row, "failed", why, row.heartbeat_at, check, who=SERVICE)
                count += 1
    return count


def check_of(
    database: Database, key: str, more: Mapping[str, Measurement], sent: Calibration | None = None
) -> Mapping[str, Any] | None:
    """The self-check of a calibration, as it is stored or else as it was sent, with what more was measured.
    It is made before the transaction that keeps it, in which nobody else could write."""
    with database.read() as transaction:
        row = store.calibration(transaction.session, key)
        of = sent if row is None else devices.measured_calibration(row)
        if of is None:
            return None
        of = replace(of, sections={**of.sections, **more})
        gpu = devices.gpu_model_of(transaction, of.fingerprint).slug if row is None else row.gpu
        sheets = usable_sheets(transaction)
    return checked_by_networks(of, device_card(of.device, of.fingerprint, sheets, gpu))


def with_staleness(transaction: ReadTransaction, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of calibrations, each with `stale`: the reasons why it no longer holds."""
    now = {device.name: device for device in devices.registered(transaction)}
    query = select(tables.Calibration).where(tables.Calibration.id.in_([row["id"] for row in rows]))
    stored = {row.id: row for row in transaction.session.scalars(query) if row.device in now}
    doubted = devices.quarantined(transaction, list(stored.values()))
    reasons = {key: devices.stale_because(row, now[row.device], doubted) for key, row in stored.items()}
    return [{**row, "stale": list(reasons.get(row["id"], ()))} for row in rows]


def get_calibration(database: Database, key: str) -> dict[str, Any]:
    """One calibration, whole; NotFound when there is none."""
    settle_if_possible(database)
    with database.read() as transaction:
        row = _existing(transaction, key)
        of = store.device(transaction.session, row.device)
        device = devices.device_of(of) if of is not None and of.fingerprint else None
        return shown(row, device, devices.quarantined(transaction, [row]))


def shown(
    row: tables.Calibration, device: devices.Device | None, doubted: Mapping[str, str]
) -> dict[str, Any]:
    """A calibration as JSON has it; `device` as it is now decides what is stale."""
    stale = devices.stale_because(row, device, doubted) if device is not None else ()
    ended = row.status in ENDED
    values = {column.name: getattr(row, column.name) for column in tables.Calibration.__table__.columns}
    values.pop("runner")
    values["seconds"] = seconds_of(row)
    usable = ended and not stale and devices.measured_calibration(row).usable
    values |= {"stale": list(stale), "usable": usable}
    return on_the_wire(values)


def events_after(database: Database, key: str, sections: int, missing: int) -> tuple[list[Event], bool]:
    """What happened behind the first so many sections and missing ones, and whether that is all there will
    be. NotFound."""
    with database.read() as transaction:
        row = _existing(transaction, key)
    ended = row.status in ENDED
    events: list[Event] = []
    for place, (name, found) in enumerate([*row.sections.items()][sections:], sections + 1):
        events.append(Event("section", {"name": name, **found}, f"{place}.{missing}"))
    for place, (name, why) in enumerate([*row.missing.items()][missing:], missing + 1):
        events.append(Event("missing", {"name": name, "why": why}, f"{len(row.sections)}.{place}"))
    state = {name: getattr(row, name) for name in ("status", "progress", "doing", "measured")}
    state["seconds"] = seconds_of(row)
    last = f"{len(row.sections)}.{len(row.missing)}"
    events.append(Event("progress", state, last))
    if ended:
        names = ("id", "status", "why", "contended", "seconds", "measured", "self_check")
        events.append(Event("end", {name: getattr(row, name) for name in names}, last))
    return events, ended


def accept(
    database: Database, given: Posted | Mapping[str, Any], *, who: str | None = None, corrects: bool = False
) -> tuple[dict[str, Any], bool]:
    """Take in a calibration made elsewhere, whole each time; (as it stands now, whether it is new).

    The same id again extends it while it runs. InvalidInput names each wrong field; Forbidden when another
    began it; Conflict when the fingerprint is not its device's, another one of the device runs, or it ended
    with another result. corrects: whether the caller may change what another told.
    """
    now = dt.datetime.now(dt.UTC)
    posted, sent = posted_calibration(given, now)
    settle(database)
    with database.read() as transaction:
        row = store.calibration(transaction.session, sent.id)
        goes_on = row is not None and row.status in store.ACTIVE and sent.status == "running"
    ends = sent.status in ENDED and (row is None or may_go_on(row))
    check = check_of(database, sent.id, sent.sections, sent) if ends else None
    # What a plan may rest on changes when a device comes or a calibration ends, not with every section.
    with database.write_untracked() if goes_on else database.write() as writing:
        row = store.calibration(writing.session, sent.id, to_change=True)
        new = row is None
        if row is None:
            row = _begun(writing, posted, sent, who, corrects=corrects)
        elif not corrects and devices.told_by_another(row, who):
            raise Forbidden("Another began this calibration: go on with the same key, or one of scope edit")
        else:
            _check_same(row, sent, posted.device)
            if sent.status == "running" and row.status not in store.ACTIVE:  # given up for its silence
                refuse_second(writing, row.device, None, who)
        if may_go_on(row):
            _extend(row, posted, sent, writing.now)
            if sent.status in ENDED:
                ended = _ended(row, posted, writing.now)
                finish(writing, row, sent.status, sent.why, ended, check, who=who)
        writing.session.flush()
    return get_calibration(database, sent.id), new


def _ended(row: tables.Calibration, posted: Posted, now: dt.datetime) -> dt.datetime:
    """When it ended by its own account: a result may be posted long after it was measured."""
    if posted.seconds is None or now - row.started_at < dt.timedelta(seconds=posted.seconds):
        return now
    return row.started_at + dt.timedelta(seconds=posted.seconds)


def refuse_second(transaction: ReadTransaction, name: str, uuid: str | None, who: str | None) -> None:
    """Conflict when a calibration of this device has not ended: by name, or by what it is where no other key
    says so; by name alone without a uuid."""
    for row in store.active(transaction.session):
        alike = uuid is not None and row.fingerprint.get("uuid") == uuid
        if row.device == name or (alike and not _posted_by_another(row, who)):
            message = f"calibration {row.id} of {row.device!r} is {row.status}; wait until it ends"
            raise Conflict(message, [FieldError("device", message, name, (row.id,))])


def _begun(
    transaction: WriteTransaction, posted: Posted, sent: Calibration, who: str | None, *, corrects: bool
) -> tables.Calibration:
    name = sent.device or _name_for(transaction, posted, sent, who)
    began = min(dt.datetime.fromisoformat(sent.started_at), transaction.now)
    device, _ = devices.keep_device(
        transaction, name, sent.fingerprint, word=posted.word, host=posted.host, seen_at=began, who=who,
        corrects=corrects,
    )  # fmt: skip
    if devices.is_owner(transaction, name, who):
        end_those_of_others(transaction, name, who)
    refuse_second(transaction, name, sent.fingerprint.uuid if sent.status == "running" else None, who)
    row = add_row(
        transaction, sent.id, device, sent.fingerprint, status="running", contended=sent.contended,
        budget_seconds=sent.budget_seconds, origin="posted", version=sent.version,
        started_at=dt.datetime.fromisoformat(sent.started_at), who=who,
    )  # fmt: skip
    note(transaction, "calibrations", sent.id, "create", f"of {name}, made elsewhere", who=who)
    return row


def end_those_of_others(transaction: WriteTransaction, name: str, *who: str | None) -> None:
    """What another key says to run on a device stops nobody who told of the device first, or has it here."""
    for row in store.active(transaction.session):
        if row.device == name and _posted_by_another(row, *who):
            why = "who told of the device first, or has it here, measures it"
            finish(transaction, row, "failed", why, row.heartbeat_at, None, who=SERVICE)


def _posted_by_another(row: tables.Calibration, *who: str | None) -> bool:
    return row.origin == "posted" and devices.told_by_another(row, *who)


def add_row(
    transaction: WriteTransaction,
    key: str,
    device: tables.Device,
    fingerprint: Fingerprint,
    who: str | None,
    **values: Any,
) -> tables.Calibration:
    """The row of a calibration that begins: nothing is measured yet."""
    row = tables.Calibration(
        told_by=who or ANONYMOUS,
        id=key, device=device.name, gpu=device.gpu, progress=0.0, measured=0, heartbeat_at=transaction.now,
        fingerprint=fingerprint.as_dict(), environment=devices.environment_of(fingerprint), sections={},
        missing={}, **values,
    )  # fmt: skip
    store.add(transaction.session, row)
    return row


def _name_for(transaction: ReadTransaction, posted: Posted, sent: Calibration, who: str | None) -> str:
    """The name under which its host registered it with this key, else one of host and word."""
    for device in devices.registered(transaction):
        same = device.fingerprint.uuid == sent.fingerprint.uuid and device.host in (posted.host, None)
        if same and devices.is_owner(transaction, device.name, who):
            return device.name
    return devices.name_by_host(posted.host or "", posted.word or sent.fingerprint.kind)


def _check_same(row: tables.Calibration, sent: Calibration, device: str | None) -> None:
    if row.origin != "posted" or (device is not None and row.device != device):
        raise _another(row, "id", "is another calibration's", sent.id)
    if row.fingerprint != sent.fingerprint.as_dict():
        raise _another(row, "fingerprint", "is not the one it began with", sent.fingerprint.uuid)
    if may_go_on(row):
        return
    before = devices.measured_calibration(row)
    same = before.sections == sent.sections and before.missing == sent.missing and row.status == sent.status
    if not same or (row.contended, row.budget_seconds) != (sent.contended, sent.budget_seconds):
        raise _another(row, "id", f"ended as {row.status} with another result", sent.id)


def _another(row: tables.Calibration, field: str, message: str, given: str) -> Conflict:
    detail = f"calibration {row.id} of {row.device!r}: {field} {message}"
    return Conflict(detail, [FieldError(field, message, given)])


def _extend(row: tables.Calibration, posted: Posted, sent: Calibration, now: dt.datetime) -> None:
    row.sections = row.sections | {name: found.as_dict() for name, found in sent.sections.items()}
    row.missing = {n: why for n, why in (row.missing | sent.missing).items() if n not in row.sections}
    row.measured, row.contended = len(row.sections), row.contended or sent.contended
    row.progress, row.doing = max(row.progress, posted.progress), posted.doing
    row.status, row.why, row.ended_at, row.seconds = "running", None, None, None
    row.heartbeat_at = now


def finish(
    transaction: WriteTransaction,
    row: tables.Calibration,
    status: str,
    why: str | None,
    at: dt.datetime,
    check: Mapping[str, Any] | None,
    *,
    who: str | None,
) -> None:
    """The end of a calibration: how, why, when, who reported it, and how well its sections predict its
    networks (`check_of`)."""
    row.status, row.why, row.doing, row.ended_at = status, why, None, at
    row.seconds = round(max(0.0, (at - row.started_at).total_seconds()), 3)
    if status == "done":
        row.progress = 1.0
    row.self_check, row.error_percent = check, (check or {}).get("median_error_percent")
    transaction.session.flush()
    note(transaction, "calibrations", row.id, "update", f"of {row.device}, ended: {status}", who=who)


def may_go_on(row: tables.Calibration) -> bool:
    """Whether it has not ended, or was only given up for its silence: when it speaks again, it goes on."""
    return row.status in store.ACTIVE or (row.status == "failed" and row.why in (_SILENCE, _DEAD))


_SILENCE = "nothing more was heard of it: who measured was killed, or lost its way here"
_DEAD = "the process that ran it here is gone: it was killed, or its host went down"


def _death(row: tables.Calibration, now: dt.datetime) -> str | None:
    """Why an active calibration cannot go on; None while it may."""
    limit = SILENT_SECONDS
    if row.runner is not None:
        gone = _is_gone(row.runner)
        if gone:
            return _DEAD
        limit *= 1.0 if gone is None else _SLOW_DISK
    silent = (now - row.heartbeat_at).total_seconds() > limit
    return (_SILENCE if row.origin == "posted" else _DEAD) if silent else None


def _is_gone(runner: str) -> bool | None:
    """Whether a process of this host has ended; None for another host's, where only silence shows it."""
    host, pid, start = runner.rsplit("/", 2)
    if host != devices.host_name():
        return None
    if int(pid) == os.getpid():
        return runner != runner_here()
    try:
        return bool(abs(psutil.Process(int(pid)).create_time() - float(start)) > 1.0)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return None


def seconds_of(row: tables.Calibration) -> float:
    """How long it took, or has been taking."""
    if row.seconds is not None:
        return row.seconds
    return round(max(0.0, (dt.datetime.now(dt.UTC) - row.started_at).total_seconds()), 3)


def _existing(transaction: ReadTransaction, key: str) -> tables.Calibration:
    row = store.calibration(transaction.session, key_text(key))
    if row is None:
        shown_key = key[:80].encode("utf-8", "replace").decode()
        raise NotFound(f"calibrations has no {shown_key!r}")
    return row


def settle_if_possible(database: Database) -> None:
    """A database that cannot be written to can still be read; one reader at a time settles."""
    if _settling.acquire(blocking=False):
        try:
            with contextlib.suppress(Unavailable, Conflict):
                settle(database)
        finally:
            _settling.release()


_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def reference_profiles() -> tuple[Profile, ...]:
    """Profiles of the networks that every calibration trains."""
    rows = read_lines(path("seeds", "reference_profiles.jsonl.gz"))
    own = ({name: row[name] for name in Profile.__slots__ if name in row} for _, row in rows)
    return tuple(map(Profile.from_dict, own))


def checked_by_networks(calibration: Calibration, card: Gpu) -> dict[str, Any] | None:
    """`domain.calibration.corrected_rates.self_check` of a calibration of a device that is such a card; None
    where nothing was measured. Figures so far apart that nothing can be predicted from them are in doubt.

    It takes up to two seconds: nobody should wait for it to write.
    """
    if not calibration.sections:
        return None
    try:
        on_one_thread()
        return dict(self_check(calibration, card, reference_profiles()))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        # A result that cannot be checked is still a result: posted figures may be plausible one by one only.
        _log.exception("calibration %s cannot be checked by its networks", calibration.id)
        doubt = "its sections are too far apart to predict anything from them"
        return {"median_error_percent": None, "networks": [], "doubt": doubt}
