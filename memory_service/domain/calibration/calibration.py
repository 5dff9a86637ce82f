"""A calibration of one device: what was measured, in which environment, whether it still holds, and what
changed since another one; and the data sheet of a device, with its own figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from math import exp, log
from statistics import median
from typing import Any, Literal

from memory_service.domain.cost.rates import with_cores
from memory_service.domain.hardware.gpu_spec import Gpu, normal_gpu_name

CalibrationStatus = Literal["queued", "running", "done", "failed", "timed_out"]

ENVIRONMENT_FIELDS = ("driver", "torch", "cuda", "cudnn", "power_limit_w", "cores")
"""What may change on a device without it becoming another device; any change makes its calibrations stale."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Which device it is, beyond its name, and what drives it.

    name            as the driver (or the processor) says it
    uuid            of the card or its MIG slice; of a processor a digest of model, cores and memory
    memory_gib      total device memory (of a processor: of the host)
    mig             profile of the slice, e.g. "3g.20gb"; None for a whole card
    power_limit_w   enforced now, not the default; None where there is none
    cores           processor cores that this process may use
    """

    kind: Literal["cuda", "mps", "cpu"]
    name: str
    uuid: str
    memory_gib: float
    architecture: str | None = None
    compute_capability: float | None = None
    mig: str | None = None
    power_limit_w: float | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    cores: int | None = None
    host_cpu: str | None = None

    def changes(self, now: Fingerprint) -> tuple[str, ...]:
        """What differs in the environment, or that it is another device, as sentences: "driver was 550.54, is
        560.28"; empty if nothing."""
        pairs = (
            (name, getattr(self, name), getattr(now, name)) for name in ("name", "uuid", *ENVIRONMENT_FIELDS)
        )
        return tuple(f"{name} was {was}, is {is_now}" for name, was, is_now in pairs if was != is_now)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Fingerprint:
        """Inverse of `as_dict`; unknown keys raise TypeError."""
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Median of n repetitions with its 20th and 80th percentile; flagged: still spread over 5 % when
    repeated."""

    value: float
    unit: str
    p20: float
    p80: float
    n: int
    flagged: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Calibration:
    """One timed benchmark of one device.

    sections    name (see `domain.calibration.probes`) -> what was measured
    missing     name -> why it was not: "out of memory", "no bf16 on this device", "the budget ended", ...
    contended   another process used the device meanwhile: kept, never used for rates
    why         sentence for a status that is not "done"
    self_check  each reference network predicted without its own measurement: {"median_error_percent", ...}
    seconds     it took in all; started_at: UTC, ISO 8601
    """

    id: str
    device: str
    fingerprint: Fingerprint
    status: CalibrationStatus
    budget_seconds: float
    sections: Mapping[str, Measurement] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    contended: bool = False
    why: str | None = None
    self_check: Mapping[str, Any] | None = None
    seconds: float | None = None
    started_at: str = ""
    version: str = ""

    @property
    def usable(self) -> bool:
        """Whether rates may stand on it: whatever was measured before it ended, unless it was contended."""
        return bool(self.sections) and not self.contended

    @cached_property
    def content(self) -> str:
        """A digest of what rates follow from: two calibrations with the same one say the same."""
        measured = sorted((name, m.value, m.p20, m.p80) for name, m in self.sections.items())
        said = repr((self.fingerprint.kind, self.fingerprint.cores, measured))
        return blake2b(said.encode(), digest_size=16).hexdigest()

    @cached_property
    def key_figures(self) -> dict[str, dict[str, Any]]:
        """`key_figures` of its sections."""
        return key_figures(self.sections)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Calibration:
        """Inverse of `as_dict`; unknown keys are left out."""
        known = {f.name for f in fields(cls)}
        data = {name: value for name, value in raw.items() if name in known}
        data["fingerprint"] = Fingerprint.from_dict(data["fingerprint"])
        data["sections"] = {name: Measurement(**m) for name, m in (data.get("sections") or {}).items()}
        return cls(**data)


MOST_LOG = 600.0
"""Of a ratio: the exponential of much more is no number."""

TIMES = ("ms", "us", "s")
_BEST_OF = ("matmul", "loader")
"""Sections of which the best value counts: of each precision, of any number of workers."""
_ALONE = (
    "bandwidth.copy", "launch.us", "memory.context_gib", "memory.process_gib", "sustained.ratio",
    "host.h2d_gb_s", "trees.100000x50",
)  # fmt: skip


def drift_percent(
    before: Mapping[str, Measurement], after: Mapping[str, Measurement]
) -> dict[str, dict[str, float]]:
    """Group of sections -> {"percent", "n"}: median change over the n sections that both have.

    Over zero means faster (times count inversely), and for the group `memory` more memory.
    """
    ratios: dict[str, list[float]] = {}
    for name, new in after.items():
        old = before.get(name)
        if old is None or old.unit != new.unit or old.value <= 0.0 or new.value <= 0.0:
            continue
        ratio = log(new.value) - log(old.value)
        ratios.setdefault(_group(name, new.unit), []).append(-ratio if new.unit in TIMES else ratio)
    return {
        group: {"percent": round(100.0 * (exp(min(median(found), MOST_LOG)) - 1.0), 2), "n": len(found)}
        for group, found in sorted(ratios.items())
    }


def key_figures(sections: Mapping[str, Measurement]) -> dict[str, dict[str, Any]]:
    """The few figures people compare: {"matmul.bf16": {"value", "unit", "section"}, ...}."""
    figures: dict[str, dict[str, Any]] = {}
    for name, found in sections.items():
        group = name.split(".", maxsplit=1)[0]
        if group in _BEST_OF:
            key = ".".join(name.split(".")[:2]) if group == "matmul" else group
            if key not in figures or found.value > figures[key]["value"]:
                figures[key] = _figure(name, found)
        elif name in _ALONE:
            figures[name] = _figure(name, found)
    return dict(sorted(figures.items()))


LEAST_SPEED = 0.65
"""Of a card's peaks: below it something slows the device. Two H200 reach 0.75 and 0.8."""


