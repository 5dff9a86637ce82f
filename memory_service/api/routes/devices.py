"""Routes of devices among those of /gpus: registering one, one GPU model or device alone, forgetting one."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Discriminator, Tag
from starlette.responses import Response

from memory_service.api.answers import json_answer
from memory_service.api.describe import created, refusals
from memory_service.api.routes.rows import add_from
from memory_service.api.security.auth_middleware import needs, who_of
from memory_service.api.service import database_of, service_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.schemas.answers.devices import CardPage, Registered, RegisteredDevice
from memory_service.schemas.devices import RegisterDevice
from memory_service.schemas.rows import Signature, addition_of, fields_of
from memory_service.services.devices.gpu_history import gpu_page
from memory_service.services.devices.registration import register_device, remove_device

_Sheet = addition_of("gpus")
_SHEET = {*fields_of("gpus"), *Signature.model_fields} - {"name"}
_DEVICE = RegisterDevice.model_fields.keys() - {"name"}


def _form(body: Any) -> str:
    """Which of the two forms it is; InvalidInput for a mixture."""
    if isinstance(body, _Sheet):  # read already: it was long
        return _Sheet.__name__
    if not isinstance(body, Mapping):
        return RegisterDevice.__name__
    sheet, device = sorted(_SHEET & body.keys()), sorted(_DEVICE & body.keys())
    if sheet and device:
        message = f"belongs to registering a device, {sheet[0]!r} to a data sheet: send one or the other"
        raise InvalidInput(f"{device[0]!r} {message}", [FieldError(device[0], message, body[device[0]])])
    if not sheet and body.get("name") is None:
        message = "is required: of a device {name, device}, of a data sheet {slug, name, kind, ...}"
        known = RegisterDevice.model_fields
        unknown = [FieldError(name, "unknown field") for name in body if name not in known]
        raise InvalidInput(f"name {message}", [*unknown, FieldError("name", message)])
    return _Sheet.__name__ if sheet else RegisterDevice.__name__


_Registration: Any = Annotated[
    Annotated[RegisterDevice, Tag(RegisterDevice.__name__)] | Annotated[_Sheet, Tag(_Sheet.__name__)],
    Discriminator(_form),
]
_REGISTERED = created(
    "Path of the device or of the new row.", Registered, "The device was registered before.", RegisteredDevice
)


def add_registration(router: APIRouter) -> None:
    """POST: a device of this or another host, or the data sheet of a GPU model."""

    @router.post("", name="add_to_gpus", status_code=201, responses=_REGISTERED | refusals(409))
    def add(request: Request, body: _Registration) -> Response:
        """Register a device and measure it (`name`, `device`, …), or add a data sheet (`slug`, `kind`, …)."""
        if not isinstance(body, RegisterDevice):
            return add_from(request, "gpus", body)
        service = service_of(request)
        if body.device is not None and body.calibrate is not False:
            needs(request, "admin", "measure a device of the server's host")
        calibrating = service.calibrating if service.settings.calibrate else None
        server, who = str(request.base_url), who_of(request)
        shown, new = register_device(
            database_of(request), body.explicit(), calibrating=calibrating, server=server, who=who
        )
        return json_answer(shown, 201 if new else 200, {"Location": f"/gpus/{shown['name']}"})


def add_one(router: APIRouter) -> None:
    """GET of a GPU model or a device by its name."""

    @router.get("/{key:path}", name="get_gpus", response_model=CardPage)
    def one(request: Request, key: str) -> Response:
        """Data sheet, devices with fingerprints, calibrations over time and the drift between them."""
        return json_answer(gpu_page(database_of(request), key))


def removed(request: Request, key: str, signature: Mapping[str, Any]) -> bool:
    """Forget the device of this name, with its calibrations; False when there is none, or when `version`
    means the data sheet of the same name."""
    return "version" not in signature and remove_device(database_of(request), key, who=who_of(request))
