"""Upper bound of a model's cost in fp32 from its mixed-precision profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_service.domain.cost.profile import PeakPoint, Profile, Work

BYTES, BYTES_FIXED = 5, 7
"""Columns of a roofline row (`domain.cost.roofline`)."""


def fp32_bound(amp: Profile) -> Profile:
    """An fp32 profile that needs no less than the real one.

    Mixed precision keeps activations in 2 bytes or 4, fp32 always in 4: at most twice the bytes per sample,
    live and moved. Weights, gradients and their half-precision copies are already in the fixed part.
    `extra["bounded_from"]` says where it comes from.
    """

    def peaks(points: Sequence[PeakPoint]) -> tuple[PeakPoint, ...]:
        return tuple(replace(point, per_sample_bytes=2.0 * point.per_sample_bytes) for point in points)

    def works(phase: Mapping[str, Work]) -> dict[str, Work]:
        return {
            name: replace(
                work, bytes_per_sample=2.0 * work.bytes_per_sample, bytes_fixed=2.0 * work.bytes_fixed
            )
            for name, work in phase.items()
        }

    extra = {**amp.extra, "bounded_from": "amp"}
    if "roofline" in extra:
        extra["roofline"] = [
            [2.0 * value if place in (BYTES, BYTES_FIXED) else value for place, value in enumerate(row)]
            for row in amp.extra["roofline"]
        ]
    return replace(
        amp,
        precision="fp32",
        peak=peaks(amp.peak),
        inference_peak=peaks(amp.inference_peak),
        forward=works(amp.forward),
        backward=works(amp.backward),
        largest_activation_bytes_per_sample=2.0 * amp.largest_activation_bytes_per_sample,
        extra=extra,
    )
