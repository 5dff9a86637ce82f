"""Registered devices, the GPU model of each, and whether its calibrations still hold.

A device is known by more than its name: a name belongs to one `Fingerprint.uuid`. What may change about it
(driver, torch, power limit, cores) is kept as it was seen last; a calibration made under anything else is
stale.
"""

import datetime as dt
import logging
import platform
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from cachetools import LRUCache, cached

from memory_service.domain.calibration.calibration import (
    ENVIRONMENT_FIELDS,
    LEAST_SPEED,
    Calibration,
    Fingerprint,
    device_card,
    speed_of,
)
from memory_service.domain.hardware.device_names import reads_as_card, spellings
from memory_service.domain.hardware.gpu_spec import (
    UNKNOWN_GPU,
    Gpu,
    counted,
    gpu_index,
    normal_gpu_name,
    resolve_gpu,
)
from memory_service.domain.prediction.trust import (
    calibration_doubt,
    calibrations_agree,
    confirmed_sections,
    reporter_of,
)
from memory_service.errors import Conflict, FieldError, InvalidInput, MemoryServiceError, wrong_value
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.tables.audit import ANONYMOUS, NO_KEY, SERVICE, note
from memory_service.services.tables.usable_rows import usable_sheets
from memory_service.store.engine import is_readable
from memory_service.store.queries import calibrations as store
from memory_service.store.queries import history
from memory_service.store.tables import devices as tables

CLOCKS_APART = dt.timedelta(minutes=10)
"""A result begun this long before a device was last seen is an old one; less may be another host's clock."""

MOST_OF_REPORTER = 16
"""Calibrations of one GPU model, the newest, that count of one reporter for other devices and reporters: what
each further one costs does not grow."""

