"""What does a process take before any model: of the card, its context and libraries; of the host, Python and
torch?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import torch
from torch.nn import functional

from memory_service.domain.calibration import Measurement
from memory_service.domain.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware, resident_gib
from memory_service.measure.calibrate.timing import summary

__all__ = ["measure", "resident_after_a_step"]

PATIENCE_SECONDS = 60.0


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
    """A fresh process for the host; the card's readings in the order in which a script takes them."""
    if probe.name == "memory.process_gib":
        code = f"from {__name__} import resident_after_a_step; print(resident_after_a_step())"
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""} if hardware.kind == "cpu" else None
        said = subprocess.run(  # noqa: S603 - this interpreter with a fixed line
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
            check=False, env=environment,
        )  # fmt: skip
        if said.returncode:
            raise RuntimeError(f"a fresh process failed: {said.stderr.strip().splitlines()[-1:]}")
        yield probe.name, summary([float(said.stdout)], "GiB")
    else:
        yield from _card(hardware)


def _card(hardware: Hardware) -> Iterator[tuple[str, Measurement]]:
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


def resident_after_a_step() -> float:
    """GiB of a process that has just trained a very small network for one step on the CPU."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 2),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(module.parameters())
    functional.cross_entropy(module(torch.ones(2, 3, 8, 8)), torch.zeros(2, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return resident_gib()
