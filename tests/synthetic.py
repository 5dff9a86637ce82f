"""Calibrations made from known rates, for what a machine cannot have: a GPU.

Every section's time is what the step law says of its work at the true rates, with some noise; a fit that
is right finds the rates again. Real cards differ from the law itself, which no such test can see.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import exp

from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement
from memory_service.domain.calibration.probes import Kind, Probe, probes
from memory_service.domain.calibration.rate_fit import DEFAULT_UPDATE_SECONDS, RateEffects
from memory_service.domain.calibration.timed_sections import timed_sections
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import Rates, sheet_rates
from memory_service.domain.hardware.gpu_spec import Gpu, gpu_from_row
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import read_profiles

PRECISIONS = {"cuda": ("fp32", "tf32", "fp16", "bf16"), "cpu": ("fp32",)}
CORES = 8


@cache
def sheets() -> dict[str, TargetDevice]:
    lines = (resource("seeds") / "gpus.jsonl").read_text(encoding="utf-8").splitlines()
    return {gpu.slug: gpu for gpu in (target_device(gpu_from_row(json.loads(line))) for line in lines)}


@cache
def references() -> tuple[Profile, ...]:
    return tuple(read_profiles(resource("seeds") / "reference_profiles.jsonl.gz"))


@cache
def catalogue(precision: str, *models: str) -> tuple[Profile, ...]:
    """Shipped profiles of these models (names without tag) in a precision class."""
    shipped = read_profiles(resource("seeds") / "profiles.jsonl.gz")
    return tuple(p for p in shipped if p.precision == precision and p.model.split(".")[0] in models)


class Truth:
    """A device whose rates differ from its data sheet, each class of work by its own factor."""

    def __init__(self, seed: int, spread: float = 0.25, overall: float = 1.0) -> None:
        self._draw = random.Random(seed)
        self._factors: dict[object, float] = {}
        self.spread, self.overall = spread, overall

    def factor(self, *key: object) -> float:
        if key not in self._factors:
            self._factors[key] = exp(self._draw.gauss(0.0, self.spread))
        return self._factors[key]

    def rates(self, gpu: Gpu, precision: str, layout: str) -> Rates:
        sheet = sheet_rates(gpu, precision, layout or "nhwc")
        update = DEFAULT_UPDATE_SECONDS[gpu.kind == "cpu"]
        return replace(
            sheet,
            flops_per_second=self._scaled("flops", sheet.flops_per_second),
            bytes_per_second=self._scaled("bytes", sheet.bytes_per_second),
            kernel_seconds=sheet.kernel_seconds * self.factor("kernel"),
            memory_bytes_per_second=sheet.memory_bytes_per_second * self.overall,
            update_seconds_per_tensor=update * self.factor("update"),
        )

    def _scaled(self, work: str, rates: Sequence[float]) -> tuple[float, ...]:
        return tuple(rate * self.overall * self.factor(work, kind) for kind, rate in enumerate(rates))

    def noise(self, sd: float) -> float:
        return exp(self._draw.gauss(0.0, sd))


def calibration(
    gpu: Gpu,
    truth: Truth,
    *,
    noise: float = 0.02,
    keep: Callable[[str], bool] = lambda _: True,
    extra: dict[str, float] | None = None,
    device: str = "box",
) -> Calibration:
    """All timed sections of such a device whose name `keep` accepts, and `extra` ones."""
    kind: Kind = "cpu" if gpu.kind == "cpu" else "cuda"
    cores = CORES if kind == "cpu" else None
    fingerprint = Fingerprint(kind, gpu.name, f"uuid-{device}", gpu.memory_gib, gpu.architecture, cores=cores)
    known = {probe.name: probe for probe in probes(kind, PRECISIONS[kind], CORES)}
    asked = Calibration(
        "c", device, fingerprint, "done", 60.0, {name: _one(1.0, p.unit) for name, p in known.items()}
    )
    sections = {}
    for timed in timed_sections(asked, references()):
        seconds = exp(
            RateEffects({}).log_seconds(
                timed, lambda precision, layout: truth.rates(gpu, precision, layout), cpu=kind == "cpu"
            )
        )
        if keep(timed.name):
            value = _in_unit(known[timed.name], seconds * truth.noise(noise))
            sections[timed.name] = _one(value, known[timed.name].unit)
    for name, value in (extra or {}).items():
        sections[name] = _one(value, known[name].unit if name in known else "GiB")
    return replace(asked, sections=sections, started_at="2026-11-21T06:00:00Z")


def without(found: Calibration, names: Iterable[str]) -> Calibration:
    dropped = set(names)
    return replace(found, sections={n: m for n, m in found.sections.items() if n not in dropped})


def _one(value: float, unit: str) -> Measurement:
    return Measurement(value, unit, value, value, 9)


def _in_unit(probe: Probe, seconds: float) -> float:
    if probe.unit == "TFLOP/s":
        return probe.flops / seconds / 1e12
    if probe.unit == "GB/s":
        return probe.bytes / seconds / 1e9
    return seconds * {"ms": 1e3, "us": 1e6, "s": 1.0}[probe.unit]
