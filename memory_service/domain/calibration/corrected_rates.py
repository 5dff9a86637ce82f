"""Corrections of a data sheet's rates by calibrations, and how far they may be trusted.

Order of trust: the device's own calibration, then those of the same GPU model, then those of the same
architecture scaled by data sheet. Each level corrects the one below it, so that a calibration that lacks
sections still stands on the best that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import exp, expm1, log
from statistics import fmean, median
from typing import Any, Literal, TypeVar

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.memory_overhead import MemoryOverhead, memory_overhead_of
from memory_service.domain.calibration.probe_shapes import TREE_LEAVES
from memory_service.domain.calibration.probes import probe_of
from memory_service.domain.calibration.rate_fit import RateEffects, RatesAt, Timed, fit_effects, spread_of
from memory_service.domain.calibration.timed_sections import network_names, timed_sections
from memory_service.domain.common.estimate import SD_OF_P90
from memory_service.domain.common.units import plural
from memory_service.domain.cost.boosted_trees import TreeSpeed, tree_speed
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import LOG_SPREAD, Rates, sheet_rates, with_cores
from memory_service.domain.hardware.gpu_spec import Gpu

Origin = Literal["device", "model", "architecture"]
Found = TypeVar("Found")

NETWORK_SD = 0.10
"""How far a network is usually off when its device is calibrated, before this device's own check is known."""

PROCESSOR_SD = 0.22
"""The least of it on a processor, whose operators differ more than the reference networks show: of nine
epochs in docs/methods/performance.md half were off by a fifth or more."""

UNCHECKED_SD = 0.2
"""The same where no reference network was measured, or all of them waited for the host."""

GROWS_WITH_BATCH = 1.5
"""Four times the batch takes at least so much longer where the device is busy."""

BETWEEN_SD: Mapping[Origin, float] = {"device": 0.0, "model": 0.06, "architecture": 0.12}
"""How much devices of one model (cooling, power limit, software), and models of one architecture, differ."""

THROTTLED_BELOW, LEAST_SUSTAINED = 0.97, 0.2
"""Speed under lasting load / at first: above the one it is noise, below the other it is no device."""

LEAST_TIME, MOST_TIME, MOST_BASE_GIB = 1.0 / 3.0, 20.0, 4.0
"""Of sections / by the data sheet, whose rates of cards are half of their peaks or more (processors and Macs
differ by as much as they like); of the memory that a process starts with. Of two H200 the medians lie between
0.5 and 5.9, and 0.74 GiB."""

KEPT_OF_ARCHITECTURE = 0.6
"""Share of what another model's calibration says that is taken over, on the logarithm."""


Level = tuple[Origin, Sequence[tuple[Gpu, Calibration]]]
"""Calibrations of one order of trust, each with its data sheet."""


@dataclass(frozen=True, eq=False)
class CalibratedRates:
    """Corrections of a data sheet's rates; `domain.prediction.device_step_time` applies them.

    origin       whose calibrations these are; n: how many of them
    basis        the same in words, for every answer that stands on it
    levels       the calibrations that have timed sections, the least trusted first; fitted where a rate is
                 asked for
    memory       what a process holds beyond its live tensors; None = not measured
    loader       workers -> images/s measured, as `domain.cost.data_loader` explains; empty = not measured
    trees        how fast the host builds boosted trees; None = not measured
    sustained    speed under lasting load / at first, below 1 where it clearly throttles; a step of a long run
                 takes that much longer. None = not measured
    """

    origin: Origin
    n: int
    basis: str
    levels: tuple[Level, ...]
    profiles: tuple[Profile, ...]
    cpu: bool = False
    memory: MemoryOverhead | None = None
    loader: Mapping[int, float] = field(default_factory=dict)
    trees: TreeSpeed | None = None
    sustained: float | None = None

    @cached_property
    def layers(self) -> tuple[RateEffects, ...]:
        """Corrections of the data sheet's rates, each on top of the one before."""
        layers: tuple[RateEffects, ...] = ()
        for name, several in self.levels:
            base = () if name == "architecture" else layers
            each = [_fitted(_case(sheet, c, base, self.profiles)) for sheet, c in several]
            share = KEPT_OF_ARCHITECTURE if name == "architecture" else 1.0
            layers += (_average([fit for fit in each if fit is not None], share),)
        return layers

    @cached_property
    def log_spread(self) -> float:
        """Distance of the 10th and 90th percentile from the median, as logarithm of step time."""
        last = self.levels[-1][1] if self.levels else ()
        errors = [e for sheet, c in last for e in _held_out(_case(sheet, c, (), self.profiles))]
        return _log_spread(self.origin, errors, self.cpu)

    def applied(self, rates: Rates, precision: str, layout: str) -> Rates:
        """The data sheet's rates corrected by what was measured."""
        rates = _through(self.layers, rates, precision, layout, self.cpu)
        if self.sustained is not None and self.sustained < 1.0:
            rates = _slowed(rates, self.sustained)
        return replace(rates, basis=self.basis, n=self.n, log_spread=self.log_spread, extrapolation=0.0)


