"""What do answers about cards, devices and their calibrations look like? For the description only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, RootModel

from memory_service.api.shapes import Shape
from memory_service.domain.calibration.calibration import CalibrationStatus

__all__ = ["Calibration", "CardPage", "Device", "Registered"]


class Measured(Shape):
    """Median of n repetitions with its 20th and 80th percentile; flagged: they spread over 5 % twice."""

    value: float
    unit: str
    p20: float
    p80: float
    n: int
    flagged: bool


class Calibration(Shape):
    """One timed benchmark of a device. `progress` is 0 to 1; `stale`: what changed on the device since;
    `usable`: whether predictions may stand on it."""

    id: str
    device: str
    gpu: str
    status: CalibrationStatus
    progress: float
    doing: str | None
    sections: dict[str, Measured]
    missing: dict[str, str]
    fingerprint: dict[str, Any]
    environment: dict[str, Any]
    self_check: dict[str, Any] | None
    seconds: float
    budget_seconds: float
    contended: bool
    why: str | None
    origin: Literal["local", "posted"]
    started_at: str
    ended_at: str | None
    stale: list[str]
    usable: bool


class Device(Shape):
    """A registered piece of hardware. After registering: its calibration, or the command that makes one."""

    name: str
    gpu: str | None = Field(description="Its GPU model; null until a device elsewhere reports.")
    device: str | None = Field(description="What its host calls it.")
    host: str | None
    fingerprint: dict[str, Any] | None
    card: dict[str, Any] | None = Field(description="The data sheet with the device's own memory and cores.")
    registered_at: str
    seen_at: str | None
    calibrations: list[dict[str, Any]] = Field(description="Newest first, with key figures.")
    drift: list[dict[str, Any]] = Field(description="Between consecutive usable ones, percent by group.")
    calibration: dict[str, Any] | None = Field(None, description="The one that was begun: id and status.")
    command: str | None = Field(None, description="To run on the device's own host.")
    why: str | None = Field(None, description="Why no calibration was begun.")


class Sheet(Shape):
    """A GPU model as its maker describes it."""

    slug: str
    name: str
    kind: str
    architecture: str
    memory_gib: float
    version: int


class Registered(RootModel[Device | Sheet]):
    """The device, or the row that was added."""


class CardPage(Shape):
    """A GPU model (all members of its row) or a device with that of its model; `slug` is null while a device
    elsewhere has not said what it is."""

    slug: str | None
    name: str
    kind: str | None
    device: str | None = Field(description="The device that the path names, if it names one.")
    devices: list[str] = Field(description="Names of all devices of this GPU model.")
    registered: list[Device]
