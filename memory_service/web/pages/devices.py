"""Devices, one of them, and one calibration."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, server_of, service_of
from memory_service.errors import Conflict, InvalidInput
from memory_service.schemas.calibrations import RegisterDeviceForm
from memory_service.schemas.validation_errors import checked
from memory_service.services.devices.registration import register_device
from memory_service.services.pages.devices import calibration_page, device_page
from memory_service.services.pages.tables import grid_page
from memory_service.web.charts.base import axis, band, bars, limit, line, option
from memory_service.web.pages.edit import editing_of
from memory_service.web.site import KEPT, Form, Pages, answer, query_of, see

router = Pages()
router.files("/browse/calibrations", "calibrations")


@router.page("/browse/devices")
def devices(request: Request) -> Response:
    return _list(request, {})


@router.form("/browse/devices")
def register(request: Request, form: Form) -> Response:
    """Register a device and measure it: then its calibration, or the command to copy."""
    service = service_of(request)
    fields = {name: value.strip() for name, value in form.items() if value.strip()}
    try:
        body = {"name": fields.get("device", ""), **fields, "calibrate": True}
        query = checked(RegisterDeviceForm, body).explicit()
        calibrating = service.calibrating if service.settings.calibrate else None
        server, who = server_of(request), who_of(request)
        registered, _ = register_device(
            database_of(request), query, calibrating=calibrating, server=server, who=who
        )
    except (InvalidInput, Conflict) as refusal:
        return _list(request, {"form": form, "refused": refusal.detail}, status=refusal.status)
    if registered["calibration"] is not None:
        return see(f"/browse/calibrations/{registered['calibration']['id']}")
    return see(f"/browse/devices/{quote(registered['name'])}")


def _list(request: Request, view: dict[str, Any], status: int = 200) -> Response:
    asked = query_of(request) if request.method == "GET" else {}
    data, editing = grid_page(database_of(request), "devices", asked), editing_of(request, "gpus", asked)
    allowed = service_of(request).settings.calibrate
    headers, server = KEPT if request.method == "POST" else None, server_of(request)
    status = editing["status"] if editing and status == 200 else status
    return answer(
        request, "devices/list.html", data, title="Devices", status=status, headers=headers,
        may_calibrate=allowed, server=server, editing=editing, **{"form": {}, "refused": None, **view},
    )  # fmt: skip


@router.page("/browse/devices/{name:path}")
def device(request: Request, name: str) -> Response:
    data = device_page(database_of(request), name)
    charts = {
        each["name"]: {
            "sheet": share_of_data_sheet(each["compared"]),
            "time": figures_over_time(each["history"]),
        }
        for each in data["registered"]
    }
    server = server_of(request)
    title = data["device"] or data["name"]
    return answer(request, "devices/one.html", data, title=title, charts=charts, server=server)


@router.page("/browse/calibrations/{key}")
def calibration(request: Request, key: str) -> Response:
    data = calibration_page(database_of(request), key)
    products = [row for group in data["groups"] if group["group"] == "matmul" for row in group["sections"]]
    title, charts = f"Calibration of {data['device']}", {"products": products_by_size(products)}
    return answer(request, "devices/calibration.html", data, title=title, charts=charts)


def share_of_data_sheet(compared: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Measured figures in percent of the data sheet's; None where it has none."""
    compared_rows = [row for row in compared if row["of_sheet_percent"] is not None]
    if not compared_rows:
        return None
    shares = [round(row["of_sheet_percent"], 1) for row in compared_rows]
    drawn = bars("measured", shares, colour="var(--measured)")
    figures = axis("Figure", "category", data=[row["figure"] for row in compared_rows])
    chart = drawn | {"markLine": limit(100.0, "data sheet", colour="var(--claimed)")}
    return option(figures, axis("Percent of the data sheet", at="y"), [chart])


def figures_over_time(history: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Each figure of every calibration in percent of its first; None with one calibration."""
    figures = [(each["figure"], each["points"]) for each in history]
    series = [line(name, [[at, n] for at, _, n in of if n is not None]) for name, of in figures]
    if not series:
        return None
    return option(axis("", "time"), axis("Percent of the first calibration", at="y", scale=True), series)


def products_by_size(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Matrix products over their side, a line a precision with its p20-p80 band; None under two sizes."""
    lines: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for row in sections:
        group, _, rest = row["section"].partition(".")
        precision, _, size = rest.partition(".")
        if group == "matmul" and size.isdigit():
            lines.setdefault(precision, []).append((int(size), row))
    if max((len(rows) for rows in lines.values()), default=0) < 2:
        return None
    series = []
    for number, (precision, rows) in enumerate(sorted(lines.items()), start=1):
        colour, rising = f"var(--series-{number})", sorted(rows, key=lambda one: one[0])
        series.append(line(precision, [[size, row["value"]] for size, row in rising], colour=colour))
        series += band(f"{precision} p20 to p80", [(n, r["p20"], r["p80"]) for n, r in rising], colour=colour)
    return option(axis("Side of the matrices", "log", logBase=2), axis("TFLOP/s", at="y"), series)
