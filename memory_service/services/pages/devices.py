"""Pages of cards and devices: a data sheet beside what was measured, and one calibration."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.devices.calibrations import ENDED, get_calibration, settle_if_possible
from memory_service.services.devices.registration import devices_shown, gpu_page, with_devices
from memory_service.services.tables.table_rows import every_row, history_of
from memory_service.store.queries import calibrations as store

_SHEET = {
    "matmul.fp32": ("tflops", "fp32"),
    "matmul.tf32": ("tflops", "tf32"),
    "matmul.fp16": ("tflops", "fp16"),
    "matmul.bf16": ("tflops", "bf16"),
    "bandwidth.copy": ("bandwidth_gb_s", None),
}
"""Key figure of a calibration -> where the data sheet says it."""


def rows(database: Database, _: Mapping[str, str]) -> list[dict[str, Any]]:
    """GPU models, each with the names of its registered `devices`."""
    settle_if_possible(database)
    with database.read() as transaction:
        return with_devices(transaction, every_row(transaction, "gpus"))


def more(database: Database, *_: Any) -> dict[str, Any]:
    """`{"registered", "here"}`: devices with their newest calibration; what this host's are called."""
    from memory_service.measure.identity import local_devices

    with database.read() as transaction:
        shown = devices_shown(transaction, store.devices(transaction.session))
    known = [_brief(each) for each in shown]
    return {"registered": known, "here": local_devices()}


def _brief(device: Mapping[str, Any]) -> dict[str, Any]:
    made = device["calibrations"]
    newest = made[0] if made else None
    used = next((each for each in made if each["usable"]), None)
    names = ("name", "gpu", "kind", "host", "device", "card", "seen_at")
    return {**{name: device[name] for name in names}, "newest": newest, "used": used, "made": len(made)}


def device_page(database: Database, key: str) -> dict[str, Any]:
    """`services.devices.registration.gpu_page` with, for each registered device, `compared` (data sheet
    beside the
    newest usable calibration) and `history` (key figures of all usable ones, oldest first), and with the data
    sheet's own `history`. NotFound."""
    page = gpu_page(database, key)
    with database.read() as transaction:
        history = history_of(transaction, "gpus", page["slug"]) if page["slug"] else []
    devices = [
        {**device, "compared": _compared(device, page), "history": _history(device["calibrations"])}
        for device in page["registered"]
    ]
    return {**page, "registered": devices, "history": history}


def _compared(device: Mapping[str, Any], sheet: Mapping[str, Any]) -> list[dict[str, Any]]:
    used = next((each for each in device["calibrations"] if each["usable"]), None)
    if used is None:
        return []
    stated = device["card"] or sheet
    rows = []
    for name, figure in used["key_figures"].items():
        column, precision = _SHEET.get(name, (None, None))
        value = stated.get(column) if column else None
        said = value.get(precision) if isinstance(value, Mapping) else value
        share = 100 * figure["value"] / said if said else None
        row = {"figure": name, "unit": figure["unit"], "data_sheet": said, "measured": figure["value"]}
        rows.append(
            row | {"of_sheet_percent": share, "section": figure["section"], "calibration": used["id"]}
        )
    return rows


def _history(newest_first: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`[{"figure", "unit", "points": [[started_at, value, percent of the first]]}]` of figures that were
    measured more than once."""
    series: dict[str, dict[str, Any]] = {}
    for made in reversed([each for each in newest_first if each["usable"] or each["stale"]]):
        if made["status"] not in ENDED:
            continue
        for name, figure in made["key_figures"].items():
            stored = series.setdefault(name, {"figure": name, "unit": figure["unit"], "points": []})
            if stored["unit"] == figure["unit"]:
                first = stored["points"][0][1] if stored["points"] else figure["value"]
                share = 100 * figure["value"] / first if first else None
                stored["points"].append([made["started_at"], figure["value"], share])
    return [each for each in series.values() if len(each["points"]) > 1]


def calibration_page(database: Database, key: str) -> dict[str, Any]:
    """The calibration as `GET /calibrations/{id}` has it, and `groups`: its sections by what they measure,
    each `{"section", "value", "unit", "p20", "p80", "spread_percent", "n", "flagged"}`. NotFound."""
    made = get_calibration(database, key)
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, found in made["sections"].items():
        spread = 100 * (found["p80"] - found["p20"]) / found["value"] if found["value"] else None
        row = {"section": name, **found, "spread_percent": spread}
        groups.setdefault(name.partition(".")[0], []).append(row)
    groups_shown = [{"group": name, "sections": rows} for name, rows in groups.items()]
    return {**made, "groups": groups_shown, "active": made["status"] not in ENDED}
