"""Bandwidth of norms, activations, copies and the optimizer, within a cache and beyond it.

Every operation allocates its result as training does: on a processor that is part of its price.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.sections.kernels import LAYOUTS
from memory_service.measure.calibrate.timing import measured

COLUMNS = 256
CHANNELS, SIDE = 64, 32
"""Shape of what a norm over columns, and one over channels, is asked for."""

Work = Callable[[], object]


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    operation = probe.facts["operation"]
    work = _adamw(probe, hardware) if operation == "adamw" else _WORK[operation](probe, hardware)
    flush_cache = not probe.facts.get("in_cache", False)
    yield probe.name, measured(probe, hardware, work, seconds, flush_cache=flush_cache)


def _values(probe: Probe) -> int:
    return int(probe.facts["array_bytes"]) // 4


def _copied(probe: Probe, hardware: Hardware) -> Work:
    """One array in, one out."""
    return hardware.tensor(_values(probe)).clone


def _added(probe: Probe, hardware: Hardware) -> Work:
    """Two arrays in, one out: of one array added to itself a cache would give the second for nothing."""
    x, y = (hardware.tensor(_values(probe)) for _ in range(2))
    return lambda: torch.add(x, y)


def _array(probe: Probe, hardware: Hardware, shape: str) -> torch.Tensor:
    """What is read and trained; shape "flat" | "rows" of COLUMNS values | "images" of CHANNELS x SIDE x
    SIDE."""
    n = _values(probe)
    sizes = {
        "flat": (n,),
        "rows": (n // COLUMNS, COLUMNS),
        "images": (n // (CHANNELS * SIDE * SIDE), CHANNELS, SIDE, SIDE),
    }[shape]
    x = hardware.tensor(*sizes)
    if probe.layout:
        x = x.contiguous(memory_format=LAYOUTS[probe.layout])
    return x.requires_grad_()


def _trained(operation: Callable[..., Any], shape: str = "flat") -> Callable[[Probe, Hardware], Work]:
    """Forward and backward."""

    def make(probe: Probe, hardware: Hardware) -> Work:
        x = _array(probe, hardware, shape)
        gradient = torch.ones_like(operation(x))
        return lambda: torch.autograd.grad(operation(x), x, gradient)

    return make


def _normed(probe: Probe, hardware: Hardware) -> Work:
    """Batch norm or layer norm with its weights, as in training."""
    by_row = probe.facts["operation"] == "layernorm"
    channels = COLUMNS if by_row else CHANNELS
    weight, bias = (hardware.tensor(channels, gradient=True) for _ in range(2))
    mean, variance = (make(channels, device=hardware.device) for make in (torch.zeros, torch.ones))
    x = _array(probe, hardware, "rows" if by_row else "images")

    def forward() -> Any:
        if by_row:
            return functional.layer_norm(x, (COLUMNS,), weight, bias)
        return functional.batch_norm(x, mean, variance, weight, bias, training=True)

    gradient = torch.ones_like(forward())
    return lambda: torch.autograd.grad(forward(), (x, weight, bias), gradient)


def _adamw(probe: Probe, hardware: Hardware) -> Work:
    tensors = int(probe.facts["tensors"])
    each = int(probe.facts["params"]) // tensors
    parameters = [torch.nn.Parameter(hardware.tensor(each)) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer: Any = torch.optim.AdamW(parameters)
    return optimizer.step


_WORK: dict[str, Callable[[Probe, Hardware], Work]] = {
    "copy": _copied,
    "add": _added,
    "relu": _trained(torch.relu),
    "gelu": _trained(functional.gelu),
    "softmax": _trained(lambda x: torch.softmax(x, -1), "rows"),
    "dropout": _trained(lambda x: functional.dropout(x, 0.1, training=True)),
    "maxpool": _trained(lambda x: functional.max_pool2d(x, 2), "images"),
    "batchnorm": _normed,
    "layernorm": _normed,
}
