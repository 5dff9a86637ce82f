"""Images per second that the host decodes and augments, time of LightGBM, bandwidth from host to card; launch
cost of small operators; memory of a process before any model, on the card and on the host."""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import GIB, Hardware, resident_gib
from memory_service.measure.calibrate.timing import in_unit, measured, repeat, summary
from memory_service.measure.identity import cores_of_process

FILES = 32
BATCH = 16
ENDLESS = 10_000_000
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def loader(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
    """JPEG files through Pillow and torchvision in a real DataLoader; its start is not counted."""
    ends = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory(prefix="calibrate-") as folder:
        generate(Path(folder), probe.facts["stored_side"])
        workers = int(probe.facts["workers"])
        settings: dict[str, Any] = {}
        if workers:
            settings = {"prefetch_factor": 2, "multiprocessing_context": _context()}
        images = _Images(Path(folder), probe.facts["output_side"])
        batches = iter(DataLoader(images, batch_size=BATCH, num_workers=workers, **settings))
        several = max(2 * workers, 1)
        _seconds_per_image(batches, several)
        timing = repeat(lambda: _seconds_per_image(batches, several), ends)
    rate, low, high = (1 / seconds for seconds in (timing.value, timing.p80, timing.p20))
    yield probe.name, Measurement(rate, "images/s", low, high, timing.n, timing.flagged)


def _seconds_per_image(batches: Iterator[Any], several: int) -> float:
    started = time.perf_counter()
    for _ in range(several):
        next(batches)
    return (time.perf_counter() - started) / (several * BATCH)


def copies(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    """Host to device, from pinned and from ordinary memory."""
    source = torch.empty(int(probe.bytes), dtype=torch.uint8, pin_memory=bool(probe.facts["pinned"]))
    target = torch.empty(int(probe.bytes), dtype=torch.uint8, device=hardware.device)
    ends = time.perf_counter() + seconds

    def sample() -> float:
        return hardware.timed(lambda: target.copy_(source, non_blocking=True), 1)

    sample()
    yield probe.name, in_unit(probe, repeat(sample, ends))


def generate(folder: Path, side: int) -> None:
    """JPEG files that compress about as photographs: soft shapes with some grain."""
    draw = np.random.default_rng(11)
    for index in range(FILES):
        coarse = Image.fromarray(draw.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize((side, side))
        grain = draw.normal(0.0, 8.0, (side, side, 1))
        pixels = np.clip(np.asarray(coarse, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.jpg", quality=90)


class _Images(Dataset[torch.Tensor]):
    def __init__(self, folder: Path, side: int) -> None:
        from torchvision import transforms

        self.files = sorted(folder.iterdir())
        augment = transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip()
        normalised = transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)
        self.transform = transforms.Compose([*augment, *normalised])

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self.files[index % len(self.files)]) as image:
            tensor: torch.Tensor = self.transform(image.convert("RGB"))
        return tensor


def _context() -> Any:
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def trees(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
    import lightgbm

    ends = time.perf_counter() + seconds
    rows, columns = int(probe.facts["rows"]), int(probe.facts["columns"])
    draw = np.random.default_rng(3)
    table = draw.standard_normal((rows, columns))
    chance = table[:, :5].sum(axis=1) + np.sin(3 * table[:, 5]) + draw.standard_normal(rows)
    label = (chance > 0).astype(np.float32)
    settings: dict[str, Any] = {
        "objective": "binary", "num_leaves": probe.facts["leaves"], "num_threads": cores_of_process(),
        "verbosity": -1, "seed": 1,
    }  # fmt: skip
    started = time.perf_counter()
    data = lightgbm.Dataset(table, label, params=settings).construct()
    yield f"{probe.name}.binning", summary([time.perf_counter() - started], "s")
    booster = lightgbm.Booster(settings, data)
    booster.update()

    def tree() -> float:
        tree_started = time.perf_counter()
        booster.update()
        return time.perf_counter() - tree_started

    yield probe.name, repeat(tree, ends)


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


def memory(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
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
