"""Time and memory of real training steps of the reference networks, first and later."""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probe_shapes import REFERENCE_NETS, ReferenceNet
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.sections.kernels import LAYOUTS
from memory_service.measure.calibrate.timing import in_unit, repeat, summary
from memory_service.measure.nets.reference import reference_module

WARMUP_STEPS = {"cpu": 1, "mps": 1, "cuda": 40}
WARMUP_SHARE = 0.5
"""After the first one, before the clock counts, as far as they fit that share of the time: on an H200 steps
that wait for the host took a quarter longer after a dozen than the same network's in a training."""


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    """Time and peaks; of a processor the growth of the process since before the model."""
    ends = time.perf_counter() + seconds
    net = next(net for net in REFERENCE_NETS[hardware.kind] if net.name == probe.facts["net"])
    if hardware.kind == "cpu":
        training_step(net, hardware, probe.precision, probe.layout, 2)()  # libraries and kernels are loaded
    gc.collect()
    hardware.release()
    base = hardware.memory_now()
    hardware.start_peak()
    step = training_step(net, hardware, probe.precision, probe.layout, probe.batch)
    step()
    first = hardware.peak()
    warm = time.perf_counter() + WARMUP_SHARE * seconds
    for done in range(WARMUP_STEPS[hardware.kind]):
        if done and time.perf_counter() > warm:
            break
        step()
        hardware.synchronize()
    hardware.start_peak()
    step()
    steady, reserved = hardware.peak(), hardware.reserved()
    if first is not None and steady is not None:
        yield f"{probe.name}.first_peak_gib", summary([max(first, steady) - base], "GiB")
        yield f"{probe.name}.steady_peak_gib", summary([steady - base], "GiB")
    for name, gib in reserved.items():
        yield f"{probe.name}.{name}", summary([gib], "GiB")
    yield probe.name, in_unit(probe, repeat(lambda: hardware.timed(step, 1), ends))


def sustained(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    """Throughput of the last fifth of a long run over its first; below one: it throttles."""
    ends = time.perf_counter() + seconds
    net = REFERENCE_NETS[hardware.kind][0]
    precision, layout = ("fp32", "nchw") if hardware.kind != "cuda" else (_half(), "nhwc")
    step = training_step(net, hardware, precision, layout, net.batches[1])
    for _ in range(2):
        step()
    times: list[float] = []
    while time.perf_counter() < ends or len(times) < 10:
        times.append(hardware.timed(step, 1))
    fifth = max(len(times) // 5, 2)
    early, late = summary(times[:fifth], "s"), summary(times[-fifth:], "s")
    ratio, low, high = early.value / late.value, early.p20 / late.p80, early.p80 / late.p20
    yield probe.name, Measurement(ratio, "ratio", low, high, len(times), late.flagged)
    if hardware.kind == "cuda":
        from memory_service.measure import nvml

        clock, heat = nvml.sampled(hardware.uuid)
        for name, unit, value in (("clock_mhz", "MHz", clock), ("temperature_c", "C", heat)):
            if value is not None:
                yield f"sustained.{name}", summary([float(value)], unit)


def training_step(
    net: ReferenceNet, hardware: Hardware, precision: str, layout: str, batch: int
) -> Callable[[], None]:
    """Forward, cross entropy, backward and AdamW on one fixed batch, as a training script does it."""
    module: Any = reference_module(net).train().to(hardware.device)
    module.to(memory_format=LAYOUTS[layout])
    side = net.image_size
    x = hardware.tensor(batch, 3, side, side).contiguous(memory_format=LAYOUTS[layout])
    target = torch.randint(0, net.n_outputs, (batch,), device=hardware.device)
    return optimizer_step(module, hardware, precision, lambda: functional.cross_entropy(module(x), target))


def optimizer_step(
    module: torch.nn.Module, hardware: Hardware, precision: str, loss_of_batch: Callable[[], Any]
) -> Callable[[], None]:
    """Forward, loss, backward and AdamW: one training step on each call."""
    optimizer: Any = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=1e-4)
    scaler = hardware.scaler(precision)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with hardware.arithmetic(precision):
            with hardware.autocast(precision):
                loss = loss_of_batch()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

    return step


def _half() -> str:
    if torch.cuda.get_device_capability()[0] >= 8:
        return "bf16"
    return "fp16" if torch.cuda.get_device_capability()[0] >= 7 else "fp32"
