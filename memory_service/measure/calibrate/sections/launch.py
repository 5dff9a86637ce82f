"""Launch cost of small operators: forward, in training, per tensor of the optimizer."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.timing import measured

CHAIN = 100
TENSORS = 64
SMALL = 32
"""Values of a tensor so small that only the launch counts."""


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
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