def calibrated_rates(
    own: Calibration | None,
    same_model: Sequence[Calibration],
    same_architecture: Sequence[tuple[Gpu, Calibration]],
    gpu: Gpu,
    reference_profiles: Iterable[Profile],
) -> CalibratedRates | None:
    """What the usable calibrations say of `gpu`; None where there is none.

    own                 newest usable calibration of this very device
    same_model          of other devices of the same GPU model, without `own`
    same_architecture   of other models, each with its data sheet
    gpu                 the data sheet; a processor with the cores of its fingerprint
    reference_profiles  of the three reference networks
    """
    profiles = tuple(reference_profiles)
    kin = [(sheet, c) for sheet, c in same_architecture if c.usable and sheet.kind == gpu.kind]
    alike = [(gpu, c) for c in same_model if c.usable]
    mine = [(gpu, own)] if own is not None and own.usable else []
    usable: tuple[Level, ...] = (("architecture", kin), ("model", alike), ("device", mine))
    usable = tuple(level for level in usable if level[1])
    if not usable:
        return None
    timed = tuple(level for level in usable if any(_timed(_Sections.of(c, profiles)) for _, c in level[1]))
    origin, level = (timed or usable)[-1]
    return CalibratedRates(
        origin=origin,
        n=len(level),
        basis=_basis(origin, level, gpu),
        levels=timed,
        profiles=profiles,
        cpu=gpu.kind == "cpu",
        memory=_first_of([*mine, *alike], lambda _, c: _memory(_Sections.of(c, profiles))),
        loader=_first_of(mine, lambda _, c: _loader(c)) or {},
        trees=_first_of(mine, lambda _, c: _trees(c)),
        sustained=_first_of(mine, lambda _, c: _sustained(c)),
    )


def self_check(
    calibration: Calibration, gpu: Gpu, reference_profiles: Iterable[Profile]
) -> Mapping[str, Any]:
    """Each reference network predicted from all sections but its own.

    {"median_error_percent": float | None, "networks": [{"name", "predicted_ms", "measured_ms",
    "error_percent"}], "doubt": str, only where there is one: `sections_doubt`}
    """
    profiles = tuple(reference_profiles)
    measured = {t.name: t.seconds for t in timed_sections(calibration, profiles) if t.network}
    held_out = _steps_held_out(calibration, gpu, profiles)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "predicted_ms": round(measured[name] / exp(error) * 1e3, 4),
            "measured_ms": round(measured[name] * 1e3, 4),
            "error_percent": round(expm1(-error) * 100.0, 2),
        }
        for name, error in sorted(held_out.items())
    ]
    errors = [abs(float(row["error_percent"])) for row in rows]
    check = {"median_error_percent": round(median(errors), 2) if errors else None, "networks": rows}
    doubt = sections_doubt(calibration, gpu, profiles)
    return check | ({"doubt": doubt} if doubt else {})


