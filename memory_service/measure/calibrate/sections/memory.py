"""Launch cost of small operators. Memory of a process before any model: on the card, and on the host."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import torch
from torch.nn import functional

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import GIB, Hardware, resident_gib
from memory_service.measure.calibrate.timing import measured, summary

CHAIN = 100
TENSORS = 64
SMALL = 32
"""Values of a tensor so small that only the launch counts."""


def launch(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    work, launches = _WORK[probe.name](hardware)
    timing = measured(probe, hardware, work, seconds)
    value, p20, p80 = (figure / launches for figure in (timing.value, timing.p20, timing.p80))
    yield probe.name, replace(timing, value=value, p20=p20, p80=p80)


def _forward(hardware: Hardware) -> tuple[Callable[[], object], int]:
    x = hardware.tensor(SMALL)

    def work() -> None:
        y = x
        with torch.no_grad():
            for _ in range(CHAIN):
                y = torch.relu(y)

    return work, CHAIN


def _training(hardware: Hardware) -> tuple[Callable[[], object], int]:
    """As many launches backward as forward."""
    x = hardware.tensor(SMALL, gradient=True)
    gradient = hardware.tensor(SMALL)

    def work() -> None:
        y = x
        for _ in range(CHAIN):
            y = torch.relu(y)
        torch.autograd.grad(y, x, gradient)

    return work, 2 * CHAIN


def _optimizer(hardware: Hardware) -> tuple[Callable[[], object], int]:
    parameters = [torch.nn.Parameter(hardware.tensor(SMALL)) for _ in range(TENSORS)]
    for parameter in parameters:
        parameter.grad = hardware.tensor(SMALL)
    optimizer: Any = torch.optim.AdamW(parameters)
    return optimizer.step, TENSORS


_WORK: dict[str, Callable[[Hardware], tuple[Callable[[], object], int]]] = {
    "launch.us": _forward,
    "launch.train_us": _training,
    "launch.adamw_us": _optimizer,
}


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
    if probe.name == "memory.process_gib":
        yield probe.name, summary([_process_gib(hardware)], "GiB")
    else:
        yield from _cuda_memory(hardware)


def _process_gib(hardware: Hardware) -> float:
    """Of a forked child: its parent with all imports, plus what a step adds; 3 % below a process that did
    both by itself (0.665 against 0.687 GiB), which would take three seconds to start.
    """
    before = _private_gib()
    _step(hardware.device)
    if not hardware.forked:
        return resident_gib()
    return float(psutil.Process(os.getppid()).memory_info().rss) / GIB + _private_gib() - before


def _private_gib() -> float:
    """Resident memory of this process that is not shared."""
    info = psutil.Process().memory_info()
    return float(info.rss - getattr(info, "shared", 0)) / GIB


def _cuda_memory(hardware: Hardware) -> Iterator[tuple[str, Measurement]]:
    """NVML's count of the card before and after the first kernel, convolution and product."""
    from memory_service.measure import nvml

    def used() -> float:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return nvml.used_gib(hardware.uuid) or 0.0

    before = nvml.used_gib(hardware.uuid) or 0.0
    torch.ones(16, device=hardware.device).add_(1)
    kernel = used()
    yield "memory.context_gib", summary([max(kernel - before, 0.0)], "GiB")
    x = torch.ones(2, 16, 16, 16, device=hardware.device, requires_grad=True)
    weight = torch.ones(16, 16, 3, 3, device=hardware.device, requires_grad=True)
    functional.conv2d(x, weight, padding=1).sum().backward()  # type: ignore[no-untyped-call]
    conv = used()
    yield "memory.conv_gib", summary([max(conv - kernel, 0.0)], "GiB")
    left = torch.ones(64, 64, device=hardware.device)
    torch.mm(left, left)
    yield "memory.matmul_gib", summary([max(used() - conv, 0.0)], "GiB")


def _step(device: torch.device) -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 2),
    )  # fmt: skip
    module.to(device)
    optimizer = torch.optim.AdamW(module.parameters())
    target = torch.zeros(2, dtype=torch.long, device=device)
    loss: Any = functional.cross_entropy(module(torch.ones(2, 3, 8, 8, device=device)), target)
    loss.backward()
    optimizer.step()
