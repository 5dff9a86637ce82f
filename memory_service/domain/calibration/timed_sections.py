"""Timed sections of a calibration as known work, each with how close it is to what a network sees."""

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, isfinite, log

import numpy as np

from memory_service.domain.calibration.calibration import Calibration, Measurement
from memory_service.domain.calibration.probes import Probe, probe_of
from memory_service.domain.calibration.rate_fit import Timed
from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.cost.roofline import Roofline, roofline_of
from memory_service.domain.cost.step_time import optimizer_bytes_per_param

SECTION_SD: Mapping[str, float] = {
    "step": 0.04, "linear": 0.15, "conv": 0.2, "attention": 0.2, "matmul": 0.25, "launch": 0.8,
    "bandwidth": 0.35,
}  # fmt: skip
"""By the first word of a section's name. A step is what is asked for; an operation alone, hot in a loop, is
less so; streaming an array says less, since a step's tensors are partly in a cache, and starting an operator
on 32 values least: a layer's costs several times that."""

OUT_OF_CACHE_SD = 1.0
"""A processor's arrays larger than its caches are handed to the process anew each time and timed with that;
of a card the arrays that fit its cache say as little."""

P20_TO_P80 = 1.683
"""Distance of these two percentiles of a normal distribution, in standard deviations."""


def timed_sections(calibration: Calibration, reference_profiles: Iterable[Profile]) -> list[Timed]:
    """Every section of a calibration that is a time of known work, in order of names."""
    by_name = profiles_by_key(reference_profiles)
    kind = calibration.fingerprint.kind
    out: list[Timed] = []
    for name in sorted(calibration.sections):
        measured = calibration.sections[name]
        probe = probe_of(kind, name)
        if probe is None or not isfinite(measured.value) or measured.value <= 0:
            continue
        if name.startswith("step.") and probe.unit == "ms":
            sd = _with_spread(SECTION_SD["step"], measured)
            found = _step(probe, by_name, probe.seconds(measured.value), sd)
        else:
            found = _operation(probe, measured.value, _with_spread(_sd_of(kind, probe), measured))
        if found is not None:
            out.append(found)
    return out


def network_names(timed: Sequence[Timed]) -> list[str]:
    """The reference networks among them."""
    return sorted({t.network for t in timed if t.network})


def profiles_by_key(profiles: Iterable[Profile]) -> dict[tuple[str, int, str], Profile]:
    """By (model, input size, precision class)."""
    return {(p.model, p.input_size, p.precision): p for p in profiles}


def profile_of_step(probe: Probe, profiles: Mapping[tuple[str, int, str], Profile]) -> Profile | None:
    """The profile of a step's reference network, by (model, input size, precision class)."""
    kind = "amp" if probe.precision in ("fp16", "bf16") else "fp32"
    return profiles.get((str(probe.facts.get("model")), int(probe.facts.get("image_size", 0)), kind))


def _sd_of(kind: str, probe: Probe) -> float:
    if probe.op_class == "elementwise" and "operation" in probe.facts:
        in_cache = bool(probe.facts.get("in_cache"))
        if in_cache == (kind == "cuda"):
            return OUT_OF_CACHE_SD
    return SECTION_SD.get(probe.name.split(".", 1)[0], 0.5)


def _with_spread(sd: float, measured: Measurement) -> float:
    """What a section is worth less for how unsteadily it ran."""
    low, high = min(measured.p20, measured.p80), max(measured.p20, measured.p80)
    return hypot(sd, log(high / low) / P20_TO_P80 if low > 0 else 0.0)


def _step(
    probe: Probe, profiles: Mapping[tuple[str, int, str], Profile], seconds: float, sd: float
) -> Timed | None:
    profile = profile_of_step(probe, profiles)
    if profile is None:
        return None
    moved = optimizer_bytes_per_param(str(probe.facts.get("optimizer", "adamw")), probe.precision)
    return Timed(
        name=probe.name, seconds=seconds, sd=sd, work=roofline_of(profile), batch=float(probe.batch),
        precision=probe.precision, layout=probe.layout, update_bytes=moved * profile.params,
        update_tensors=float(profile.extra.get("parameter_tensors", 0)), network=probe.name.split(".")[1],
    )  # fmt: skip


def _operation(probe: Probe, value: float, sd: float) -> Timed | None:
    """A section of one operation, or of the optimizer's step; None for what is no time of known work."""
    try:
        seconds = probe.seconds(value)
    except ValueError:
        return None
    tensors = float(probe.facts.get("tensors", 0))
    if not probe.op_class and not tensors:
        return None
    return Timed(
        name=probe.name, seconds=seconds, sd=sd, work=_one_group(probe), batch=0.0,
        precision=probe.precision or "fp32", layout=probe.layout,
        mode="infer" if probe.phase == "forward" else "train",
        update_bytes=probe.bytes if not probe.op_class else 0.0, update_tensors=tensors,
    )  # fmt: skip


def _one_group(probe: Probe) -> Roofline:
    kind = OP_CLASSES.index(probe.op_class) if probe.op_class else OP_CLASSES.index("elementwise")

    def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([float(value)])

    has = 1.0 if probe.op_class else 0.0
    return Roofline(
        kind=np.array([kind], dtype=np.intp),
        tile_fit=one(probe.tile_fit),
        group_width=one(probe.group_width),
        flops_per_sample=one(0.0),
        bytes_per_sample=one(0.0),
        flops_fixed=one(probe.flops * has),
        bytes_fixed=one(probe.bytes * has),
        kernels=one(probe.kernels * has),
    )
