"""Cards, devices and their calibrations."""

from typing import Literal

from pydantic import Field, RootModel

from memory_service.domain.calibration.calibration import CalibrationStatus, Fingerprint, Measurement
from memory_service.schemas.answers.common import Answer, Time, left_out
from memory_service.schemas.answers.rows import Gpu

Kind = Literal["cuda", "mps", "cpu"]
Environment = dict[str, str | float | None]


class _Calibration(Answer):
    id: str
    status: CalibrationStatus
    progress: float = Field(description="0 to 1.")
    measured: int = Field(description="Sections so far.")
    error_percent: float | None = Field(description="Median of the self-check.")
    contended: bool = Field(description="Others used the device meanwhile: kept, never used.")
    budget_seconds: float
    seconds: float | None
    why: str | None = Field(description="A sentence for a status that is not `done`.")
    origin: Literal["local", "posted"]
    started_at: Time
    ended_at: Time | None
    stale: list[str] = Field(description="What changed on the device since.")


class CalibrationRow(_Calibration):
    """A calibration as lists show it."""

    device: str
    gpu: str = Field(description="Slug of the GPU model.")
    doing: str | None = Field(description="The section that runs.")
    version: str = Field(description="Of the program that measured.")
    heartbeat_at: Time


class CheckedNetwork(Answer):
    name: str
    predicted_ms: float
    measured_ms: float
    error_percent: float


class SelfCheck(Answer):
    """Each reference network, predicted from all sections but its own."""

    median_error_percent: float | None
    networks: list[CheckedNetwork]
    doubt: str | None = left_out("Why it cannot be of such a device.")


class Calibration(CalibrationRow):
    """One timed benchmark of a device, whole."""

    sections: dict[str, Measurement]
    missing: dict[str, str] = Field(description="Section: why it was not measured.")
    fingerprint: Fingerprint
    environment: Environment = Field(description="The part of it whose change makes a calibration stale.")
    self_check: SelfCheck | None
    usable: bool = Field(description="Whether predictions may stand on it.")


class KeyFigure(Answer):
    value: float
    unit: str
    section: str


class CalibrationBrief(_Calibration):
    environment: Environment = Field(description="What drove the device then.")
    usable: bool = Field(description="Whether predictions may stand on it.")
    key_figures: dict[str, KeyFigure]


class GroupDrift(Answer):
    percent: float = Field(description="Over zero: faster; of memory: more.")
    n: int = Field(description="Sections that both have.")


class Drift(Answer):
    """Between two consecutive usable calibrations."""

    old: str = Field(alias="from", description="Id.")
    new: str = Field(alias="to", description="Id.")
    because: list[str] = Field(description="What changed on the device between them.")
    groups: dict[str, GroupDrift]


class DeviceCard(Answer):
    """The data sheet with the device's own memory and cores."""

    slug: str
    name: str
    kind: Kind
    architecture: str
    memory_gib: float
    usable_gib: float = Field(description="What one process can use.")
    bandwidth_gb_s: float
    tdp_w: float | None
    tflops: dict[str, float] = Field(description="By precision.")
    cores: int | None = Field(description="Of the processor.")


class Device(Answer):
    """A registered piece of hardware."""

    name: str
    gpu: str | None = Field(description="Slug of its GPU model; null until a device elsewhere reports.")
    kind: Kind | None
    uuid: str | None
    host: str | None
    fingerprint: Fingerprint | None
    environment: Environment | None
    registered_at: Time
    seen_at: Time | None
    device: str | None = Field(description="What its host calls it.")
    card: DeviceCard | None
    calibrations: list[CalibrationBrief] = Field(description="Newest first.")
    drift: list[Drift] = Field(description="Newest first.")


class CalibrationBegun(Answer):
    id: str
    status: CalibrationStatus


class RegisteredDevice(Device):
    """A device with its calibration, or the command that makes one."""

    calibration: CalibrationBegun | None
    command: str | None = Field(description="To run on the device's own host.")
    why: str | None = Field(description="Why no calibration was begun.")


class Registered(RootModel[RegisteredDevice | Gpu]):
    """The device, or the data sheet that was added."""


class _Registered(Answer):
    device: str | None = Field(description="The device that the path names, if it names one.")
    devices: list[str] = Field(description="Names of all devices of this GPU model.")
    registered: list[Device]


class SheetPage(Gpu, _Registered):
    """A GPU model with its devices, or a device with its GPU model."""


class UnknownSheetPage(_Registered):
    """A device elsewhere that has not said what it is."""

    slug: None
    name: str
    kind: Kind | None


class CardPage(RootModel[SheetPage | UnknownSheetPage]):
    """A GPU model, or a device with that of its model."""
