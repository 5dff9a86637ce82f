"""Speed of matrix products, convolutions and attention, forward and backward; bandwidth of norms,
activations, copies and the optimizer, within a cache and beyond it.

Every operation of a bandwidth allocates its result as training does: on a processor that is part of its
price.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe, probe_of
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.timing import measured, summary

GIB = 2.0**30

LAYOUTS = {"nhwc": torch.channels_last, "nchw": torch.contiguous_format}


def matmul(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    shape = probe.facts
    left = hardware.tensor(shape["rows"], shape["reduced"], precision=probe.precision)
    right = hardware.tensor(shape["reduced"], shape["columns"], precision=probe.precision)
    with torch.no_grad(), hardware.arithmetic(probe.precision):
        yield probe.name, measured(probe, hardware, lambda: torch.mm(left, right), seconds)


def linear(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    inputs, outputs = probe.facts["inputs"], probe.facts["outputs"]
    x = hardware.tensor(probe.batch, inputs, precision=probe.precision, gradient=True)
    weight = hardware.tensor(outputs, inputs, precision=probe.precision, gradient=True)
    bias = hardware.tensor(outputs, precision=probe.precision, gradient=True)
    gradient = hardware.tensor(probe.batch, outputs, precision=probe.precision)

    def work() -> object:
        return torch.autograd.grad(functional.linear(x, weight, bias), (x, weight, bias), gradient)

    with hardware.arithmetic(probe.precision):
        yield probe.name, measured(probe, hardware, work, seconds)


def convolution(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    """At the larger batch with its workspace (peak beyond the tensors)."""
    shape, layout = probe.facts, LAYOUTS[probe.layout]
    side = shape["side"]
    x = _laid_out(hardware, probe, layout, probe.batch, shape["channels"], side, side)
    x.requires_grad_(shape["input_gradient"])
    weight = _laid_out(
        hardware, probe, layout, shape["filters"], shape["channels"] // shape["groups"], shape["kernel"],
        shape["kernel"],
    ).requires_grad_()  # fmt: skip
    gradient = _laid_out(hardware, probe, layout, probe.batch, shape["filters"], side, side)
    targets = (x, weight) if shape["input_gradient"] else (weight,)

    def work() -> Any:
        y = functional.conv2d(x, weight, padding=shape["kernel"] // 2, groups=shape["groups"])
        return torch.autograd.grad(y, targets, gradient)

    with hardware.arithmetic(probe.precision):
        yield probe.name, measured(probe, hardware, work, seconds)
        if probe_of(hardware.kind, f"{probe.name}.workspace_gib") is not None:
            # The output is as large as its gradient.
            tensors_gib = sum(t.nbytes for t in (gradient, *targets)) / GIB
            peak = _peak_of(hardware, work)
            if peak is not None:
                yield f"{probe.name}.workspace_gib", summary([max(0.0, peak - tensors_gib)], "GiB")


def _peak_of(hardware: Hardware, work: Callable[[], object]) -> float | None:
    """GiB at the peak of one repetition beyond those before; None where unknown."""
    hardware.release()
    before = hardware.memory_now()
    hardware.start_peak()
    work()
    peak = hardware.peak()
    return None if peak is None else peak - before


def attention(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    shape = probe.batch, probe.facts["heads"], probe.facts["length"], probe.facts["head_width"]
    query, key, value = (hardware.tensor(*shape, precision=probe.precision, gradient=True) for _ in range(3))
    gradient = hardware.tensor(*shape, precision=probe.precision)

    def work() -> object:
        out = functional.scaled_dot_product_attention(query, key, value)
        return torch.autograd.grad(out, (query, key, value), gradient)

    with hardware.arithmetic(probe.precision):
        yield probe.name, measured(probe, hardware, work, seconds)


def _laid_out(hardware: Hardware, probe: Probe, layout: torch.memory_format, *shape: int) -> Tensor:
    return hardware.tensor(*shape, precision=probe.precision).contiguous(memory_format=layout)


COLUMNS = 256
CHANNELS, SIDE = 64, 32
"""Shape of what a norm over columns, and one over channels, is asked for."""

Work = Callable[[], object]


def bandwidth(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
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
