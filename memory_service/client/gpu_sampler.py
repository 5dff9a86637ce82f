"""Samples utilisation, memory, temperature and power of the GPU on a thread of its own.

NVML is asked where nvidia-ml-py finds a driver; torch only where the script has loaded it and has used CUDA:
neither is loaded or initialised for this. Every memory figure says which it is: the card's use and this
process's share as the driver shows them; allocated at the peak and reserved as torch's allocator counts.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

GIB = 2.0**30
SAMPLE_EVERY_S = 2.0
TREE_EVERY_S = 10.0
"""Finding all child processes reads every process of the machine."""

THROTTLED = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons for a slower clock that heat or hardware gives: slowdown, thermal (software, hardware),
power brake; the ordinary power cap (0x4) is how large cards always run."""


class GpuSampler:
    """Samples GPU, process tree and host until `stop`; `report(fields)` gets each as a gpu event."""

    def __init__(
        self, pid: int | None = None, *, every_seconds: float = SAMPLE_EVERY_S, tree_every_seconds: float
    ) -> None:
        """pid: the process whose tree is measured; this one by default, none with 0."""
        self.report: Callable[[dict[str, Any]], None] | None = None
        self.name: str | None = None
        self.total_gib: float | None = None
        self.device_index: int | None = None
        """torch's number of the device in use, as the training thread sees it."""
        self._every, self._tree_every = every_seconds, tree_every_seconds
        self._ready, self._stop = threading.Event(), threading.Event()
        self._nvml: Any = None
        self._handle: Any = None
        self._index_of_handle: int | None = None
        self.is_own = pid is None
        """Whether it samples the process that asks."""
        self._tree = _Tree(os.getpid() if pid is None else pid)
        self._busy = [0.0, 0]
        threading.Thread(target=self._run, name="memory-service-gpu-sampler", daemon=True).start()

    def wait_for_name(self, seconds: float = 3.0) -> str | None:
        """The driver's name of the GPU; None where there is none or it does not answer in time."""
        self._ready.wait(seconds)
        return self.name

    def pop_utilization(self) -> float | None:
        """Mean utilisation in percent since the last call; None without a sample."""
        (total, count), self._busy = self._busy, [0.0, 0]
        return total / count if count else None

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        try:
            with contextlib.suppress(Exception):
                self._open()
            self._ready.set()
            refreshed = -1e9
            while not self._stop.wait(self._every):
                now = time.monotonic()
                if now - refreshed >= self._tree_every:
                    refreshed = now
                    with contextlib.suppress(Exception):
                        self._tree.refresh()
                fields = self.sample()
                if fields and self.report is not None:
                    self.report(fields)
        except Exception:  # noqa: BLE001 - a sample less is no reason to disturb a training
            self._ready.set()

    def sample(self) -> dict[str, Any]:
        """One sample; what is not known is left out."""
        fields: dict[str, Any] = {}
        for part in (self._gpu_fields, lambda: torch_memory(self.device_index or 0), self._tree.use):
            with contextlib.suppress(Exception):
                fields |= part()
        busy = fields.get("utilization_percent")
        if busy is not None:
            total, count = self._busy
            self._busy = [total + busy, count + 1]
        return fields

    def _open(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._handle = _first_visible(pynvml)
        if self._handle is not None:
            self.name = _text(pynvml.nvmlDeviceGetName(self._handle))
            self.total_gib = pynvml.nvmlDeviceGetMemoryInfo(self._handle).total / GIB

    def _gpu_fields(self) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handle
        if nvml is None or handle is None:
            return {}
        if self.device_index != self._index_of_handle:
            uuid = _torch_uuid(self.device_index)
            self._index_of_handle = self.device_index
            with contextlib.suppress(nvml.NVMLError):
                if uuid is not None:
                    handle = self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        fields: dict[str, Any] = {}

        def read(name: str, getter: Callable[[], Any]) -> None:
            with contextlib.suppress(nvml.NVMLError, AttributeError):
                fields[name] = getter()

        read("used_gib", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB)
        read("utilization_percent", lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
        read("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0)
        read("temperature_c", lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)))
        read("clock_mhz", lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)))
        read("throttled", lambda: bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & THROTTLED))
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            listed = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            fields |= self._share({int(p.pid): p.usedGpuMemory for p in listed})
        return fields

    def _share(self, holders: dict[int, int | None]) -> dict[str, Any]:
        """The part of this process and its children. In a container NVML gives the host's process ids:
        a single unknown one, while torch uses the GPU, is taken for this process.
        """
        mine = {pid for pid in holders if pid in self._tree.pids}
        if not mine and len(holders) == 1 and torch_memory(0):
            (only,) = holders
            mine = {only} if not _is_here(only) else set()
        if not mine and any(not _is_here(pid) for pid in holders):
            return {}  # nothing can be said of whose they are
        out: dict[str, Any] = {"other_processes": len(holders) - len(mine)}
        used = [holders[pid] for pid in mine]
        if used and all(h is not None for h in used):
            out["process_gib"] = sum(h for h in used if h is not None) / GIB
        return out


