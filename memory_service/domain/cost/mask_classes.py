"""Segmentation of many classes: what a network that gives each pixel a value of every class costs more.

Profiles are of one kind of object and its background. Nine networks of segmentation_models.pytorch and of our
own, traced again with 5, 20 and 150 classes in fp32 and under autocast, gave the constants: 48 of their 54
peaks per sample are within 3 % of the trace, all within 7 %; bytes moved within 3 %, with nnU-Net's losses of
several sizes 15 % too few. With the profile as it is a U-Net of 150 classes had a quarter of both.
"""

from dataclasses import replace

from memory_service.domain.cost.interpolation import envelope
from memory_service.domain.cost.profile import Profile, with_work

LIVE_BYTES = {"amp": 18.0, "fp32": 19.5}
"""Of a class at a pixel when the loss is taken: logits, their gradient, and what sigmoid or softmax keep."""

BELOW_PEAK = 0.05
"""Share of the peak per sample that is free again when the loss is taken: the peak comes later."""

MOVED_BYTES = {"forward": 58.0, "backward": 60.0, "inference": 10.0}
"""Of a class at a pixel, read and written by the last layer and the loss, without it in inference."""

_OWN = frozenset({"unet", "unet-small", "nnunet-2d"})


def gives_masks(profile: Profile) -> bool:
    """Whether its last layer gives each pixel a value of every class."""
    return profile.library == "smp" or profile.family == "segformer" or profile.model in _OWN


def with_mask_classes(profile: Profile, n_classes: int) -> Profile:
    """The profile with so many classes, background among them: two are one mask. The same one where it gives
    no masks, or has as many."""
    more = n_classes - max(2, profile.n_outputs)
    if more <= 0 or not gives_masks(profile):
        return profile
    values = more * float(profile.input_size) ** 2
    live = LIVE_BYTES[profile.precision] * values

    def at_loss(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        fixed, per_sample = points[-1]
        return [*points, (fixed, per_sample * (1.0 - BELOW_PEAK) + live)]

    moved = {phase: (0.0, each * values) for phase, each in MOVED_BYTES.items()}
    profile = with_work(profile, "elementwise", moved)
    extra = {**profile.extra, "classes": n_classes}
    if "peak_gradients_kept" in extra:
        kept = at_loss([(fixed, slope) for fixed, slope in extra["peak_gradients_kept"]])
        extra["peak_gradients_kept"] = [[p.fixed_bytes, p.per_sample_bytes] for p in envelope(kept)]
    return replace(
        profile,
        n_outputs=n_classes,
        peak=envelope(at_loss([(p.fixed_bytes, p.per_sample_bytes) for p in profile.peak])),
        extra=extra,
    )
