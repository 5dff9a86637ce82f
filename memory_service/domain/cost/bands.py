"""Pictures of more than three bands: what a network whose first layer reads all of them costs more.

Six networks of timm that were traced with 3 and with 12 or 13 bands have these bytes to the last digit; what the
first layer computes of a band is a third of the first convolution of their profiles.
"""

from collections.abc import Iterable
from dataclasses import replace

from memory_service.domain.cost.profile import PeakPoint, Profile, with_work

COLOURS = 3
READ_BANDS = ("timm", "smp")
"""Libraries whose networks are built for any number of them."""

LIVE_BYTES = {"amp": 6.0, "fp32": 4.0}
"""Of a value of the input, or a weight of the first layer, and of its copy in half precision."""

MOVED_BYTES = {"amp": (8.0, 2.0, 8.0), "fp32": (4.0, 4.0, 4.0)}
"""Of a band at a pixel: forward, backward, inference."""

LEAST_FLOPS = 100.0
"""Of the first convolution at a pixel; what is less normalises weights."""


def with_bands(profile: Profile, bands: int) -> Profile:
    """The profile of so many bands; the same one where no script builds such a network."""
    more = bands - COLOURS
    if more <= 0 or profile.library not in READ_BANDS:
        return profile
    values, live = more * float(profile.input_size) ** 2, LIVE_BYTES[profile.precision]
    rows = (row for row in profile.extra.get("roofline", ()) if list(row[:2]) == [0, 0])
    first = (row for row in rows if row[4] > LEAST_FLOPS * profile.input_size**2)
    flops, weights = next(((row[4], row[7] / (live - 4 or 4)) for row in first), (0.0, 0.0))
    flops, weights = flops * more / COLOURS, weights * more / COLOURS
    phases = zip(("forward", "backward", "inference"), MOVED_BYTES[profile.precision], strict=True)
    profile = with_work(profile, "dense_conv", {name: (flops, values * each) for name, each in phases})

    def raised(points: Iterable[PeakPoint], each: float) -> tuple[PeakPoint, ...]:
        return tuple(
            PeakPoint(p.fixed_bytes + live * weights, p.per_sample_bytes + each * values) for p in points
        )

    kept = [
        [fixed + (live + 4) * weights, each + live * values]
        for fixed, each in profile.extra.get("peak_gradients_kept", ())
    ]
    return replace(
        profile,
        params=profile.params + round(weights),
        peak=raised(profile.peak, live),
        inference_peak=raised(profile.inference_peak, 4.0),
        extra={**profile.extra, **({"peak_gradients_kept": kept} if kept else {})},
    )
