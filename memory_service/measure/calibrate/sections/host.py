"""Images per second that the host decodes and augments, time of LightGBM, and bandwidth from host to card."""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.timing import in_unit, repeat, summary
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
