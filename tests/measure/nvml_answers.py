"""What NVML answered, replayed: a fake `pynvml` for machines without a card. Nothing here touches a driver.

The figures of `H200` are those of a real card (NVIDIA H200, 143 771 MiB, driver 580.159.04, compute
capability 9.0, 700 W); its UUID and the other cards are made up in the forms that drivers use.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

MIB = 2**20


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801 - NVML's own names
    pass


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801
    pass


class NVMLError_Unknown(NVMLError):  # noqa: N801
    pass


class NVMLError_ResetRequired(NVMLError):  # noqa: N801
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801
    pass


@dataclass
class FakeCard:
    name: str
    uuid: str
    total_mib: int
    capability: tuple[int, int]
    power_mw: int | None
    used_mib: int = 4
    utilization: int | None = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    slices: list[FakeCard] = field(default_factory=list)
    parent: FakeCard | None = None
    lost: bool = False


H200 = FakeCard("NVIDIA H200", "GPU-6f1a2b3c-0d4e-5f60-7182-93a4b5c6d7e8", 143771, (9, 0), 700_000)


def cut_a100() -> FakeCard:
    """An A100-40GB in MIG mode with one 3g.20gb slice."""
    whole = FakeCard("NVIDIA A100-SXM4-40GB", "GPU-aaaa0000-1111", 40960, (8, 0), 400_000)
    part = FakeCard("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "MIG-bbbb2222-3333", 19968, (8, 0), None)
    part.parent, part.utilization = whole, None
    whole.slices = [part]
    return whole


def module(cards: list[FakeCard], driver: str = "580.159.04") -> types.ModuleType:
    """A module that answers as `pynvml` does for these cards; [] is a host whose driver finds none."""
    fake: Any = types.ModuleType("pynvml")
    for error in (
        NVMLError, NVMLError_NotSupported, NVMLError_GpuIsLost, NVMLError_Unknown, NVMLError_ResetRequired,
        NVMLError_LibraryNotFound,
    ):  # fmt: skip
        setattr(fake, error.__name__, error)
    fake.nvmlMemory_v2, fake.NVML_CLOCK_SM, fake.NVML_TEMPERATURE_GPU = 0x02000028, 1, 0

    def answering(card: FakeCard, value: Any) -> Any:
        if card.lost:
            raise NVMLError_GpuIsLost("GPU is lost")
        if value is None:
            raise NVMLError_NotSupported("Not Supported")
        return value

    def by_uuid(uuid: str) -> FakeCard:
        every = [part for card in cards for part in (card, *card.slices)]
        return next(part for part in every if part.uuid == uuid)

    def listed(card: FakeCard) -> Any:
        held = [(pid, None if mib is None else mib * MIB) for pid, mib in card.processes]
        return answering(card, [types.SimpleNamespace(pid=pid, usedGpuMemory=b) for pid, b in held])

    fake.nvmlInit = fake.nvmlShutdown = lambda: None
    fake.nvmlSystemGetDriverVersion = lambda: driver
    fake.nvmlDeviceGetCount = lambda: len(cards)
    fake.nvmlDeviceGetHandleByIndex = lambda index: cards[index]
    fake.nvmlDeviceGetHandleByUUID = by_uuid
    fake.nvmlDeviceGetName = lambda card: answering(card, card.name)
    fake.nvmlDeviceGetUUID = lambda card: answering(card, card.uuid)
    fake.nvmlDeviceGetCudaComputeCapability = lambda card: answering(card, card.capability)
    fake.nvmlDeviceGetEnforcedPowerLimit = lambda card: answering(card, card.power_mw)
    fake.nvmlDeviceGetMemoryInfo = lambda card, version=None: answering(
        card, types.SimpleNamespace(used=card.used_mib * MIB, total=card.total_mib * MIB)
    )
    fake.nvmlDeviceGetUtilizationRates = lambda card: answering(
        card, None if card.utilization is None else types.SimpleNamespace(gpu=card.utilization, memory=0)
    )
    fake.nvmlDeviceGetComputeRunningProcesses = listed
    fake.nvmlDeviceGetGraphicsRunningProcesses = lambda card: answering(card, [])
    fake.nvmlDeviceGetMigMode = lambda card: answering(card, (int(bool(card.slices)), 0))
    fake.nvmlDeviceGetMaxMigDeviceCount = lambda card: 7
    fake.nvmlDeviceGetMigDeviceHandleByIndex = lambda card, index: answering(
        card, card.slices[index] if index < len(card.slices) else None
    )
    fake.nvmlDeviceGetDeviceHandleFromMigDeviceHandle = lambda card: answering(card, card.parent)
    fake.nvmlDeviceGetClockInfo = lambda card, kind: answering(card, 1980)
    fake.nvmlDeviceGetTemperature = lambda card, sensor: answering(card, 61)
    loaded: types.ModuleType = fake
    return loaded


def without_driver() -> types.ModuleType:
    """`pynvml` where no NVIDIA driver is installed."""
    fake: Any = module([])

    def refuse() -> None:
        raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")

    fake.nvmlInit = refuse
    loaded: types.ModuleType = fake
    return loaded
