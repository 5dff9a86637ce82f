"""Speed of matrix products, convolutions and attention, forward and backward."""

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
