"""All that is known of one GPU model or device: data sheet, fingerprints, calibrations and their drift."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

from memory_service.domain.calibration.calibration import Fingerprint, device_card, drift_percent, key_figures
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.errors import NotFound
from memory_service.schemas.fields import key_text
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.devices.calibrations import ENDED, seconds_of, settle_if_possible
from memory_service.services.devices.devices import (
    Device,
    device_of,
    measured_calibration,
    quarantined,
    stale_because,
)
from memory_service.services.tables.table_rows import get_row, on_the_wire
from memory_service.services.tables.usable_rows import usable_sheets
from memory_service.store.queries import calibrations as store
from memory_service.store.queries.rows import all_rows
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
    sheets = usable_sheets(all_rows(transaction.session, "gpus"))
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
