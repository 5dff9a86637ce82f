"""Sections of a calibration: each runs its probes one after the other within its time.

A figure that cannot be had (out of memory, an operator this device lacks) is reported as missing, and the
next one is measured.
"""

import gc
import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe, probe_of
from memory_service.measure.calibrate.hardware import Hardware, hardware_of
from memory_service.measure.calibrate.sections import host, kernels, steps

Found = Iterator[tuple[str, Measurement]]
Measure = Callable[[Probe, Hardware, float], Found]
"""(probe, hardware, seconds) -> what was found under which names: the probe's own, and by-products."""

GROUPS: Mapping[str, Measure] = {
    "launch": host.launch,
    "memory": host.memory,
    "matmul": kernels.matmul,
    "linear": kernels.linear,
    "conv": kernels.convolution,
    "attention": kernels.attention,
    "bandwidth": kernels.bandwidth,
    "step": steps.measure,
    "sustained": steps.sustained,
    "loader": host.loader,
    "host": host.copies,
    "trees": host.trees,
}

SMALLEST_SECONDS = 0.02

OVERRUN, OVERRUN_SECONDS = 0.5, 0.5
"""Of a section's time: past it, the probes that are left are given up rather than those of later sections."""


def measure_section(request: Mapping[str, Any], emit: Callable[[Mapping[str, Any]], None]) -> None:
    """Measure the probes of a request in its seconds; by-products (`facts["of"]`) come with their probe."""
    ends = time.perf_counter() + float(request["seconds"])
    hardware = hardware_of(request["kind"], request["torch_device"], request["uuid"])
    hardware.forked = bool(request["forked"])
    named, measure = _selected(request)
    direct = [probe for probe in named if "of" not in probe.facts]
    reported: set[str] = set()
    for index, probe in enumerate(direct):
        remaining = ends - time.perf_counter()
        if remaining < -max(OVERRUN * float(request["seconds"]), OVERRUN_SECONDS):
            break
        seconds = max(remaining / (len(direct) - index), SMALLEST_SECONDS)
        try:
            for name, measurement in measure(probe, hardware, seconds):
                reported.add(name)
                emit({"event": "section", "name": name, "measurement": measurement.as_dict()})
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this figure alone
            reported.add(probe.name)
            emit({"event": "missing", "name": probe.name, "why": _reason(error)})
        gc.collect()
        hardware.release()
    for probe in named:
        if probe.name not in reported:
            late = time.perf_counter() > ends and "of" not in probe.facts
            why = "its section's share of the budget was used up" if late else "not available on this system"
            emit({"event": "missing", "name": probe.name, "why": why})


def _selected(request: Mapping[str, Any]) -> tuple[list[Probe], Measure]:
    if request.get("extra"):
        module: Any = importlib.import_module(request["extra"])
        extra = [probe for probe in module.PROBES if probe.name in request["probes"]]
        if extra:
            return extra, module.measure
    selected = [probe_of(request["kind"], name) for name in request["probes"]]
    return [probe for probe in selected if probe is not None], GROUPS[request["section"].partition(".")[0]]


def _reason(error: BaseException) -> str:
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
        return "out of memory"
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text[:200]
