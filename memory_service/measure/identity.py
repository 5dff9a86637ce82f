"""Identity of a device: name, driver, versions, other processes that use it.

identify("cuda:0")    its fingerprint: NVML only, no CUDA context, torch not imported
occupancy("cpu")      how much of it they take, and whether a measurement would be theirs too
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import psutil

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.errors import FieldError, InvalidInput, Unavailable
from memory_service.measure import nvml

GIB = 2.0**30

BUSY_SHARE = 0.05
"""Of a card's memory, or of its time: above it, somebody else is at work (issue 3)."""

BUSY_CORE = 0.1
"""Cores another process takes before it is listed as a tenant of the processor."""

WATCH_SECONDS = 0.25
"""How long a processor's load is watched."""

_DEVICE = re.compile(r"^(cpu|mps|cuda(?::(\d{1,3}))?)$")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Another process on the device: GiB of a GPU (None: unknown), cores of a processor."""

    pid: int
    command: str
    memory_gib: float | None = None
    cores: float | None = None

    def __str__(self) -> str:
        gib = f", {self.memory_gib:.2f} GiB" if self.memory_gib is not None else ""
        used = f", {self.cores:.1f} cores" if self.cores is not None else ""
        return f"{self.command} (pid {self.pid}{gib}{used})"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What others use of a device now.

    tenants   processes with memory on a GPU, or using a processor's cores
    memory_share, busy_share   of a GPU's memory and time, 0..1; of a processor: 0 and the cores' share
    busy      a calibration would be refused (GPUs only)
    """

    tenants: tuple[Tenant, ...]
    memory_share: float
    busy_share: float
    busy: bool

    @property
    def sentence(self) -> str:
        who = "; ".join(str(tenant) for tenant in self.tenants) or "processes that cannot be seen from here"
        shares = f"{self.busy_share:.0%} of its time and {self.memory_share:.0%} of its memory"
        return f"others take {shares}: {who}"


def device_kind(device: str) -> tuple[str, int]:
    """("cuda", 1) of "cuda:1"; InvalidInput for any other word than cpu, mps, cuda, cuda:N."""
    match = _DEVICE.match(device.strip().lower()) if len(device) < 80 else None
    if match is None:
        wrong = FieldError("device", "cpu, mps or cuda:N", device[:80], tuple(local_devices()))
        raise InvalidInput(f"Unknown device {device[:80]!r}: cpu, mps or cuda:N", [wrong])
    return match.group(1).partition(":")[0], int(match.group(2) or 0)


def local_devices() -> list[str]:
    """Devices of this host, GPUs first."""
    return [*nvml.card_names(), *(["mps"] if _is_apple() else []), "cpu"]


def identify(device: str) -> Fingerprint:
    """The device's fingerprint. InvalidInput for an unknown device; Unavailable where it does not answer."""
    kind, index = device_kind(device)
    versions = _versions()
    if kind == "cuda":
        return replace(
            nvml.card(index), torch=versions["torch"], cuda=versions["cuda"], cudnn=versions["cudnn"],
            cores=cores_of_process(), host_cpu=_cpu_name(),
        )  # fmt: skip
    memory, name, apple = _host_memory_gib(), _cpu_name(), kind == "mps"
    if apple and not _is_apple():
        raise Unavailable("mps is the GPU of an Apple chip; this host has none")
    machine = "x86" if platform.machine().lower() in ("x86_64", "amd64", "i686") else platform.machine()
    uuid = _digest(kind, name, *([] if apple else [str(os.cpu_count())]), f"{memory:.0f}")
    return Fingerprint(
        "mps" if apple else "cpu", name, uuid, memory, "apple" if apple else machine,
        driver=(platform.mac_ver()[0] or None) if apple else None, torch=versions["torch"],
        cores=cores_of_process(), host_cpu=name,
    )  # fmt: skip


def occupancy(device: str) -> Occupancy:
    """What other processes use of the device, a processor over 0.25 s. Errors as of `identify`."""
    kind, index = device_kind(device)
    if kind != "cuda":
        return _host_occupancy()
    load = nvml.load_of(index)
    tree = _process_tree()
    tenants = [Tenant(pid, _command(pid), gib) for pid, gib in load.processes if pid not in tree]
    tree_gib = sum(gib or 0.0 for pid, gib in load.processes if pid in tree)
    memory = max(0.0, load.used_gib - tree_gib) / load.total_gib
    share = load.utilization or 0.0
    busy = memory > BUSY_SHARE or share > BUSY_SHARE
    return Occupancy(tuple(tenants), memory, share, busy)


def cores_of_process() -> int:
    """Cores by the affinity and the container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):  # version 2, version 1
        with contextlib.suppress(OSError, ValueError):  # no quota, or "max"
            text = " ".join((Path("/sys/fs/cgroup") / name).read_text() for name in files)
            quota, period = map(int, text.split())
            cores = min(cores, ceil(quota / period)) if quota > 0 else cores
    return cores


def _host_memory_gib() -> float:
    """Of the host, or its container's limit."""
    total = float(psutil.virtual_memory().total)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, float(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return total / GIB


def _host_occupancy() -> Occupancy:
    tree = _process_tree()
    watched = {process.pid: process for process in psutil.process_iter()}
    before = psutil.cpu_times()
    spent = {pid: _cpu_seconds(process) for pid, process in watched.items()}
    started = time.monotonic()
    time.sleep(WATCH_SECONDS)
    after = psutil.cpu_times()
    seconds = time.monotonic() - started
    tenants, tree_cores = [], 0.0
    for pid, process in watched.items():
        cores = (_cpu_seconds(process) - spent[pid]) / seconds
        if pid in tree:
            tree_cores += max(cores, 0.0)
        elif cores >= BUSY_CORE:
            tenants.append(Tenant(pid, _command(pid), cores=round(cores, 2)))
    host = os.cpu_count() or 1
    busy_cores = max(0.0, (busy_seconds(after) - busy_seconds(before)) / seconds - tree_cores)
    return Occupancy(tuple(tenants), 0.0, min(1.0, busy_cores / host), False)


def busy_seconds(times: Any) -> float:
    """Seconds of cores spent, stolen by the hypervisor included."""
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in kinds))


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _process_tree() -> set[int]:
    """This process and its children."""
    me = psutil.Process()
    return {me.pid, *(child.pid for child in me.children(recursive=True))}


def _command(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "unknown"


def _versions() -> dict[str, str | None]:
    """Of torch, CUDA and cuDNN, read from files: importing torch would cost seconds."""
    found: dict[str, str | None] = {"torch": None, "cuda": None, "cudnn": None}
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
        for name, key in (("__version__", "torch"), ("cuda", "cuda")):
            match = re.search(rf"^{name}\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
            found[key] = match.group(1) if match else None
    for package in importlib.metadata.distributions():
        if (package.name or "").lower().replace("_", "-").startswith("nvidia-cudnn"):
            found["cudnn"] = package.version
    return found


@lru_cache(maxsize=1)
def _cpu_name() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)  # noqa: S603
        return output.stdout.strip() or platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def _is_apple() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
