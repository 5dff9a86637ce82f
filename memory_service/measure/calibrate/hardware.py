"""Timing, cache flushing and memory readings of CUDA, MPS and CPU; the only file that distinguishes them.

cuda   CUDA events around the work, one synchronisation after it; torch's allocator and NVML for memory
mps    a wall clock around work and synchronisation; Metal's own count for memory
cpu    a wall clock; resident memory of the process
"""

import contextlib
import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import psutil
import torch

GIB = 2.0**30

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

FLUSH_BYTES = 256 * 2**20
"""Larger than any card's L2: written before a repetition whose data shall come from memory."""


ALLOCATOR_BYTES = 31 * 2**20
"""Freed once at the start of a process on a processor: from then on the C library keeps blocks up to that
size instead of returning them to the system, as it does in any training whose activations come near it.
Larger ones (its limit is 32 MiB) are mapped anew each time, page by page; the large bandwidth probes see
that."""

REPEATED_VALUES = 2**16

SPINS = 1_000_000
"""Cycles of torch's own waiting kernel, timed once."""

MOST_HOLD_SECONDS = 2e-3


class Hardware:
    """A device as every section uses it."""

    kind = "cpu"
    forked = False
    """Whether this process shares what its parent imported."""

    def __init__(self, torch_device: str, uuid: str) -> None:
        self.device = torch.device(torch_device)
        self.uuid = uuid

    def dtype(self, precision: str) -> torch.dtype:
        return DTYPES[precision]

    def tensor(self, *shape: int, precision: str = "fp32", gradient: bool = False) -> torch.Tensor:
        """Normal random values: zeros would need less power than real data."""
        tensor = torch.randn(*shape, device=self.device, dtype=self.dtype(precision))
        return tensor.requires_grad_(gradient)

    def synchronize(self) -> None:
        """Wait for the device; a processor is never behind."""

    def timed(self, work: Callable[[], object], times: int) -> float:
        self.synchronize()
        started = time.perf_counter()
        for _ in range(times):
            work()
        self.synchronize()
        return time.perf_counter() - started

    def flush(self) -> None:
        """Evict the last-level cache."""

    def hold(self, seconds: float) -> None:
        """Keep the device about so long from what is launched next, so that the host gets ahead of it."""

    def release(self) -> None:
        """Free the allocator's cache."""

    @contextmanager
    def arithmetic(self, precision: str) -> Iterator[None]:  # noqa: ARG002 - only cards have TF32
        """fp32 products in TF32 or in full, as the precision says."""
        yield

    def autocast(self, precision: str) -> contextlib.AbstractContextManager[Any]:
        """Mixed precision for fp16 and bf16."""
        if precision in ("fp16", "bf16"):
            return torch.autocast(self.device.type, dtype=self.dtype(precision))
        return contextlib.nullcontext()

    def scaler(self, precision: str) -> Any | None:
        """The loss scaler of fp16 training, else None."""
        return torch.amp.GradScaler(self.device.type) if precision == "fp16" else None

    def memory_now(self) -> float:
        """GiB of live tensors; of a processor the resident memory of this process."""
        raise NotImplementedError

    def start_peak(self) -> None:
        """Reset the peak."""
        raise NotImplementedError

    def peak(self) -> float | None:
        """GiB at the peak since `start_peak`, as `memory_now` counts; None: not known here."""
        raise NotImplementedError

    def reserved(self) -> dict[str, float]:
        """Other peaks since `start_peak`: "reserved_gib", "driver_gib", where known."""
        return {}