class _Tree:
    """A process and its children: their ids, their share of the cores, their memory."""

    def __init__(self, pid: int) -> None:
        self.pids = {pid} - {0}
        self._pid = pid
        self._processes: dict[int, Any] = {}
        self._cores = cores()
        self._threads: dict[str, tuple[int, int]] = {}

    def refresh(self) -> None:
        if not self._pid:
            return
        import psutil

        first = self._processes.get(self._pid) or psutil.Process(self._pid)
        tree = {process.pid: process for process in (first, *first.children(recursive=True))}
        self._processes = {pid: self._processes.get(pid, process) for pid, process in tree.items()}
        self.pids = set(tree)

    def use(self) -> dict[str, Any]:
        """Since the last call: cpu_percent of all cores it may use; cpu_wait_percent, of the time in
        which its threads could run, the share in which other threads had the cores; host_gib of memory."""
        percent = resident = 0.0
        for pid, process in list(self._processes.items()):
            try:
                percent += process.cpu_percent(None)
                resident += process.memory_info().rss
            except Exception:  # noqa: BLE001 - it has ended
                self._processes.pop(pid, None)
        if not self._processes:
            return {}
        used = {"cpu_percent": min(percent / self._cores, 100.0), "host_gib": resident / GIB}
        before, self._threads = self._threads, _scheduled(self._processes)
        both = [(*before[name], *now) for name, now in self._threads.items() if name in before]
        ran, waited = (sum(now - was for was, now in pairs) for pairs in (
            [(one[0], one[2]) for one in both], [(one[1], one[3]) for one in both]
        ))  # fmt: skip
        if ran + waited >= LEAST_SCHEDULED_NS:
            used["cpu_wait_percent"] = 100.0 * waited / (ran + waited)
        return used


LEAST_SCHEDULED_NS = 10**8
"""A process that hardly runs says nothing of who has the cores."""


def _scheduled(pids: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Nanoseconds that each thread ran, and that it was ready and had no core; {} where none is told."""
    found = {}
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):
                ran, waited, _ = path.read_text(encoding="ascii").split()
                found[str(path)] = int(ran), int(waited)
    return found


def resident_gib() -> tuple[float, float]:
    """Memory of this process, the most since it began and now; 0 where the system tells none."""
    peak = now = 0.0
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        unit = 1.0 if sys.platform == "darwin" else 1024.0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        now = int(pages) * resource.getpagesize() / GIB
    return peak, now


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _cuda() -> Any:
    """`torch.cuda`, where the script uses it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def driver_gpu_name() -> str | None:
    """The name of the first visible GPU as its driver reports it; None without one."""
    sampler = GpuSampler(0, tree_every_seconds=TREE_EVERY_S)
    sampler.stop()
    return sampler.wait_for_name()


def torch_memory(index: int) -> dict[str, Any]:
    """Peak allocated and reserved GiB of torch's allocator; {} where the script does not use CUDA with it."""
    try:
        cuda = _cuda()
        if cuda is None:
            return {}
        return {
            "peak_allocated_gib": cuda.max_memory_allocated(index) / GIB,
            "peak_reserved_gib": cuda.max_memory_reserved(index) / GIB,
        }
    except Exception:  # noqa: BLE001 - torch may be half imported
        return {}


def torch_device() -> int | None:
    """The CUDA device of the calling thread; None where the script does not use CUDA with torch."""
    try:
        cuda = _cuda()
        return None if cuda is None else int(cuda.current_device())
    except Exception:  # noqa: BLE001
        return None


def _torch_uuid(index: int | None) -> str | None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or index is None:
        return None
    try:
        uuid = str(cuda.get_device_properties(index).uuid)
    except Exception:  # noqa: BLE001 - an older torch does not say
        return None
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _first_visible(nvml: Any) -> Any:
    """CUDA's device 0 in the driver's order; None where CUDA_VISIBLE_DEVICES hides all."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    first = "0" if listed is None else listed.split(",")[0].strip()
    if first.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(first))
    if first.startswith(("GPU-", "MIG-")):
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(first):
                return handle
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return None


def _is_here(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _text(raw: str | bytes) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw
