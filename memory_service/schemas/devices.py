"""The request that registers a device."""

from typing import Annotated

from pydantic import Field, StringConstraints

from memory_service.schemas.base import FromText, Request
from memory_service.schemas.fields import optional

SHORTEST_BUDGET_SECONDS, LONGEST_BUDGET_SECONDS, DEFAULT_BUDGET_SECONDS = 1.0, 3600.0, 60.0
"""Of a calibration."""

BudgetSeconds = Annotated[
    float, Field(ge=SHORTEST_BUDGET_SECONDS, le=LONGEST_BUDGET_SECONDS, allow_inf_nan=False)
]


class RegisterDevice(Request):
    """A device of this or another host."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=120)] = Field(
        description="What the device is to be called; `gpu=` takes it."
    )
    device: Annotated[str, StringConstraints(min_length=1, max_length=20)] | None = optional(
        "What its host calls it: `cuda:0`, `cpu`, `mps`. Left out: it is on another host."
    )
    calibrate: bool | None = optional("Whether to measure it now; true when not given.")
    budget_seconds: BudgetSeconds | None = optional(
        f"Time that the calibration may take; {DEFAULT_BUDGET_SECONDS:g} when not given."
    )
    force: bool | None = optional("Measure although others use it; the result is kept and not used.")


class RegisterDeviceForm(FromText, RegisterDevice):
    """The same as texts."""
