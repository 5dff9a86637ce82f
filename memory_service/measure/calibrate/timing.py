"""Statistics of repeated timings: median, 20th and 80th percentile, n.

Every figure is repeated until its share of time is over. A spread (p80 - p20) / median over 5 % is measured
once more if time allows, the steadier set is kept, and one still over 5 % is flagged.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware

LEAST = 3
"""Repetitions however little time there is."""

MOST = 200
WARMUP, WARMUP_SHARE = 5, 0.2
"""Repetitions before the clock counts, as far as they fit a fifth of the time: new memory is slow until it
was used three or four times."""
SPREAD = 0.05
WINDOW_SECONDS = 2e-4
"""Shorter work is repeated inside one timed window, so that the clock's own cost stays below a percent."""


def measured(
    probe: Probe, hardware: Hardware, work: Callable[[], object], seconds: float, *, flush_cache: bool = False
) -> Measurement:
    """Repeat `work` for about `seconds`, warm-up included but for its first repetition; in the probe's unit.

    flush_cache   overwrite the device's cache before each repetition, outside the timed window
    """
    hardware.timed(work, 1)  # loads its kernels, outside the share: on a card seconds the first time
    ends = time.perf_counter() + seconds
    once = _warm_up(hardware, work, seconds * WARMUP_SHARE)
    times = 1 if flush_cache else max(1, min(10_000, round(WINDOW_SECONDS / max(once, 1e-8))))

    def window() -> float:
        if flush_cache:
            hardware.flush()
        hardware.hold(2.0 * once * times)  # else a short operation's time would be the host's
        return hardware.timed(work, times) / times

    return in_unit(probe, repeat(window, ends, () if flush_cache or times > 1 else (once,)))


def _warm_up(hardware: Hardware, work: Callable[[], object], seconds: float) -> float:
    """Seconds of the last warm-up repetition: one at least, up to WARMUP less the first if short."""
    started = time.perf_counter()
    once = hardware.timed(work, 1)
    for _ in range(WARMUP - 2):
        if time.perf_counter() - started < seconds:
            once = hardware.timed(work, 1)
    return once


def repeat(sample: Callable[[], float], ends: float, earlier: Sequence[float] = ()) -> Measurement:
    """Seconds of one repetition until `ends` (of perf_counter), at least LEAST times; `earlier` count too."""
    middle = ends - (ends - time.perf_counter()) / 2
    first = _sample_until(sample, middle, earlier)
    if not first.flagged or time.perf_counter() >= middle + (ends - middle) / 2:
        return first
    again = _sample_until(sample, ends)
    return min(first, again, key=lambda samples: (samples.p80 - samples.p20) / samples.value)


def summary(values: Sequence[float], unit: str) -> Measurement:
    """Median, p20 and p80 of one or more values, flagged where they spread over 5 %."""
    low, middle, high = np.percentile(values, (20, 50, 80)).tolist()
    flagged = middle > 0 and (high - low) / middle > SPREAD
    return Measurement(middle, unit, low, high, len(values), flagged)


def in_unit(probe: Probe, seconds: Measurement) -> Measurement:
    """A measurement in seconds as the probe's unit; of a rate the slow end is the low one."""
    if probe.unit in ("TFLOP/s", "GB/s"):
        work = probe.flops / 1e12 if probe.unit == "TFLOP/s" else probe.bytes / 1e9
        value, low, high = (work / s for s in (seconds.value, seconds.p80, seconds.p20))
        return replace(seconds, value=value, unit=probe.unit, p20=low, p80=high)
    scale = {"ms": 1e3, "us": 1e6, "s": 1.0}[probe.unit]
    value, low, high = (s * scale for s in (seconds.value, seconds.p20, seconds.p80))
    return replace(seconds, value=value, unit=probe.unit, p20=low, p80=high)


def _sample_until(sample: Callable[[], float], ends: float, earlier: Sequence[float] = ()) -> Measurement:
    samples = list(earlier)
    while len(samples) < LEAST or (time.perf_counter() < ends and len(samples) < MOST):
        samples.append(sample())
    return summary(samples, "s")
