"""Memory that a process holds beyond its live tensors, from one device's calibration.

The reference networks' peaks are compared with what their profiles say is alive: on a card the allocator's
reserve with cuDNN's workspace, and the driver's count on top; on a processor the growth of the process, whose
allocator keeps and splits what was freed, beside the weight of Python and torch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.probes import Probe, probe_of
from memory_service.domain.calibration.timed_sections import profile_of_step, profiles_by_key
from memory_service.domain.cost.memory import FRAGMENTS, GIB, LIBRARIES_GIB, allocated_bytes, workspace_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import precision_class

LEAST_RATIO, MOST_RATIO = 0.9, 2.5
MOST_WORKSPACE_SHARE = 3.0
PRIOR_NETWORKS = 1.0
"""The general constants count as much as this many networks."""


@dataclass(frozen=True, slots=True)
class MemoryOverhead:
    """base_gib   before the model: of a card its context and libraries, of a processor Python and torch
    ratio         resident / live bytes, workspace apart; None = not measured
    workspace_share   of the general law of cuDNN's workspace (cards); None = not measured
    """

    base_gib: float
    ratio: float | None = None
    workspace_share: float | None = None


def memory_overhead_of(
    calibration: Calibration, reference_profiles: Iterable[Profile]
) -> MemoryOverhead | None:
    """What a calibration's sections say of it; None where they do not say what the process starts with."""
    by_key = profiles_by_key(reference_profiles)
    kind = calibration.fingerprint.kind
    live: list[tuple[Probe, float, float]] = []
    for name in sorted(calibration.sections):
        probe = probe_of(kind, name)
        profile = profile_of_step(probe, by_key) if probe and name.startswith("step.") else None
        if probe is None or profile is None or "of" in probe.facts:
            continue
        optimizer = str(probe.facts.get("optimizer", "adamw"))
        workspace = workspace_bytes(profile, probe.batch, probe.precision)
        live.append((probe, allocated_bytes(profile, probe.batch, optimizer) / GIB, workspace / GIB))
    return _of_card(calibration, live) if kind == "cuda" else _of_host(calibration, live)


def _of_host(calibration: Calibration, live: list[tuple[Probe, float, float]]) -> MemoryOverhead | None:
    base = _value(calibration, "memory.process_gib")
    if base is None:
        return None
    ratios = [
        peak / gib
        for probe, gib, _ in live
        if gib > 0 and (peak := _value(calibration, f"{probe.name}.first_peak_gib"))
    ]
    return MemoryOverhead(base, _within(median(ratios), LEAST_RATIO, MOST_RATIO) if ratios else None)


def _of_card(calibration: Calibration, live: list[tuple[Probe, float, float]]) -> MemoryOverhead | None:
    """The driver's count less the reserve is the context; the reserve less the live bytes the workspace."""
    contexts: list[float] = []
    shares: list[float] = []
    for probe, gib, workspace in live:
        reserved = _value(calibration, f"{probe.name}.reserved_gib")
        driver = _value(calibration, f"{probe.name}.driver_gib")
        if reserved and driver and driver > reserved:
            contexts.append(driver - reserved)
        if reserved and workspace > 0.02 * gib:
            kind = precision_class(probe.precision)
            held = reserved - FRAGMENTS[kind] * gib - LIBRARIES_GIB[kind]
            shares.append(_within(held / workspace, 0.0, MOST_WORKSPACE_SHARE))
    parts = [_value(calibration, f"memory.{name}_gib") or 0.0 for name in ("context", "conv", "matmul")]
    if not contexts and not parts[0]:
        return None
    base = median(contexts) if contexts else sum(parts)
    if not shares:
        return MemoryOverhead(base)
    n = len(shares)
    return MemoryOverhead(base, None, (n * median(shares) + PRIOR_NETWORKS) / (n + PRIOR_NETWORKS))


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _value(calibration: Calibration, name: str) -> float | None:
    section = calibration.sections.get(name)
    return section.value if section is not None and section.value >= 0 else None
