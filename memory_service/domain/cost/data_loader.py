"""Throughput of the input pipeline: decode, resize and augment per core, times the cores that really work on
it.

One core: decoding a JPEG with Pillow takes about 8 ns a stored pixel (the published single-thread figures for
ImageNet validation images are 360-864 images/s by decoder and CPU, research of the arXiv 2605.08731 authors;
5 ns on the machine these constants were checked on), a random crop reads the stored image once more and
writes the output at about 16 ns a pixel with flip, tensor and normalisation (torchvision 0.29, same machine).
Single-thread figures rank decoders badly inside a DataLoader, so every interval here is wide, until a
calibration has timed the loader of the very host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import modality_of

DECODE_SECONDS_PER_PIXEL = 8e-9
CROP_SECONDS_PER_STORED_PIXEL = 2e-9
OUTPUT_SECONDS_PER_PIXEL = 16e-9
SAMPLE_SECONDS = 2e-4
"""Opening the file, Python and collation, per sample."""

STORED_PER_OUTPUT_SIDE = 1.6
"""A picture is stored about this much larger, per side, than it is trained at, when nobody says how large."""

MOST_WORKERS = 12
PREFETCH = 4
NO_LOADER: Mapping[str, int | bool | None] = {
    "num_workers": 0, "pin_memory": False, "prefetch_factor": None, "persistent_workers": False,
}  # fmt: skip
"""Of what reads its table at once, as torch's DataLoader would be told."""

MEASURED_STORED_SIDE, MEASURED_SIDE = 320, 224
"""Pictures that a calibration decodes and the crops it makes of them (`domain.calibration.probes`)."""
MEASURED_SPREAD = 0.5
"""Exponent of an interval's factor on a host whose loader was timed: the pictures still differ."""

CROWDING = 0.03
"""Each further busy core slows the others this much: memory bandwidth, turbo, the main process."""


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """What one sample costs on one core: pictures made, plus seconds; spread: factor either way."""

    pictures: float = 0.0
    seconds: float = SAMPLE_SECONDS
    seconds_per_token: float = 0.0
    spread: float = 2.0
    basis: str = ""


_PIPELINES = {name: _Pipeline(**row) for name, row in shipped_table(__package__, "pipelines.toml").items()}


def loader_samples_per_second(
    task: str,
    image_size: int,
    num_workers: int,
    cpu_count: int,
    *,
    stored_side: float | None = None,
    measured: Mapping[int, float] | None = None,
) -> Estimate:
    """Samples a second of a DataLoader with `num_workers` processes on `cpu_count` cores.

    task          canonical task or a modality (`image`, `text`, ...)
    image_size    pixels a side for pictures; tokens or steps for text and time series; not used for audio
    stored_side   geometric mean side of the stored pictures in pixels; None = 1.6 x image_size
    measured      workers -> images/s that a calibration timed on this host (`CalibratedRates.loader`)
    Never less with more workers or more cores.
    """
    pipeline = _PIPELINES.get(task) or _PIPELINES.get(modality_of(task)) or _PIPELINES["image"]
    rate = _rate(pipeline, image_size, num_workers, cpu_count, stored_side)
    spread = pipeline.spread if stored_side is None else pipeline.spread**0.7
    basis = pipeline.basis
    if measured and pipeline.pictures:
        image = _PIPELINES["image"]
        laws = (_rate(image, MEASURED_SIDE, n, cpu_count, MEASURED_STORED_SIDE) for n in measured)
        rate *= exp(fmean(log(timed / law) for law, timed in zip(laws, measured.values(), strict=True)))
        spread, basis = spread**MEASURED_SPREAD, f"{basis}, timed on this host"
    basis = f"{basis}; {num_workers} workers on {cpu_count} cores"
    return Estimate(rate, rate / spread, rate * spread, basis=basis)


def _rate(
    pipeline: _Pipeline, image_size: int, num_workers: int, cpu_count: int, stored_side: float | None
) -> float:
    output = float(max(image_size, 1)) ** 2
    stored = (stored_side or STORED_PER_OUTPUT_SIDE * max(image_size, 1)) ** 2
    picture = stored * (DECODE_SECONDS_PER_PIXEL + CROP_SECONDS_PER_STORED_PIXEL)
    picture += output * OUTPUT_SECONDS_PER_PIXEL
    one_core = pipeline.pictures * picture + pipeline.seconds + pipeline.seconds_per_token * image_size
    busy = float(min(num_workers, max(cpu_count, 1))) if num_workers > 0 else 0.7
    return busy / (1.0 + CROWDING * max(busy - 1.0, 0.0)) / one_core


def loader_settings(cpu_count: int, task: str) -> dict[str, int | bool]:
    """DataLoader settings by rule R08: one worker a core up to 12, pinned memory, prefetch, workers kept.

    Rows that sit in memory are sliced, not decoded: they prefetch 3 batches, all else 4 (the rule's 3-4).
    """
    in_memory = modality_of(task) in ("tabular", "recommendation", "time-series")
    return {
        "num_workers": max(1, min(cpu_count, MOST_WORKERS)),
        "pin_memory": True,
        "prefetch_factor": 3 if in_memory else PREFETCH,
        "persistent_workers": True,
    }
