"""Pictures of more than three bands: what a network whose first layer reads all of them costs more.

Six networks of timm that were traced with 3 and with 13 bands have these bytes of a band at a pixel to the
last digit; what the first layer computes of one is a third of the first convolution of their profiles.
"""

from collections.abc import Iterable
from dataclasses import replace

from memory_service.domain.cost.profile import PeakPoint, Profile, with_work

COLOURS = 3
_LIBRARIES = ("timm", "smp", "ultralytics")
_BUILT = ("fcos", "retinanet", "fasterrcnn", "unet", "unet-small")
"""Networks of other libraries, by the part of a name before `/`."""

LIVE_BYTES = {"amp": 6.0, "fp32": 4.0}
"""The input and its copy in half precision, or a weight and its copy."""

MOVED_BYTES = {"amp": (8.0, 2.0, 8.0), "fp32": (4.0, 4.0, 4.0)}
"""Forward, backward, inference."""


def reads_bands(name: str, library: str) -> bool:
    """Whether scripts build this network for any number of bands."""
    return library in _LIBRARIES or name.partition("/")[0] in _BUILT


def with_bands(profile: Profile, bands: int) -> Profile:
    """The profile of so many bands; the same one where no script builds such a network."""
    more, pixels = (bands - COLOURS) / COLOURS, profile.input_size**2
    if not more or not reads_bands(profile.model, profile.library):
        return profile
    values, live = more * COLOURS * pixels, LIVE_BYTES[profile.precision]
    convolutions = (row for row in profile.extra.get("roofline", ()) if list(row[:2]) == [0, 0])
    first = next((row for row in convolutions if row[4] > 100.0 * pixels), [0.0] * 8)  # less scales weights
    flops, weights = more * first[4], more * first[7] / (live - 4 or 4)
    phases = zip(("forward", "backward", "inference"), MOVED_BYTES[profile.precision], strict=True)
    profile = with_work(profile, "dense_conv", {name: (flops, values * each) for name, each in phases})

    def raised(points: Iterable[PeakPoint], each: float, held: float) -> tuple[PeakPoint, ...]:
        fixed = held * weights
        return tuple(PeakPoint(p.fixed_bytes + fixed, p.per_sample_bytes + each * values) for p in points)

    extra, known = dict(profile.extra), "peak_gradients_kept"
    if known in extra:
        kept = raised((PeakPoint(*point) for point in extra[known]), live, live + 4)
        extra[known] = [[p.fixed_bytes, p.per_sample_bytes] for p in kept]
    peak, inferred = raised(profile.peak, live, live), raised(profile.inference_peak, 4.0, live)
    params = profile.params + round(weights)
    return replace(profile, params=params, peak=peak, inference_peak=inferred, extra=extra)