def sections_doubt(calibration: Calibration, gpu: Gpu, profiles: Sequence[Profile]) -> str | None:
    """Why its sections cannot be those of such a device, as a clause; None where they can: operations of one
    kind and precision take, in the median, about what the data sheet's rates say, and a process starts with
    little memory."""
    rates_at, cpu = _rates_at(gpu, calibration), gpu.kind == "cpu"
    ratios: dict[str, list[float]] = {}
    for t in timed_sections(calibration, profiles):
        expected = RateEffects({}).log_seconds(t, rates_at, cpu=cpu)
        ratios.setdefault(f"{t.name.split('.')[0]} in {t.precision}", []).append(log(t.seconds) - expected)
    least = LEAST_TIME if gpu.kind == "cuda" else 1.0 / MOST_TIME
    for what, logs in ratios.items():
        if not log(least) <= median(logs) <= log(MOST_TIME):
            times = f"{exp(median(logs)):.3g} times what they do by the data sheet of {gpu.slug}"
            return f"its sections of {what} take {times}"
    memory = memory_overhead_of(calibration, profiles)
    if memory is not None and memory.base_gib > MOST_BASE_GIB:
        return f"a process starts with {memory.base_gib:.3g} GiB on it"
    return None


def _through(layers: Iterable[RateEffects], rates: Rates, precision: str, layout: str, cpu: bool) -> Rates:
    for layer in layers:
        rates = layer.applied(rates, precision, layout, cpu=cpu)
    return rates


def _rates_at(gpu: Gpu, calibration: Calibration, layers: Sequence[RateEffects] = ()) -> RatesAt:
    sheet = with_cores(gpu, calibration.fingerprint.cores)

    def at(precision: str, layout: str) -> Rates:
        rates = sheet_rates(sheet, precision, layout or "nhwc")
        return _through(layers, rates, precision, layout, gpu.kind == "cpu")

    return at


def _average(fits: Sequence[RateEffects], share: float) -> RateEffects:
    """The mean of every effect over the calibrations that have it: the log-average of their rates."""
    found: dict[str, list[float]] = {}
    for fit in fits:
        for name, effect in fit.effects.items():
            found.setdefault(name, []).append(effect)
    return RateEffects({name: share * fmean(effects) for name, effects in sorted(found.items())})


def _steps_held_out(calibration: Calibration, gpu: Gpu, profiles: Sequence[Profile]) -> dict[str, float]:
    """Section of a reference network -> log(measured / predicted) by a fit without that network."""
    timed = timed_sections(calibration, profiles)
    rates_at = _rates_at(gpu, calibration)
    out: dict[str, float] = {}
    for network in network_names(timed):
        others = [t for t in timed if t.network != network]
        if not others:
            continue
        effects = fit_effects(others, rates_at, cpu=gpu.kind == "cpu")
        for t in (t for t in timed if t.network == network):
            out[t.name] = log(t.seconds) - effects.log_seconds(t, rates_at, cpu=gpu.kind == "cpu")
    return out


@dataclass(frozen=True, slots=True)
class _Sections:
    """Of one calibration, known by what they say: every device of an architecture asks for the same again."""

    content: tuple[Any, ...]
    calibration: Calibration = field(compare=False)
    profiles: tuple[Profile, ...] = field(compare=False)

    @classmethod
    def of(cls, calibration: Calibration, profiles: tuple[Profile, ...]) -> _Sections:
        return cls((calibration.content, *map(id, profiles)), calibration, profiles)


@lru_cache(maxsize=1024)
def _timed(sections: _Sections) -> Sequence[Timed]:
    return timed_sections(sections.calibration, sections.profiles)


@lru_cache(maxsize=1024)
def _memory(sections: _Sections) -> MemoryOverhead | None:
    return memory_overhead_of(sections.calibration, sections.profiles)


@dataclass(frozen=True, slots=True)
class _Case:
    """One calibration to fit, known by what it says: every card of its model asks for the same again."""

    content: tuple[Any, ...]
    gpu: Gpu = field(compare=False)
    calibration: Calibration = field(compare=False)
    layers: tuple[RateEffects, ...] = field(compare=False)
    profiles: tuple[Profile, ...] = field(compare=False)


def _case(
    gpu: Gpu, calibration: Calibration, layers: tuple[RateEffects, ...], profiles: tuple[Profile, ...]
) -> _Case:
    names = "kind", "architecture", "compute_capability", "bandwidth_gb_s", "tdp_w", "cores"
    figures = *(getattr(gpu, name) for name in names), *sorted(gpu.tflops.items())
    below = tuple(tuple(layer.effects.items()) for layer in layers)
    content = figures, calibration.content, below, *map(id, profiles)
    return _Case(content, gpu, calibration, layers, profiles)


