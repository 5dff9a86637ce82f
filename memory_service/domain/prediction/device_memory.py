"""The largest batch that fits a device, and what runs said of it there."""

from collections.abc import Sequence
from dataclasses import replace

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.cost.interpolation import extrapolated_from
from memory_service.domain.cost.memory import GIB, most_samples, optimizer_bytes, step_bytes, training_points
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.learning.batch_bounds import Bounds
from memory_service.domain.learning.observation import PredictionKey, prediction_key
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.peak_memory_curve import Confidence, allocated_limit_gib, peak_memory

__all__ = ["Confidence", "allocated_limit_gib", "largest_batch", "observed_bounds", "peak_memory"]


def largest_batch(
    profile: Profile,
    device: TargetDevice,
    config: StepConfig,
    *,
    ladder: Sequence[int] | None = BATCH_LADDER,
    confidence: Confidence = "p90",
) -> int:
    """The largest batch of `ladder` whose step fits; 0 when even the smallest does not.

    ladder       the batches to choose from; None = any whole number
    confidence   "p50": as likely too large as too small by one sample; "p90": the one to plan with;
                 "p10": what fits if everything goes well
    More memory never gives a smaller batch. A batch that ran on this device counts as fitting; one that ran
    out of memory, and any larger, as not.
    """
    subject = prediction_key(profile, device, config)
    room = _learned_limit(device, subject, allocated_limit_gib(device, confidence)) * GIB
    points: Sequence[PeakPoint] = profile.inference_peak or profile.peak
    least = 0.0
    if config.mode == "train":
        points = training_points(profile, config.stack == "torch1")
        room -= optimizer_bytes(profile.params, config.optimizer)
        least = step_bytes(profile, config.optimizer)
    most = min((most_samples(point, room) for point in points), default=0) if least <= room else 0
    if device.learned is not None:
        bounds = device.learned.batch_bounds(subject, device.usable_gib)
        most = max(most, bounds.proven)
        most = most if bounds.refused is None else min(most, bounds.refused - 1)
    if ladder is None:
        return most
    return max((batch for batch in ladder if batch <= most), default=0)


def observed_bounds(profile: Profile, device: TargetDevice, config: StepConfig) -> Bounds:
    """What runs say of the batch on this device: the largest that ran, the smallest that ran out of memory.

    Gradient checkpointing makes room, but how much is not known: what ran out of memory without it is
    not offered with it.
    """
    return bounds_of(device, prediction_key(profile, device, config))


def bounds_of(device: TargetDevice, subject: PredictionKey) -> Bounds:
    """`observed_bounds` of a subject on the device."""
    if device.learned is None or subject.model not in device.learned.bounded_models:
        return Bounds()
    bounds = device.learned.batch_bounds(subject, device.usable_gib)
    if not subject.checkpointing:
        return bounds
    plain = device.learned.batch_bounds(replace(subject, checkpointing=False), device.usable_gib)
    known = [each for each in (bounds, plain) if each.refused is not None and each.refused > bounds.proven]
    return min(known, key=lambda each: each.refused or 0, default=replace(bounds, refused=None))


def _learned_limit(device: TargetDevice, subject: PredictionKey, limit_gib: float) -> float:
    """Predicted live GiB whose corrected figure just reaches the limit."""
    if device.learned is None:
        return limit_gib
    learned = device.learned.memory_of(subject, "allocated")
    if learned is None and device.kind != "cuda":
        learned = device.learned.memory_of(subject, "driver")
    if learned is None:
        return limit_gib
    return float(max(0.0, limit_gib - learned.fixed_gib) / (1.0 + learned.share))


def extrapolation_warnings(profile: Profile) -> list[Sentence]:
    """That the profile is of a size beyond those traced, where it is."""
    largest = extrapolated_from(profile)
    if largest is None:
        return []
    return [sentence("beyond-traced", model=profile.model, largest=largest, size=profile.input_size)]
