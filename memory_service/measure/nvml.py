"""Readings from NVIDIA's driver through NVML; torch and CUDA would create a context.

Cards are counted as CUDA_VISIBLE_DEVICES lists them, in the order of nvidia-smi; where a card is cut (MIG),
each slice counts as one device. Children of a calibration get the UUID, so CUDA's own order cannot matter.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.errors import FieldError, InvalidInput, Unavailable

GIB = 2.0**30

ARCHITECTURES = (
    (10.0, "blackwell"), (9.0, "hopper"), (8.9, "ada"), (8.0, "ampere"), (7.5, "turing"), (7.0, "volta"),
    (6.0, "pascal"), (5.0, "maxwell"),
)  # fmt: skip
"""Least compute capability of each, newest first."""


@dataclass(frozen=True, slots=True)
class Load:
    """Use of a card now.

    processes       (pid, GiB or None where the driver does not say)
    utilization     share of the last second with a kernel, 0..1; None: unknown (MIG)
    """

    used_gib: float
    total_gib: float
    utilization: float | None
    processes: tuple[tuple[int, float | None], ...]


def card_names() -> list[str]:
    """ "cuda:0", ... as a process started now would see them; [] without a driver."""
    try:
        with _nvml() as nvml:
            return [f"cuda:{index}" for index, _ in enumerate(_visible(nvml))]
    except Unavailable:
        return []


def card(index: int) -> Fingerprint:
    """What the driver says of the `index`-th visible card. InvalidInput past the last; Unavailable without a
    driver."""
    with _nvml() as nvml, _handle(nvml, index) as handle:
        whole = _parent(nvml, handle)
        name = _text(nvml.nvmlDeviceGetName(handle))
        capability = _try_query(nvml, partial(nvml.nvmlDeviceGetCudaComputeCapability, whole))
        number = capability[0] + capability[1] / 10 if capability else None
        limit = _try_query(nvml, partial(nvml.nvmlDeviceGetEnforcedPowerLimit, whole))
        base, cut, profile = name.partition(" MIG ")
        return Fingerprint(
            kind="cuda",
            name=base,
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            memory_gib=_memory(nvml, handle)[1],
            compute_capability=number,
            architecture=_architecture(number),
            mig=profile if cut else (f"{_memory(nvml, handle)[1]:.0f}gb" if handle is not whole else None),
            power_limit_w=limit / 1000 if limit is not None else None,
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
        )


def load_of(index: int) -> Load:
    """Of the `index`-th visible card. Errors as of `card`."""
    with _nvml() as nvml, _handle(nvml, index) as handle:
        used, total = _memory(nvml, handle)
        rates = _try_query(nvml, partial(nvml.nvmlDeviceGetUtilizationRates, handle))
        processes: dict[int, float | None] = {}
        for listed in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            for process in _try_query(nvml, partial(listed, handle)) or ():
                memory = process.usedGpuMemory
                processes[int(process.pid)] = None if memory is None else memory / GIB
        return Load(used, total, rates.gpu / 100 if rates is not None else None, tuple(processes.items()))


def used_gib(uuid: str, pid: int | None = None) -> float | None:
    """GiB used on a card (or slice), of one process or of all; None where unknown."""
    with _nvml() as nvml:
        handle = _query(nvml, partial(nvml.nvmlDeviceGetHandleByUUID, uuid))
        if pid is None:
            return _memory(nvml, handle)[0]
        processes = _try_query(nvml, partial(nvml.nvmlDeviceGetComputeRunningProcesses, handle)) or ()
        mine = [p.usedGpuMemory for p in processes if p.pid == pid and p.usedGpuMemory is not None]
        return sum(mine) / GIB if mine else None


def sampled(uuid: str) -> tuple[float | None, float | None]:
    """(multiprocessor clock in MHz, temperature in degrees Celsius); None where unknown."""
    with _nvml() as nvml:
        handle = _parent(nvml, _query(nvml, partial(nvml.nvmlDeviceGetHandleByUUID, uuid)))
        clock = _try_query(nvml, partial(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM))
        heat = _try_query(nvml, partial(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU))
        return clock, heat


@contextmanager
def _nvml() -> Iterator[Any]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError as error:
        missing = "CUDA devices are asked for through nvidia-ml-py, which is not installed"
        raise Unavailable(missing) from error
    except pynvml.NVMLError as error:
        raise Unavailable(f"No NVIDIA driver answers on this host: {error}") from error
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


@contextmanager
def _handle(nvml: Any, index: int) -> Iterator[Any]:
    handles = _visible(nvml)
    if index >= len(handles):
        visible = ", ".join(f"cuda:{i}" for i in range(len(handles))) or "none"
        nearest = tuple(visible.split(", "))[:5]
        wrong = FieldError("device", "past the visible cards", f"cuda:{index}", nearest)
        raise InvalidInput(f"There is no cuda:{index} here; visible: {visible}", [wrong])
    try:
        yield handles[index]
    except nvml.NVMLError as error:
        raise Unavailable(f"cuda:{index} stopped answering: {error}") from error


def _visible(nvml: Any) -> list[Any]:
    """Handles in the order a process started with this environment counts them."""
    count = nvml.nvmlDeviceGetCount()
    every = [_query(nvml, partial(nvml.nvmlDeviceGetHandleByIndex, index)) for index in range(count)]
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [part for whole in every for part in _parts(nvml, whole)]
    chosen: list[Any] = []
    for word in (token.strip() for token in listed.split(",")):
        part = _named(nvml, every, word)
        if part is None:
            break  # as CUDA does: whatever follows a wrong entry is not visible
        chosen.append(part)
    return chosen


def _named(nvml: Any, every: list[Any], word: str) -> Any | None:
    if word.isdigit():
        whole = every[int(word)] if int(word) < len(every) else None
        return _parts(nvml, whole)[0] if whole is not None else None
    if not word:
        return None
    parts = [part for whole in every for part in (whole, *_parts(nvml, whole))]
    return next((part for part in parts if _text(nvml.nvmlDeviceGetUUID(part)).startswith(word)), None)


def _parts(nvml: Any, whole: Any) -> list[Any]:
    """The MIG slices of a card, else the card itself."""
    try:
        mode = _try_query(nvml, partial(nvml.nvmlDeviceGetMigMode, whole))
    except nvml.NVMLError:  # lost: asking for this card raises, the others are still counted
        return [whole]
    if not mode or not mode[0]:
        return [whole]
    slices = []
    for index in range(_try_query(nvml, partial(nvml.nvmlDeviceGetMaxMigDeviceCount, whole)) or 0):
        part = _try_query(nvml, partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, whole, index))
        if part is not None:
            slices.append(part)
    return slices or [whole]


def _parent(nvml: Any, handle: Any) -> Any:
    """The whole card of a slice."""
    whole = _try_query(nvml, partial(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle))
    return handle if whole is None else whole


def _memory(nvml: Any, handle: Any) -> tuple[float, float]:
    """(used, total) in GiB; without the driver's reserve where it is listed apart."""
    info = _try_query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2))
    if info is None:
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return info.used / GIB, info.total / GIB


def _try_query(nvml: Any, query: Callable[[], Any]) -> Any | None:
    """The answer, or None where this card or driver has none; a lost card raises."""
    try:
        return query()
    except nvml.NVMLError as error:
        lost = nvml.NVMLError_GpuIsLost | nvml.NVMLError_Unknown | nvml.NVMLError_ResetRequired
        if isinstance(error, lost):
            raise
        return None


def _query(nvml: Any, query: Callable[[], Any]) -> Any:
    try:
        return query()
    except nvml.NVMLError as error:
        raise Unavailable(f"A card stopped answering: {error}") from error


def _text(raw: str | bytes) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


def _architecture(capability: float | None) -> str | None:
    if capability is None:
        return None
    return next((name for least, name in ARCHITECTURES if capability >= least), None)
