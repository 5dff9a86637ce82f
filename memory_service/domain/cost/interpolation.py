"""Profile of a model at a size nobody traced, between two profiled sizes or a little beyond.

Activations of a network grow with its positions: pixels (the side squared), tokens or columns. Linear
interpolation in positions is therefore exact for convolutions and token-wise layers, and slightly too much
for the quadratic part of attention; and a larger input never needs less memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Any

from memory_service.domain.cost.profile import PeakPoint, Profile, Work

Point = tuple[float, float]

ROOFLINE_KEYS = 4
"""Leading columns of a roofline row that name it; the rest are amounts."""


def interpolate_profile(lower: Profile, upper: Profile, input_size: int) -> Profile:
    """The profile at `input_size` from two profiles of one model (they may be the same one).

    Between them: linear in positions. Outside: the nearer one scaled by positions to the power found between
    the two, at least 1 upward. ValueError where the two are not of the same model, precision and options.
    """
    if lower.input_size > upper.input_size:
        lower, upper = upper, lower
    _same_kind(lower, upper)
    for exact in (lower, upper):
        if exact.input_size == input_size:
            return exact
    if lower.input_size < input_size < upper.input_size:
        low, high, at = (_positions(lower, size) for size in (lower.input_size, upper.input_size, input_size))
        return _mixed(lower, upper, (at - low) / (high - low), input_size)
    nearest = upper if input_size > upper.input_size else lower
    ratio = _positions(nearest, input_size) / _positions(nearest, nearest.input_size)
    return _scaled(nearest, ratio ** _exponent(lower, upper), ratio, input_size)


def envelope(points: Sequence[Point]) -> tuple[PeakPoint, ...]:
    """The lines (fixed, per sample) that are highest for some batch of at least one."""
    hull: list[Point] = []
    for fixed, slope in sorted(set(points), key=lambda point: (point[1], point[0])):
        while hull and fixed + slope >= hull[-1][0] + hull[-1][1]:
            hull.pop()
        while len(hull) > 1 and _crossing(hull[-2], (fixed, slope)) <= _crossing(hull[-2], hull[-1]):
            hull.pop()
        hull.append((fixed, slope))
    return tuple(PeakPoint(float(fixed), float(slope)) for fixed, slope in hull)


def _crossing(flat: Point, steep: Point) -> float:
    """The batch from which `steep` is above `flat`."""
    return (flat[0] - steep[0]) / (steep[1] - flat[1])


def _same_kind(lower: Profile, upper: Profile) -> None:
    for name in ("model", "precision", "input_kind", "checkpointing", "fused_attention"):
        if getattr(lower, name) != getattr(upper, name):
            raise ValueError(f"profiles differ in {name}: {getattr(lower, name)!r}, {getattr(upper, name)!r}")


def _positions(profile: Profile, size: int) -> float:
    return float(size * size if profile.input_kind == "image_size" else size)


def _exponent(lower: Profile, upper: Profile) -> float:
    """How the per-sample peak grew with positions: 1 for convolutions, up to 2 for unfused attention."""
    if lower.input_size == upper.input_size or lower.input_kind == "n_features":
        return 1.0
    growth = log(upper.peak[-1].per_sample_bytes / lower.peak[-1].per_sample_bytes)
    between = log(_positions(upper, upper.input_size) / _positions(lower, lower.input_size))
    return min(2.0, max(1.0, growth / between))


def _mixed(lower: Profile, upper: Profile, weight: float, input_size: int) -> Profile:
    def both(low: float, high: float) -> float:
        return low + weight * (high - low)

    def peaks(low: Sequence[PeakPoint], high: Sequence[PeakPoint]) -> tuple[PeakPoint, ...]:
        pairs = [
            (both(a.fixed_bytes, b.fixed_bytes), both(a.per_sample_bytes, b.per_sample_bytes))
            for a in low
            for b in high
        ]
        return (
            envelope([*pairs, *((point.fixed_bytes, point.per_sample_bytes) for point in low)])
            if pairs
            else ()
        )

    def works(low: Mapping[str, Work], high: Mapping[str, Work]) -> dict[str, Work]:
        return {
            name: _mix_work(low.get(name, Work()), high.get(name, Work()), weight) for name in {**low, **high}
        }

    kept = peaks(_kept(lower), _kept(upper))
    extra = {**upper.extra, "interpolated_from": [lower.input_size, upper.input_size]}
    if kept:
        extra["peak_gradients_kept"] = [[p.fixed_bytes, p.per_sample_bytes] for p in kept]
    extra["largest_conv_bytes"] = {
        name: both(_convs(lower).get(name, 0.0), value) for name, value in _convs(upper).items()
    }
    if "roofline" in lower.extra and "roofline" in upper.extra:
        extra["roofline"] = [
            *_scale_rows(lower.extra["roofline"], 1.0 - weight, 1.0 - weight),
            *_scale_rows(upper.extra["roofline"], weight, weight),
        ]
    return replace(
        upper,
        input_size=input_size,
        peak=peaks(lower.peak, upper.peak),
        inference_peak=peaks(lower.inference_peak, upper.inference_peak),
        forward=works(lower.forward, upper.forward),
        backward=works(lower.backward, upper.backward),
        params=round(both(lower.params, upper.params)),
        buffers_bytes=round(both(lower.buffers_bytes, upper.buffers_bytes)),
        largest_activation_bytes_per_sample=both(
            lower.largest_activation_bytes_per_sample, upper.largest_activation_bytes_per_sample
        ),
        extra=extra,
    )


def _mix_work(low: Work, high: Work, weight: float) -> Work:
    def both(a: float, b: float) -> float:
        return a + weight * (b - a)

    return Work(
        both(low.flops_per_sample, high.flops_per_sample),
        both(low.bytes_per_sample, high.bytes_per_sample),
        both(low.flops_fixed, high.flops_fixed),
        both(low.bytes_fixed, high.bytes_fixed),
        round(both(low.kernels, high.kernels)),
    )


def _scaled(profile: Profile, memory: float, positions: float, input_size: int) -> Profile:
    """Per-sample memory times `memory`, per-sample work times `positions`; fixed parts stay."""

    def peaks(points: Sequence[PeakPoint]) -> tuple[PeakPoint, ...]:
        return tuple(replace(p, per_sample_bytes=p.per_sample_bytes * memory) for p in points)

    def works(phase: Mapping[str, Work]) -> dict[str, Work]:
        return {
            name: replace(
                work,
                flops_per_sample=work.flops_per_sample * positions,
                bytes_per_sample=work.bytes_per_sample * positions,
            )
            for name, work in phase.items()
        }

    extra = {**profile.extra, "interpolated_from": [profile.input_size, profile.input_size]}
    if "peak_gradients_kept" in extra:
        extra["peak_gradients_kept"] = [[p.fixed_bytes, p.per_sample_bytes] for p in peaks(_kept(profile))]
    extra["largest_conv_bytes"] = {name: value * positions for name, value in _convs(profile).items()}
    if "roofline" in extra:
        extra["roofline"] = _scale_rows(extra["roofline"], positions, 1.0)
    return replace(
        profile,
        input_size=input_size,
        peak=peaks(profile.peak),
        inference_peak=peaks(profile.inference_peak),
        forward=works(profile.forward),
        backward=works(profile.backward),
        largest_activation_bytes_per_sample=profile.largest_activation_bytes_per_sample * memory,
        extra=extra,
    )


def _kept(profile: Profile) -> tuple[PeakPoint, ...]:
    return tuple(PeakPoint(fixed, slope) for fixed, slope in profile.extra.get("peak_gradients_kept", ()))


def _convs(profile: Profile) -> Mapping[str, float]:
    found: Mapping[str, float] = profile.extra.get("largest_conv_bytes") or {}
    return found


def _scale_rows(rows: Sequence[Sequence[Any]], per_sample: float, fixed: float) -> list[list[Any]]:
    """Roofline rows with flops and bytes per sample, then fixed ones and kernels, scaled."""
    scaled: list[list[Any]] = []
    for row in rows:
        flops, moved, flops_fixed, moved_fixed, kernels = row[ROOFLINE_KEYS:]
        amounts = [
            flops * per_sample,
            moved * per_sample,
            flops_fixed * fixed,
            moved_fixed * fixed,
            kernels * fixed,
        ]
        scaled.append([*row[:ROOFLINE_KEYS], *amounts])
    return scaled