@lru_cache(maxsize=512)
def _fitted(case: _Case) -> RateEffects | None:
    timed = _timed(_Sections.of(case.calibration, case.profiles))
    if not timed:
        return None
    rates_at = _rates_at(case.gpu, case.calibration, case.layers)
    return fit_effects(timed, rates_at, cpu=case.gpu.kind == "cpu")


@lru_cache(maxsize=512)
def _held_out(case: _Case) -> tuple[float, ...]:
    """log(measured / predicted) of each network held out, one figure a network: its batches share what is
    wrong. One that waits for the host at every batch says nothing of the card."""
    seconds: dict[str, list[float]] = {}
    for t in timed_sections(case.calibration, case.profiles):
        seconds.setdefault(t.network, []).append(t.seconds)
    found: dict[str, list[float]] = {}
    for name, error in _steps_held_out(case.calibration, case.gpu, case.profiles).items():
        found.setdefault(name.split(".")[1], []).append(error)
    return tuple(
        fmean(errors)
        for network, errors in found.items()
        if len(seconds[network]) == 1 or max(seconds[network]) > GROWS_WITH_BATCH * min(seconds[network])
    )


def _log_spread(origin: Origin, errors: Sequence[float], cpu: bool) -> float:
    sd = spread_of(errors, NETWORK_SD, 1.0) if errors else UNCHECKED_SD
    sd = max(sd, PROCESSOR_SD) if cpu else sd
    sd = (sd**2 + BETWEEN_SD[origin] ** 2) ** 0.5
    return float(max(SD_OF_P90 * sd, min(LOG_SPREAD["low"], 0.08)))


def _basis(origin: Origin, level: Sequence[tuple[Gpu, Calibration]], gpu: Gpu) -> str:
    if origin == "device":
        calibration = level[0][1]
        day = f" of {calibration.started_at[:10]}" if calibration.started_at else ""
        return f"rates measured on {calibration.device or gpu.device or gpu.slug}{day}"
    count = plural(len(level), "calibration")
    if origin == "model":
        return f"rates measured on other devices of this model ({gpu.slug}, {count})"
    models = ", ".join(sorted({sheet.slug for sheet, _ in level}))
    return f"data sheet x rates measured on {models} ({gpu.architecture}, {count})"


def _sustained(calibration: Calibration) -> float | None:
    """Throttling that its own spread does not explain; 1 otherwise."""
    section = calibration.sections.get("sustained.ratio")
    if section is None or not section.value > LEAST_SUSTAINED:
        return None
    return section.value if section.p80 < THROTTLED_BELOW and section.value < THROTTLED_BELOW else 1.0


def _slowed(rates: Rates, factor: float) -> Rates:
    return replace(
        rates,
        flops_per_second=tuple(rate * factor for rate in rates.flops_per_second),
        bytes_per_second=tuple(rate * factor for rate in rates.bytes_per_second),
        memory_bytes_per_second=rates.memory_bytes_per_second * factor,
    )


def _first_of(
    level: Iterable[tuple[Gpu, Calibration]], read: Callable[[Gpu, Calibration], Found | None]
) -> Found | None:
    return next((found for sheet, c in level if (found := read(sheet, c))), None)


def _loader(calibration: Calibration) -> Mapping[int, float]:
    prefix = "loader.workers"
    return {
        int(name.removeprefix(prefix)): m.value
        for name, m in calibration.sections.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit() and m.value > 0
    }


def _trees(calibration: Calibration) -> TreeSpeed | None:
    seconds: dict[tuple[int, int, int], float] = {}
    for name, measured in calibration.sections.items():
        probe = probe_of(calibration.fingerprint.kind, name) if name.startswith("trees.") else None
        if probe is not None and measured.value > 0:
            facts = probe.facts
            seconds[facts["rows"], facts["columns"], facts["rounds"]] = measured.value
    cores = calibration.fingerprint.cores or max((1, *_loader(calibration)))
    return tree_speed(seconds, cores, TREE_LEAVES)
