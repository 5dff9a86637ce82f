"""Devices, one of them, and one calibration."""

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
from memory_service.web.charts.devices import figures_over_time, products_by_size, share_of_data_sheet
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
