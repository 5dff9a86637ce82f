"""Registering a device: looked at on this host, else the command to run beside it is given."""

import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any
from urllib.parse import urlsplit

from memory_service.domain.calibration.calibration import Fingerprint, device_card, drift_percent, key_figures
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.errors import NotFound, Unavailable, wrong_value
from memory_service.resources import NEEDS_TORCH, has_torch
from memory_service.schemas.calibrations import DEFAULT_BUDGET_SECONDS
from memory_service.schemas.fields import clean_text, key_text
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.devices import calibrations
from memory_service.services.devices.calibrations import ENDED, seconds_of, settle_if_possible
from memory_service.services.devices.devices import (
    Device,
    device_of,
    gpu_model_of,
    host_name,
    keep_device,
    measured_calibration,
    name_by_host,
    quarantined,
    registered,
    stale_because,
)
from memory_service.services.devices.local_calibration import Calibrating, Wanted
from memory_service.services.tables.audit import note
from memory_service.services.tables.table_rows import get_row, on_the_wire
from memory_service.services.tables.usable_rows import usable_sheets
from memory_service.store.queries import calibrations as store
from memory_service.store.queries import history
from memory_service.store.tables import devices as tables

_MOST_CALIBRATIONS = 50


def with_devices(transaction: ReadTransaction, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of GPU models, each with `devices`: the names of its registered devices."""
    names = store.names_by_gpu(transaction.session, [row["slug"] for row in rows])
    return [{**row, "devices": names[row["slug"]]} for row in rows]


def gpu_page(database: Database, key: str) -> dict[str, Any]:
    """The data sheet's row with `devices` (names of all of that model) and `registered` (devices, whole): of
    a GPU model all of them, of a device's name that one. `device` is the device that the key names, if any.

    A device elsewhere that has not said yet what it is has no data sheet: `slug` is null. NotFound.
    """
    settle_if_possible(database)
    with database.read() as transaction:
        device = store.device(transaction.session, key_text(key))
        try:
            sheet = get_row(transaction, "gpus", key)
        except NotFound:
            if device is None:
                raise
            sheet = {}
        rows = store.devices(transaction.session, key) if sheet else [device] if device else []
        if device is not None and device not in rows:
            rows = [device, *rows]
        if not sheet and device is not None:
            sheet = {"slug": None, "name": device.name, "kind": device.kind}
            with suppress(NotFound):
                sheet = get_row(transaction, "gpus", device.gpu or "")
        slug = sheet["slug"]
        names = store.names_by_gpu(transaction.session, [slug])[slug] if slug else [row.name for row in rows]
        about = {"device": device.name if device else None, "devices": names}
        return {**sheet, **about, "registered": devices_shown(transaction, rows)}


def devices_shown(transaction: ReadTransaction, rows: Sequence[tables.Device]) -> list[dict[str, Any]]:
    """Devices as JSON has them, each with its calibrations, newest first, and the drift between those
    usable."""
    shown: dict[str, list[tables.Calibration]] = {row.name: [] for row in rows}
    for each in store.of_device(transaction.session, list(shown), _MOST_CALIBRATIONS):
        shown[each.device].append(each)
    doubted = quarantined(transaction, list(chain.from_iterable(shown.values())))
    sheets = usable_sheets(transaction)
    return [_shown(row, shown[row.name], doubted, sheets) for row in rows]


def _shown(
    row: tables.Device,
    made: Sequence[tables.Calibration],
    doubted: Mapping[str, str],
    sheets: Mapping[str, Gpu],
) -> dict[str, Any]:
    columns = ("name", "gpu", "kind", "uuid", "word", "host", "fingerprint", "environment")
    values = {name: getattr(row, name) for name in (*columns, "registered_at", "seen_at")}
    values["device"] = values.pop("word")
    values["card"] = _card_of(row, sheets)
    device = device_of(row) if row.fingerprint else None
    values["calibrations"] = [_brief(each, device, doubted) for each in made]
    values["drift"] = _drift(made)
    return on_the_wire(values)


def _card_of(row: tables.Device, sheets: Mapping[str, Gpu]) -> dict[str, Any] | None:
    """The data sheet's figures with the device's own memory, cores and slice; None while it is not known."""
    if not row.fingerprint or not sheets:
        return None
    card = device_card(row.name, Fingerprint.from_dict(row.fingerprint), sheets, row.gpu)
    names = ("slug", "name", "kind", "architecture", "memory_gib", "usable_gib", "bandwidth_gb_s", "tdp_w")
    shown = {name: getattr(card, name) for name in names}
    return shown | {"tflops": dict(card.tflops), "cores": row.fingerprint.get("cores")}


def _brief(row: tables.Calibration, device: Device | None, doubted: Mapping[str, str]) -> dict[str, Any]:
    columns = (
        "id", "status", "started_at", "ended_at", "budget_seconds", "progress", "measured",
        "error_percent", "contended", "why", "origin", "environment",
    )  # fmt: skip
    stale = stale_because(row, device, doubted) if device is not None else ()
    made = measured_calibration(row)
    values = {name: getattr(row, name) for name in columns}
    values |= {"stale": list(stale), "usable": row.status in ENDED and not stale and made.usable}
    values["seconds"] = seconds_of(row)
    return on_the_wire(values | {"key_figures": key_figures(made.sections)})


def _drift(newest_first: Sequence[tables.Calibration]) -> list[dict[str, Any]]:
    """Between consecutive calibrations that measured something undisturbed, newest pair first; `because`:
    what changed on the device between them."""
    made = [measured_calibration(row) for row in newest_first if row.status in ENDED]
    usable = [each for each in made if each.usable]
    return [
        {"from": old.id, "to": new.id, "because": list(old.fingerprint.changes(new.fingerprint))}
        | {"groups": drift_percent(old.sections, new.sections)}
        for new, old in pairwise(usable)
    ]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_LOOPBACK = ("localhost", "127.", "[::1]", "::1")


def register_device(
    database: Database,
    requested: Mapping[str, Any],
    *,
    calibrating: Calibrating | None,
    server: str,
    who: str | None = None,
) -> tuple[dict[str, Any], bool]:
    """Register `{name, device?, calibrate?, budget_seconds?, force?}`; (the device as JSON has it, whether it
    is new).

    On this host its calibration is begun, unless `calibrating` is None (the operator forbids it) or it was
    not wanted. Otherwise `command` says what to run beside the device. InvalidInput for a wrong name or
    device word, an index past the cards, an unknown GPU model; Conflict when one of it runs, or the name is
    another device's.
    """
    name, word = _checked_name(requested["name"]), requested.get("device")
    budget = float(requested.get("budget_seconds", DEFAULT_BUDGET_SECONDS))
    force, measure = bool(requested.get("force", False)), bool(requested.get("calibrate", True))
    fingerprint, why = device_on_this_host(word)
    begun = None
    if fingerprint is not None and word is not None and measure and calibrating is not None and has_torch():
        begun = calibrating.start(Wanted(name, fingerprint, word, budget, force), who)
        new = begun.new
    else:
        with database.write() as transaction:
            host = host_name() if fingerprint is not None else None
            _, new = keep_device(
                transaction, name, fingerprint, word=word, host=host, who=who, looked_at=True
            )
        if fingerprint is not None:
            forbidden = _FORBIDDEN if has_torch() else f"calibrating {NEEDS_TORCH}"
            why = "no calibration was asked for" if not measure else forbidden
    answer: dict[str, Any] = {"calibration": None, "command": None, "why": None}
    if begun is not None:
        answer["calibration"] = {"id": begun.id, "status": begun.status}
    else:
        reachable, hint = _reachable(server)
        answer["command"] = _command(name, word, budget, force, reachable)
        answer["why"] = f"{why}; {hint}" if hint else why
    with database.read() as transaction:
        row = store.device(transaction.session, name)
        shown = devices_shown(transaction, [row])[0] if row is not None else {}
    return {**shown, **answer}, new


def device_on_this_host(word: str | None) -> tuple[Fingerprint | None, str]:
    """The fingerprint of a device of this host; None, and why, where there is none such here.

    InvalidInput for a word that means no device, or an index past the cards that are here.
    """
    if word is None:
        return None, "no device of this host was named"
    from memory_service.measure.identity import identify

    try:
        return identify(word), ""
    except Unavailable as error:
        return None, error.detail


def look_at(word: str | None) -> tuple[str, Fingerprint]:
    """The word and fingerprint of a device of this host, without a word of its first. InvalidInput for a word
    that means none, Unavailable where there is no such device here."""
    from memory_service.measure.identity import identify, local_devices

    word = word or local_devices()[0]
    return word, identify(word)


def usual_name(database: Database, fingerprint: Fingerprint, word: str) -> str:
    """What a device of this host is called when nobody says: as it was registered, else by host and word; its
    processor `cpu` while no other device is."""
    with database.read() as transaction:
        known = registered(transaction)
        for device in known:
            own = device.host == host_name() and not device.told_by
            if own and device.fingerprint.uuid == fingerprint.uuid:
                return device.name
        model = gpu_model_of(transaction, fingerprint).slug
    free = model == "cpu" and model not in {device.name for device in known}
    return model if free else name_by_host(host_name(), word)


def remove_device(database: Database, name: str, *, who: str | None = None) -> bool:
    """Forget a device and its calibrations; False when there is none of this name. Conflict while one of
    them runs, or reports; what another than the device's owner says to run on it ends. A name that is a GPU
    model's too means the device: its data sheet stays."""
    calibrations.settle(database)
    try:
        clean_text(name)
    except ValueError:
        return False
    with database.write() as transaction:
        row = store.device(transaction.session, name, to_change=True)
        if row is None:
            return False
        owners = history.first_tellers(transaction.session, "devices", name)
        calibrations.end_those_of_others(transaction, name, who, *owners)
        calibrations.refuse_second(transaction, name, row.uuid or "", who)
        store.remove_device(transaction.session, row)
        note(transaction, "devices", name, "delete", "forgotten, with its calibrations", who=who)
    return True


_FORBIDDEN = "this server's host must not be loaded (MEMORY_CALIBRATE is off)"


def _checked_name(given: str) -> str:
    if _NAME.fullmatch(given) is None:
        message = "must begin with a letter or digit and hold only letters, digits, '.', '_' and '-'"
        raise wrong_value("name", message, given)
    return given


def _command(name: str, word: str | None, budget: float, force: bool, server: str) -> str:
    parts = ["memory-service", "calibrate", "--name", name]
    parts += ["--device", word] if word else []
    parts += ["--budget-seconds", f"{budget:g}"] if budget != DEFAULT_BUDGET_SECONDS else []
    parts += ["--force"] if force else []
    return shlex.join([*parts, "--server", server])


def _reachable(server: str) -> tuple[str, str]:
    """A URL for other hosts, and a hint where this one was asked by a name that only it knows."""
    server = server.rstrip("/")
    host = urlsplit(server).hostname or ""
    if not host.startswith(_LOOPBACK):
        return server, ""
    port = urlsplit(server).port
    other = f"http://{socket.gethostname()}" + (f":{port}" if port else "")
    return (
        server,
        f"from another host use --server {other} (and start the server with --host 0.0.0.0: it wants keys)",
    )
