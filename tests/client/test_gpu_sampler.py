"""Is a card read as its driver tells it, and is this process's share its own? NVML is played here."""

# ruff: noqa: N802 - names of nvidia-ml-py
from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_service.client import gpu_sampler as gauges
from memory_service.client.gpu_sampler import GpuSampler

GIB = 2**30


class PlayedNvml:
    """One card with 24 GiB, as nvidia-ml-py shows it."""

    class NVMLError(Exception):
        pass

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self, processes: dict[int, int | None]) -> None:
        self.processes = processes

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"card {index}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA A10G"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=24 * GIB, used=12 * GIB)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=93)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        raise self.NVMLError("not supported")

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 71

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return 1710

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0x4  # the ordinary power cap

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes.items()]


Measured = tuple[GpuSampler, dict[str, Any]]


def measured(monkeypatch: pytest.MonkeyPatch, processes: dict[int, int | None]) -> Measured:
    monkeypatch.setitem(sys.modules, "pynvml", PlayedNvml(processes))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    sampler = GpuSampler(every_seconds=100.0, tree_every_seconds=100.0)
    assert sampler.wait_for_name() == "NVIDIA A10G"
    sampler.stop()
    return sampler, sampler.sample()


def test_every_figure_says_what_it_is_and_what_is_not_told_is_left_out(monkeypatch: pytest.MonkeyPatch):
    sampler, sample = measured(monkeypatch, {os.getpid(): 8 * GIB, 1: 2 * GIB})
    assert sampler.total_gib == 24.0
    assert sample == {
        "used_gib": 12.0,
        "process_gib": 8.0,
        "other_processes": 1,
        "utilization_percent": 93.0,
        "temperature_c": 71.0,
        "clock_mhz": 1710.0,
        "throttled": False,
    }
    assert sampler.pop_utilization() == 93.0
    assert sampler.pop_utilization() is None


def test_process_ids_of_another_namespace_say_nothing_of_whose_they_are(monkeypatch: pytest.MonkeyPatch):
    _, sample = measured(monkeypatch, {2**22 + 1: 3 * GIB, 2**22 + 2: GIB})
    assert "process_gib" not in sample
    assert "other_processes" not in sample
    assert sample["used_gib"] == 12.0


def test_the_only_process_of_another_namespace_is_this_one_while_torch_uses_the_card(
    monkeypatch: pytest.MonkeyPatch,
):
    peaks = {"peak_allocated_gib": 5.0, "peak_reserved_gib": 6.0}
    monkeypatch.setattr(gauges, "torch_memory", lambda index: peaks)
    _, sample = measured(monkeypatch, {2**22 + 1: 7 * GIB})
    assert sample["process_gib"] == 7.0
    assert sample["other_processes"] == 0
    assert sample["peak_allocated_gib"] == 5.0


def test_a_driver_that_does_not_tell_the_share_leaves_it_out(monkeypatch: pytest.MonkeyPatch):
    _, sample = measured(monkeypatch, {os.getpid(): None})
    assert "process_gib" not in sample
    assert sample["other_processes"] == 0


def test_without_a_card_the_device_is_the_processor_and_its_load_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    samples: list[dict[str, Any]] = []
    sampler = GpuSampler(every_seconds=0.05, tree_every_seconds=0.05)
    sampler.report = samples.append
    assert sampler.wait_for_name() is None
    until = time.monotonic() + 20
    while len(samples) < 3 and time.monotonic() < until:
        sum(range(10_000))
    sampler.stop()
    assert set(samples[-1]) - {"cpu_wait_percent"} == {"cpu_percent", "host_gib"}
    assert 0.0 < samples[-1]["cpu_percent"] <= 100.0
    assert 0.01 < samples[-1]["host_gib"] < 100.0


def test_torch_is_asked_only_when_the_script_uses_it_on_a_card(monkeypatch: pytest.MonkeyPatch):
    class Cuda:
        ready = False

        def is_initialized(self) -> bool:
            return self.ready

        def max_memory_allocated(self, index: int) -> int:
            return (index + 1) * GIB

        def max_memory_reserved(self, index: int) -> int:
            return (index + 2) * GIB

    cuda = Cuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert gauges.torch_memory(0) == {}
    cuda.ready = True
    assert gauges.torch_memory(1) == {"peak_allocated_gib": 2.0, "peak_reserved_gib": 3.0}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert gauges.torch_memory(0) == {}


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel tells no waiting")
def test_waiting_for_a_core_is_told_of_the_time_in_which_threads_could_run(monkeypatch: pytest.MonkeyPatch):
    tree = gauges._Tree(os.getpid())
    tree.refresh()
    told = iter(({"a": (0, 0), "b": (5, 5)}, {"a": (3 * 10**8, 10**8), "c": (9, 9)}))
    assert gauges._scheduled([os.getpid()])
    monkeypatch.setattr(gauges, "_scheduled", lambda _: next(told))
    assert "cpu_wait_percent" not in tree.use()
    assert tree.use()["cpu_wait_percent"] == pytest.approx(25.0)
