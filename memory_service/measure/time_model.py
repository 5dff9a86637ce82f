"""Times training steps of any model that can be built, with random weights, on a device of this host."""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from memory_service.measure.build_model import build_model
from memory_service.measure.calibrate.hardware import Hardware, hardware_of
from memory_service.measure.calibrate.sections.kernels import LAYOUTS
from memory_service.measure.calibrate.sections.steps import optimizer_step
from memory_service.measure.traceable_model import BuiltModel

WARM_STEPS, WINDOWS = 10, 5
"""Steps before the clock counts, and windows of the time that follows."""

INITIAL_SD = 0.02
"""Of random weights."""


class ModelTime(NamedTuple):
    """windows: (steps, seconds), the first of them warm-up; peaks: `peak_allocated_gib`, `peak_reserved_gib`
    and `process_gib` of a card, nothing of a processor, whose process holds more than the model."""

    windows: tuple[tuple[int, float], ...]
    peaks: Mapping[str, float]


def time_model(
    name: str,
    kind: str,
    uuid: str,
    batch: int,
    precision: str,
    layout: str,
    seconds: float,
    **options: Any,
) -> ModelTime:
    """About `seconds` of training steps (forward, loss, backward, AdamW) on one batch.

    kind and uuid: of the device, as its fingerprint has them; options: as `build_model` takes them.
    InvalidInput for a name that cannot be built, torch.OutOfMemoryError where it does not fit.
    """
    hardware = hardware_of(kind, "cuda:0" if kind == "cuda" else kind, uuid)
    hardware.start_peak()
    step = _step(build_model(name, **options), hardware, batch, precision, layout)
    began = time.perf_counter()
    windows = [(WARM_STEPS, hardware.timed(step, WARM_STEPS))]
    each = max(windows[0][1] / WARM_STEPS, 1e-6)
    left = seconds - (time.perf_counter() - began)
    count = max(1, round(left / WINDOWS / each))
    windows += [(count, hardware.timed(step, count)) for _ in range(WINDOWS)]
    peaks = {}
    if kind == "cuda" and (peak := hardware.peak()) is not None:
        names = {"reserved_gib": "peak_reserved_gib", "driver_gib": "process_gib"}
        peaks = {"peak_allocated_gib": peak}
        peaks |= {names[name]: gib for name, gib in hardware.reserved().items()}
    del step
    gc.collect()
    hardware.release()
    return ModelTime(tuple(windows), peaks)


def _step(
    built: BuiltModel, hardware: Hardware, batch: int, precision: str, layout: str
) -> Callable[[], None]:
    module: Any = built.module.to_empty(device=hardware.device).train()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, INITIAL_SD)  # what memory held before may be slow to reckon with
        for layer in module.modules():
            if callable(reset := getattr(layer, "reset_parameters", None)):
                reset()
        for name, buffer in module.named_buffers():
            buffer.fill_(1 if name.endswith("running_var") else 0)
    inputs = built.inputs(batch, str(hardware.device))
    inputs = {name: one.normal_() if one.is_floating_point() else one for name, one in inputs.items()}
    if layout == "nhwc":
        module.to(memory_format=LAYOUTS[layout])
        inputs = {
            name: one.contiguous(memory_format=LAYOUTS[layout]) if one.dim() == 4 else one
            for name, one in inputs.items()
        }
    return optimizer_step(module, hardware, precision, lambda: built.loss(built.forward(inputs), inputs))