class Cpu(Hardware):
    kind = "cpu"

    def __init__(self, torch_device: str, uuid: str) -> None:
        super().__init__(torch_device, uuid)
        self._resets_peak = False
        torch.ones(ALLOCATOR_BYTES, dtype=torch.int8)

    def tensor(self, *shape: int, precision: str = "fp32", gradient: bool = False) -> torch.Tensor:
        """Random values that repeat: drawing millions of them would cost more than the measurement."""
        values = prod(shape)
        some = torch.randn(min(values, REPEATED_VALUES)).to(self.dtype(precision))
        tensor = some.repeat(-(-values // len(some)))[:values].reshape(shape)
        return tensor.clone().requires_grad_(gradient)

    def release(self) -> None:
        """Return free memory to the system, so that it does not hide a peak."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
                ctypes.CDLL(None).malloc_trim(0)

    def memory_now(self) -> float:
        return resident_gib()

    def start_peak(self) -> None:
        self._resets_peak = False
        with contextlib.suppress(OSError):  # macOS, and containers that forbid it
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            self._resets_peak = True

    def peak(self) -> float | None:
        if not self._resets_peak:
            return None
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
        return int(match.group(1)) * 1024 / GIB if match else None


class Cuda(Hardware):
    """One visible card, chosen by its UUID in the environment before the process started."""

    kind = "cuda"

    def __init__(self, torch_device: str, uuid: str) -> None:
        super().__init__(torch_device, uuid)
        self._scratch: torch.Tensor | None = None
        self._spins_per_second = 0.0

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.device)

    def timed(self, work: Callable[[], object], times: int) -> float:
        event: Any = torch.cuda.Event
        started, ended = event(enable_timing=True), event(enable_timing=True)
        started.record()
        for _ in range(times):
            work()
        ended.record()
        ended.synchronize()
        return float(started.elapsed_time(ended)) / 1e3

    def flush(self) -> None:
        if self._scratch is None:
            self._scratch = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=self.device)
        self._scratch.zero_()

    def hold(self, seconds: float) -> None:
        spin: Any = torch.cuda._sleep
        if not self._spins_per_second:
            self._spins_per_second = SPINS / self.timed(lambda: spin(SPINS), 1)
        spin(int(min(seconds, MOST_HOLD_SECONDS) * self._spins_per_second))

    def release(self) -> None:
        self._scratch = None
        torch.cuda.empty_cache()

    @contextmanager
    def arithmetic(self, precision: str) -> Iterator[None]:
        backends: Any = torch.backends
        before = backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision
        fp32_precision = "tf32" if precision == "tf32" else "ieee"
        backends.cuda.matmul.fp32_precision = backends.cudnn.conv.fp32_precision = fp32_precision
        try:
            yield
        finally:
            backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision = before

    def memory_now(self) -> float:
        return torch.cuda.memory_allocated(self.device) / GIB

    def start_peak(self) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call] # else there is no peak to reset
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> float:
        self.synchronize()
        return torch.cuda.max_memory_allocated(self.device) / GIB

    def reserved(self) -> dict[str, float]:
        from memory_service.measure import nvml

        peaks = {"reserved_gib": torch.cuda.max_memory_reserved(self.device) / GIB}
        # in a container the driver counts this process under another pid: then the whole card's use stands
        driver = nvml.used_gib(self.uuid, os.getpid()) or nvml.used_gib(self.uuid)
        return peaks if driver is None else {**peaks, "driver_gib": driver}


class Mps(Hardware):
    """Apple's GPU: no events are used, memory is what Metal holds for the process."""

    kind = "mps"

    def synchronize(self) -> None:
        torch.mps.synchronize()

    def release(self) -> None:
        torch.mps.empty_cache()

    def memory_now(self) -> float:
        return torch.mps.current_allocated_memory() / GIB

    def start_peak(self) -> None:
        torch.mps.empty_cache()

    def peak(self) -> float:
        """Metal keeps no peak; the driver's memory after the work is the nearest."""
        self.synchronize()
        return torch.mps.driver_allocated_memory() / GIB


def hardware_of(kind: str, torch_device: str, uuid: str) -> Hardware:
    """The hardware of one kind; it must be the only device this process uses."""
    return {"cuda": Cuda, "mps": Mps, "cpu": Cpu}[kind](torch_device, uuid)


def resident_gib() -> float:
    return float(psutil.Process().memory_info().rss) / GIB
