"""Both sides of a residual: what is predicted, and what was predicted before anything was learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.profile_stack import LAYOUTS, Integers, ProfileStack
from memory_service.domain.cost.step_config import StepConfig, is_convolutional
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.observation import Observation


@dataclass(frozen=True, slots=True)
class PredictionKey:
    """What is predicted: fields as in `Observation`. It belongs to one key of every level."""

    gpu: str
    device: str
    model: str
    family: str
    input_size: int
    checkpointing: bool
    config: StepConfig


@dataclass(frozen=True, slots=True)
class BaselinePrediction:
    """What an observation would have been predicted as without any learning.

    shares        of the step's time, by `cost.step_time.PARTS`; they sum to one
    card_log_sd   how unsure the card's rates are, as a standard deviation of log time
    *_gib         peak memory; usable_gib: what a process can get on that device
    """

    step_seconds: float
    shares: tuple[float, ...]
    card_log_sd: float
    allocated_gib: float
    reserved_gib: float
    driver_gib: float
    usable_gib: float


Predict = Callable[[Observation], BaselinePrediction | None]
"""None: that observation cannot be predicted (no profile, unknown card), so nothing is learned from it."""


def observation_key(observation: Observation) -> PredictionKey:
    """What the observation was made of."""
    o = observation
    return PredictionKey(o.gpu, o.device, o.model, o.family, o.input_size, o.checkpointing, o.config)


def observation_of(key: PredictionKey, batch_size: int, **figures: Any) -> Observation:
    """An observation of the key at a batch, with other fields of `Observation`."""
    return Observation(
        **{name: getattr(key, name) for name in PredictionKey.__slots__ if name != "config"},
        **asdict(key.config),
        batch_size=batch_size,
        **figures,
    )


def prediction_key(profile: Profile, gpu: Gpu, config: StepConfig) -> PredictionKey:
    """What a prediction is of, in the names that observations use."""
    with_layout = config.layout == "nhwc" or is_convolutional(profile)
    return _key(profile, gpu, config if with_layout else replace(config, layout="nhwc"))


class PredictionKeys(list[PredictionKey]):
    """Keys of many profiles on one device. known: what was made of all of them, and of what else."""

    known: tuple[Any, Any] | None = None


MOST_KNOWN = 64
"""Lists of keys that a stack remembers: of its cards, precisions and modes."""


def prediction_keys(stack: ProfileStack, gpu: Gpu, config: StepConfig, layout: Integers) -> PredictionKeys:
    """`prediction_key` of each profile with its optimizer ("adamw" in inference) and its layout, a place in
    LAYOUTS; made once of a stack."""
    asked = (gpu.slug, gpu.device, config, layout.tobytes())
    known = stack.keys.get(asked)
    if known is None:
        known = _keys(stack, gpu, config, layout)
        if len(stack.keys) >= MOST_KNOWN:
            stack.keys.clear()
        stack.keys[asked] = known
    return known


def _keys(stack: ProfileStack, gpu: Gpu, config: StepConfig, layout: Integers) -> PredictionKeys:
    configs: dict[tuple[str, str], StepConfig] = {}
    keys = PredictionKeys()
    for profile, optimizer, convolutional, place in zip(
        stack.profiles, stack.optimizers, stack.convolutional, layout.tolist(), strict=True
    ):
        how = LAYOUTS[place] if convolutional else "nhwc", optimizer if config.mode == "train" else "adamw"
        if how not in configs:
            configs[how] = replace(config, layout=how[0], optimizer=how[1])
        keys.append(_key(profile, gpu, configs[how]))
    return keys


def _key(profile: Profile, gpu: Gpu, config: StepConfig) -> PredictionKey:
    return PredictionKey(
        gpu.slug,
        gpu.device,
        profile.model.split(".", 1)[0] if profile.library == "timm" else profile.model,
        profile.family or profile.model,
        profile.input_size,
        profile.checkpointing,
        config,
    )