_UNKNOWN = {"kind": "", "name": "", "uuid": "", "memory_gib": 0.0}
_SLICE = re.compile(r"\sMIG\s\S{1,40}$", re.IGNORECASE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Device:
    """One registered piece of hardware.

    gpu          slug of its GPU model (the row may have been deleted since)
    fingerprint  as it was when it was seen last
    host         name of the host that it is in; told_by: the key that first said what it is, else ""
    registrant   the key that registered it, else ""
    """

    name: str
    gpu: str
    fingerprint: Fingerprint
    host: str | None
    told_by: str = ""
    registrant: str = ""

    def is_unconfirmed_for(self, asker: str | None) -> bool:
        """Whether another key than the asker's and than the one that registered it said what it is."""
        return self.registrant not in ("", self.told_by) and asker != self.told_by


@dataclass(frozen=True, slots=True)
class KeptCalibration:
    """A calibration that ended with something measured, and why it no longer holds.

    gpu    slug of the device's GPU model
    stale  what changed on the device since, as sentences; empty: it holds
    told_by  the key that posted it; "" otherwise
    checked  whether its reference networks were run; reporter: who told of it
    shared   what counts of it for other keys and other devices: of what a key posted, the sections that
             another reporter measured much the same; None where there are none
    """

    calibration: Calibration
    gpu: str
    stale: tuple[str, ...]
    told_by: str = ""
    checked: bool = False
    reporter: str = ""
    shared: Calibration | None = None

    @property
    def current(self) -> bool:
        """Whether rates may stand on it."""
        return self.calibration.usable and not self.stale


def registered(transaction: ReadTransaction) -> list[Device]:
    """Every device whose fingerprint is known, by name."""
    return [device_of(row) for row in store.devices(transaction.session) if row.fingerprint]


def calibrations_of(
    transaction: ReadTransaction, devices: Iterable[Device], ended: Iterable[tables.Calibration]
) -> list[KeptCalibration]:
    """Those of the devices that can be read, best first: those that were done before those that were cut
    short, the newest first (of those cut short, the one that got furthest). ended: with something measured,
    the newest first."""
    now, every = {device.name: device for device in devices}, [row for row in ended if _readable(row)]
    rows, made = [row for row in every if row.device in now], _made(every)
    sheets = usable_sheets(transaction)
    doubted, kept = _doubted(made, sheets), []
    sound = [each for each in made if each[0].id not in doubted and _is_sound(each[0], each[1], sheets)]
    known, others_of = {row.id for row, *_ in sound}, _others(sound)
    counted: Counter[tuple[str | None, str]] = Counter()
    for row in sorted(rows, key=lambda row: (row.status != "done") * (10**9 - row.measured)):
        why = stale_because(row, now[row.device], doubted)
        of, key = measured_calibration(row), _key_of(row)
        told = key, row.error_percent is not None, row.told_by
        counted[row.gpu, key] += 1
        many = counted[row.gpu, key] > MOST_OF_REPORTER
        others = others_of(row.gpu, row.told_by) if key and not many and row.id in known else {}
        found = confirmed_sections(of, others) if key else of.sections
        shared = replace(of, sections=found) if found else None
        kept.append(KeptCalibration(of, now[row.device].gpu, why, *told, shared))
    return kept


def _is_sound(row: tables.Calibration, of: Calibration, sheets: Mapping[str, Gpu]) -> bool:
    """Whether it can say something of other devices, and confirm what another key measured."""
    if of.contended or row.gpu not in sheets:
        return False
    card = device_card(row.device, of.fingerprint, sheets, row.gpu)
    return card.kind != "cuda" or (speed_of(of, card) or 0.0) >= LEAST_SPEED


def _readable(row: tables.Calibration) -> bool:
    return is_readable(row.fingerprint, row.environment, row.sections, row.missing)


def stale_because(row: tables.Calibration, device: Device, doubted: Mapping[str, str]) -> tuple[str, ...]:
    """What changed on the device since the calibration, and why it is in quarantine, as sentences; empty if
    nothing. doubted: as `quarantined` gives it."""
    if not _readable(row):
        return ("its stored values are damaged and cannot be read",)
    changed = Fingerprint.from_dict(row.fingerprint).changes(device.fingerprint)
    return (*changed, *([doubted[row.id]] if row.id in doubted else ()))


_Made = Sequence[tuple[tables.Calibration, Calibration, str]]


def _made(rows: Sequence[tables.Calibration]) -> _Made:
    """Each with who told of it, in the order that this service got them."""
    # By this service's clock: callers say when they began.
    by_time = sorted(rows, key=lambda row: row.heartbeat_at)
    return [(row, measured_calibration(row), row.told_by) for row in by_time]


def _others(made: _Made) -> Callable[[str | None, str], dict[str, Sequence[Calibration]]]:
    """The latest calibrations of a GPU model that others told of, by reporter, keys as `_key` names them."""
    latest: dict[str | None, dict[str, deque[Calibration]]] = {}
    for row, of, who in made:
        latest.setdefault(row.gpu, {}).setdefault(who, deque(maxlen=MOST_OF_REPORTER)).append(of)
    return lambda gpu, reporter: {
        _key(who) or who: [*some] for who, some in latest.get(gpu, {}).items() if who != reporter
    }


def _key_of(row: tables.Calibration) -> str:
    """The reporter that posted it, as `reporter_of` names it; "" of what was measured here."""
    return _key(row.told_by) if row.origin == "posted" else ""


def _key(who: str) -> str:
    return "" if who in NO_KEY else reporter_of(who, None)


def quarantined(transaction: ReadTransaction, rows: Sequence[tables.Calibration]) -> dict[str, str]:
    """Calibration -> why it cannot be, of those with which no other reporter's of the GPU model agrees."""
    sheets = usable_sheets(transaction)
    ended = _made([row for row in rows if row.status not in store.ACTIVE and row.measured and _readable(row)])
    if not _doubts(ended, sheets):
        return {}
    others = store.ended(transaction.session, {row.gpu for row, *_ in ended})
    every = {row.id: row for row in (*filter(_readable, others), *(row for row, *_ in ended))}
    return _doubted(_made([*every.values()]), sheets)


def _doubts(made: _Made, sheets: Mapping[str, Gpu]) -> dict[str, str]:
    """Calibration -> what contradicts its card's sheet or itself, of those that something does."""
    return {
        row.id: why
        for row, of, _ in made
        if (why := calibration_doubt(of, sheets.get(row.gpu), row.error_percent))
    }


def _doubted(made: _Made, sheets: Mapping[str, Gpu]) -> dict[str, str]:
    doubts = _doubts(made, sheets)
    others_of = _others([each for each in made if not each[1].contended])
    return {
        row.id: f"in quarantine until another reporter's calibration agrees: {doubts[row.id]}"
        for row, of, reporter in made
        if row.id in doubts
        and not any(calibrations_agree(of, one) for one in chain(*others_of(row.gpu, reporter).values()))
    }


@cached(
    LRUCache(2_048),
    key=lambda row: (row.id, row.device, row.heartbeat_at, row.status, row.measured, row.contended),
    lock=threading.Lock(),
)
def measured_calibration(row: tables.Calibration) -> Calibration:
    """A stored calibration as the domain has it."""
    raw = {each.name: getattr(row, each.name) for each in fields(Calibration)}
    raw["fingerprint"] = row.fingerprint or _UNKNOWN
    return Calibration.from_dict(raw | {"started_at": row.started_at.isoformat()})


def environment_of(fingerprint: Fingerprint) -> dict[str, Any]:
    """The part of a fingerprint whose change makes a calibration stale."""
    return {name: getattr(fingerprint, name) for name in ENVIRONMENT_FIELDS}


def gpu_model_of(transaction: ReadTransaction, fingerprint: Fingerprint) -> Gpu:
    """The data sheet of a device, by the name that its driver reports; of a processor the row `cpu`.

    InvalidInput names the nearest models and how to add a row.
    """
    sheets = usable_sheets(transaction)
    wanted = "cpu" if fingerprint.kind == "cpu" else _SLICE.sub("", fingerprint.name)
    slug = gpu_index(sheets).get(normal_gpu_name(wanted))
    if slug is None and fingerprint.kind == "mps":
        slug = gpu_index(sheets).get("mps")
    if slug is not None and sheets[slug].kind == fingerprint.kind:
        return sheets[slug]
    kin = {name: sheet for name, sheet in sheets.items() if sheet.kind == fingerprint.kind}
    raise _unknown_model(wanted, kin)


def keep_device(
    transaction: WriteTransaction,
    name: str,
    fingerprint: Fingerprint | None,
    *,
    word: str | None = None,
    host: str | None = None,
    seen_at: dt.datetime | None = None,
    who: str | None = None,
    looked_at: bool = False,
    corrects: bool = False,
) -> tuple[tables.Device, bool]:
    """The device under this name, registered now if it was not (then True), with what it is at the moment.

    `fingerprint` None: a device elsewhere, of which nothing is known yet. `seen_at`: when it was like this,
    None = now; an old result says nothing of what the device is today. `who`: for the audit. `looked_at`: it
    was seen on this host, not told from elsewhere. What another tells of a device than who told first changes
    nothing of it, unless it `corrects`: who measured it would lose what was measured. What a key said of a
    device that another registered by its name alone holds until who registered it, or may correct, says
    otherwise. Conflict when the name belongs to another piece of hardware or GPU model, which one that is
    known does not become by a caller's word; InvalidInput when it means a GPU model, or none is known.
    """
    row = store.device(transaction.session, name, to_change=True)
    new, renewed = row is None, False
    before = None if row is None else (row.fingerprint, row.gpu)
    if row is None:
        _check_name(transaction, name, fingerprint if looked_at else None, who)
        row = tables.Device(name=name, registered_at=transaction.now, told_by=who or ANONYMOUS)
    if fingerprint is not None:
        owners = () if new else history.first_tellers(transaction.session, "devices", name)
        provisional = bool(owners) and row.told_by != owners[0]
        may_renew = provisional and (corrects or looked_at or (who or ANONYMOUS) == owners[0])
        another_uuid = row.uuid is not None and row.uuid != fingerprint.uuid
        if another_uuid and not may_renew:
            raise _another_device(name, row, fingerprint)
        sheet = gpu_model_of(transaction, fingerprint)
        another_model = row.seen_at is not None and sheet.slug != row.gpu
        another_card = another_model and row.fingerprint.get("name") != fingerprint.name
        renewed = may_renew and (another_uuid or another_card)
        if renewed:
            row.word = row.host = row.seen_at = None
        known = row.seen_at is not None
        if known and not (looked_at or corrects):
            owner = _is_among(owners, who)
            if another_card or (another_model and not owner):
                raise _another_device(name, row, fingerprint, sheet.slug)
            if not owner:
                return row, new
        row.gpu, row.kind, row.uuid = sheet.slug, fingerprint.kind, fingerprint.uuid
        if not known:
            row.told_by = who or ANONYMOUS
        elif may_renew:
            row.told_by = owners[0]  # who may say so says that it is this one
        seen_at = seen_at or transaction.now
        if row.seen_at is None or seen_at > row.seen_at - CLOCKS_APART:
            row.fingerprint, row.environment = fingerprint.as_dict(), environment_of(fingerprint)
            row.seen_at = max(seen_at, row.seen_at or seen_at)
    row.word, row.host, row.told_at = word or row.word, host or row.host, transaction.now
    if new:
        store.add(transaction.session, row)
        note(transaction, "devices", name, "create", "registered", who=who)
    elif renewed:
        note(transaction, "devices", name, "create", "another device than a key had said", who=who)
    elif (row.fingerprint, row.gpu) != before:
        note(transaction, "devices", name, "update", "seen anew", who=who)
    return row, new


def told_by_another(row: tables.Calibration, *who: str | None) -> bool:
    """Whether somebody else than these, were it the service or a person without a key, told of it."""
    return row.told_by not in ("", *(one or ANONYMOUS for one in who))


def is_owner(transaction: ReadTransaction, name: str, who: str | None) -> bool:
    """Whether somebody is the first who told of a device, or of what is registered by its name alone what it
    is; of one that nobody is known to have told of, anybody."""
    return _is_among(history.first_tellers(transaction.session, "devices", name), who)


def _is_among(owners: Sequence[str], who: str | None) -> bool:
    return not owners or (who or ANONYMOUS) in owners


def look_again(database: Database, identify: Callable[[str], Fingerprint], words: list[str]) -> list[str]:
    """See what the devices of this host are now; names of those whose environment changed.

    words   of the devices that are here now (`measure.identity.local_devices`); a card's number may change
    """
    here = {}
    for word in words:
        try:
            fingerprint = identify(word)
        except MemoryServiceError as error:
            _log.warning("device %s cannot be looked at: %s", word, error.detail)
        else:
            here[fingerprint.uuid] = (word, fingerprint)
    with database.read() as transaction:
        known = [d for d in registered(transaction) if d.host == host_name() and d.fingerprint.uuid in here]
    changed = [d.name for d in known if d.fingerprint != here[d.fingerprint.uuid][1]]
    if changed:
        with database.write() as writing:
            for name in changed:
                row = store.device(writing.session, name, to_change=True)
                if row is not None and row.uuid in here:
                    word, fingerprint = here[row.uuid]
                    row.word, row.seen_at, row.fingerprint = word, writing.now, fingerprint.as_dict()
                    row.told_at = writing.now
                    row.environment = environment_of(fingerprint)
                    note(writing, "devices", name, "update", "changed since it was seen last", who=SERVICE)
    return changed


def host_name() -> str:
    """The name of this host, as devices carry it."""
    return platform.node() or "localhost"


def name_by_host(host: str, word: str) -> str:
    """`box7-cuda0`: a name for a device that nobody named."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{host}-{word.replace(':', '')}")
    return plain.strip("-._")[:120]


def device_of(row: tables.Device, registrant: str = "") -> Device:
    """A stored device whose fingerprint is known. registrant: who registered it, as the history has it."""
    fingerprint = Fingerprint.from_dict(row.fingerprint)
    return Device(row.name, row.gpu or "", fingerprint, row.host, _key(row.told_by), _key(registrant))


def _another_device(name: str, row: tables.Device, given: Fingerprint, model: str | None = None) -> Conflict:
    """model: slug of its GPU model, where it is that which differs"""
    field, known = ("uuid", row.uuid) if model is None else ("name", row.gpu)
    message = f"{name!r} is registered as {row.fingerprint.get('name')} ({known}); this is {given.name}"
    message += f" ({model or given.uuid})"
    detail = f"{message}: choose another name, or DELETE /gpus/{name} first"
    value, before = getattr(given, field), str(row.fingerprint.get(field))
    return Conflict(detail, [FieldError(f"fingerprint.{field}", message, value, (before,))])


def _check_name(transaction: ReadTransaction, name: str, seen: Fingerprint | None, who: str | None) -> None:
    """A new device must not take a name by which people mean a GPU model: whoever asks for the model would be
    answered with that device; no key, one that stands for any ("gpu", "Colab"). Only a processor of this very
    host may be called `cpu`."""

    def refused(message: str) -> InvalidInput:
        return wrong_value("name", message, name, detail=f"{name!r} {message}")

    key = bool(_key(who or ""))
    other = store.name_alike(transaction.session, name, who if key else None)
    if other is not None:
        raise refused(
            f"is the name of the device {other!r} in other letters or separators; choose another one"
        )
    sheets = usable_sheets(transaction)
    for each in dict.fromkeys(spellings(name, gpu_index(sheets))):
        try:
            meant = resolve_gpu(counted(each)[1], sheets).slug
        except InvalidInput as unresolved:
            if seen is not None or not key or unresolved.errors[0].message == UNKNOWN_GPU:
                continue
            raise refused(
                "stands for GPUs of any kind; choose another name for a device, such as 'box7'"
            ) from None
        own = seen is not None and seen.kind == "cpu"
        if not (own and meant == "cpu"):
            raise refused(
                f"means the GPU model {meant!r}; choose another name for a device, such as 'box7-{meant}'"
            )
    if key and reads_as_card(name):
        raise refused(f"reads as the name of a card; choose another name for a device, such as 'box7-{name}'")


def _unknown_model(name: str, sheets: Mapping[str, Gpu]) -> InvalidInput:
    try:
        resolve_gpu(name, sheets)
        near: tuple[str, ...] = ()
    except InvalidInput as refusal:
        near = refusal.errors[0].nearest
    how = "add its data sheet with POST /gpus {slug, name, kind, ...} (this name as its name or an alias)"
    hint = f"; nearest: {', '.join(near)}" if near else ""
    detail = f"No data sheet is known for {name!r}{hint}: {how}, then register it again"
    message = "reports a GPU model without a data sheet"
    return wrong_value("device", message, name, detail=detail, nearest=near)
