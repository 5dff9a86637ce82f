"""Routes of devices among those of /gpus: registering one, one GPU model or device alone, forgetting one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memory_service.api import describe, device_shapes
from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_body
from memory_service.api.reading import json_object, no_query
from memory_service.api.routes.rows import TOLD, add_from
from memory_service.api.security.auth_middleware import needs, who_of
from memory_service.api.service import database_of, service_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.devices.calibration_values import LONGEST_BUDGET_SECONDS, SHORTEST_BUDGET_SECONDS
from memory_service.services.devices.gpu_history import gpu_page
from memory_service.services.devices.registration import (
    DEFAULT_BUDGET_SECONDS,
    register_device,
    remove_device,
)
from memory_service.services.tables.row_models import fields_of

__all__ = ["REGISTER", "add_one", "add_registration", "removed"]

Body = Annotated[dict[str, Any], Depends(json_object)]

REGISTER: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field(
            "name", "text", "What the device is to be called; `gpu=` takes it.", longest=120, required=True
        ),
        Field(
            "device",
            "text",
            "What its host calls it: `cuda:0`, `cpu`, `mps`. Left out: it is on another host.",
            longest=20,
        ),
        Field("calibrate", "boolean", "Whether to measure it now.", default=True),
        Field(
            "budget_seconds",
            "number",
            "Time that the calibration may take.",
            SHORTEST_BUDGET_SECONDS,
            LONGEST_BUDGET_SECONDS,
            default=DEFAULT_BUDGET_SECONDS,
        ),
        Field(
            "force",
            "boolean",
            "Measure although others use it; the result is kept and not used.",
            default=False,
        ),
    )
}

_SHEET = {*fields_of("gpus"), *TOLD} - {"name", "version"}
_DEVICE = REGISTER.keys() - {"name"}


def add_registration(router: APIRouter) -> None:
    """POST: a device of this or another host, or the data sheet of a GPU model."""

    @router.post("", name="add_to_gpus", status_code=201, **describe.registers(REGISTER))
    def add(request: Request, body: Body) -> Response:
        """Register a device and measure it (`name`, `device`, …), or add a data sheet (`slug`, `kind`, …)."""
        no_query(request)
        if _is_sheet(body):
            return add_from(request, "gpus", body)
        service, asked = service_of(request), checked_body(REGISTER, body)
        _needed(request, asked)
        shown, new = register_device(
            database_of(request),
            asked,
            calibrating=service.calibrating if service.settings.calibrate else None,
            server=str(request.base_url),
            who=who_of(request),
        )
        return json_answer(shown, 201 if new else 200, {"Location": f"/gpus/{shown['name']}"})


def _needed(request: Request, asked: Mapping[str, Any]) -> None:
    if "device" in asked and asked.get("calibrate", True):
        needs(request, "admin", "measure a device of the server's host")


def add_one(router: APIRouter) -> None:
    """GET of a GPU model or a device by its name."""

    @router.get("/{key:path}", name="get_gpus", **describe.one(device_shapes.CardPage))
    def one(request: Request, key: str) -> Response:
        """Data sheet, devices with fingerprints, calibrations over time and the drift between them."""
        no_query(request)
        return json_answer(gpu_page(database_of(request), key))


def removed(request: Request, key: str, told: Mapping[str, Any]) -> bool:
    """Forget the device of this name, with its calibrations; False when there is none, or when `version`
    tells that the data sheet of the same name is meant."""
    return "version" not in told and remove_device(database_of(request), key, who=who_of(request))


def _is_sheet(body: Mapping[str, Any]) -> bool:
    """Which of the two forms it is; InvalidInput for a mixture."""
    sheet, device = sorted(_SHEET & body.keys()), sorted(_DEVICE & body.keys())
    if sheet and device:
        message = f"belongs to registering a device, {sheet[0]!r} to a data sheet: send one or the other"
        raise InvalidInput(f"{device[0]!r} {message}", [FieldError(device[0], message, body[device[0]])])
    if not sheet and body.get("name") is None:
        message = "is required: of a device {name, device}, of a data sheet {slug, name, kind, ...}"
        unknown = [FieldError(name, "unknown field") for name in body if name not in REGISTER]
        raise InvalidInput(f"name {message}", [*unknown, FieldError("name", message)])
    return bool(sheet)