def speed_of(calibration: Calibration, card: Gpu) -> float | None:
    """Share of a card's peaks that a device reached, in the median of those that were measured; None where
    none was. card: the device's own."""
    figures = calibration.key_figures
    peaks = {f"matmul.{name}": peak for name, peak in card.tflops.items()}
    peaks["bandwidth.copy"] = card.bandwidth_gb_s
    shares = [figures[name]["value"] / peak for name, peak in peaks.items() if peak and name in figures]
    return median(shares) if shares else None


def _figure(name: str, found: Measurement) -> dict[str, Any]:
    return {"value": found.value, "unit": found.unit, "section": name}


def _group(name: str, unit: str) -> str:
    return "memory" if unit == "GiB" else name.split(".", maxsplit=1)[0]


_SLICE = re.compile(r"^(\d+)g\.")
SLICES = 7
"""A card that is cut (MIG) has seven slices of arithmetic."""


def device_card(name: str, fingerprint: Fingerprint, sheets: Mapping[str, Gpu], slug: str | None) -> Gpu:
    """The device as a card: memory, cores, power and MIG share of its fingerprint, all else of its model.

    slug   of its GPU model; None where nobody knows it: then the most alike sheet lends its rates, and the
           device keeps its own name as model, so that nothing measured on it counts for the lender
    """
    sheet = sheets.get(slug or "")
    lent = sheet is None
    if sheet is None:
        sheet = _most_alike(fingerprint, sheets)
    found, fraction = _SLICE.match(fingerprint.mig or ""), fingerprint.memory_gib / sheet.memory_gib
    share = max(1, int(found.group(1))) / SLICES if found else None
    memory, usable = fingerprint.memory_gib, _usable_gib(sheet, fingerprint.memory_gib)
    card = with_cores(sheet, fingerprint.cores)
    card = replace(card, device=name, name=fingerprint.name, memory_gib=memory, usable_gib=usable)
    if fingerprint.cores is not None:
        card = replace(card, extra={**card.extra, "host_cores": fingerprint.cores})
    if share is not None:
        tflops = {precision: peak * share for precision, peak in card.tflops.items()}
        card = replace(card, tflops=tflops, bandwidth_gb_s=card.bandwidth_gb_s * min(1.0, fraction))
    if fingerprint.power_limit_w is not None and card.tdp_w is not None:
        card = replace(card, tdp_w=fingerprint.power_limit_w * (share or 1.0))
    if not lent:
        return card
    return replace(
        card,
        slug=slug or normal_gpu_name(fingerprint.name) or name,
        architecture=fingerprint.architecture or card.architecture,
        compute_capability=fingerprint.compute_capability,
        aliases=(),
        source=f"no data sheet is known: figures of {sheet.name} until it is calibrated",
    )


def cores_beside(card: Gpu) -> int | None:
    """Processor cores that work for the card: of a device as it said, of a processor its own."""
    cores = card.extra.get("host_cores") or card.cores
    return cores if isinstance(cores, int) else None


def _usable_gib(sheet: Gpu, memory_gib: float) -> float:
    """Drivers of cards keep a fixed amount back, hosts a share."""
    if sheet.kind == "cuda":
        return max(0.0, memory_gib - (sheet.memory_gib - sheet.usable_gib))
    return memory_gib * sheet.usable_gib / sheet.memory_gib


def _most_alike(fingerprint: Fingerprint, sheets: Mapping[str, Gpu]) -> Gpu:
    """Same kind first, then compute capability, then memory; of what is left the weaker."""
    wanted = fingerprint.compute_capability or 0.0

    def distance(sheet: Gpu) -> tuple[float, float, float]:
        apart = abs((sheet.compute_capability or 0.0) - wanted)
        return apart, abs(sheet.memory_gib - fingerprint.memory_gib), sheet.tflops["fp32"]

    kin = [sheet for sheet in sheets.values() if sheet.kind == fingerprint.kind]
    return min(kin or list(sheets.values()), key=distance)
