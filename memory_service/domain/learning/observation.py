"""What one run really took, one observation per (run, part, batch, phase); what a prediction is of, in the
same names; and what was predicted before anything was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import log2
from types import MappingProxyType
from typing import Any, Literal

from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.profile_stack import LAYOUTS, Integers, ProfileStack
from memory_service.domain.cost.step_config import Stack, StepConfig, StepMode, is_convolutional
from memory_service.domain.hardware.gpu_spec import Gpu

Exclusion = Literal["contended", "throttled", "loader_bound"]
"""Why an observation says nothing of the device's speed (its memory may still count)."""

Part = Literal["step", "fit", "loader"]
"""What was timed.

step     a step of a network, at a batch of samples
fit      a round of boosted trees or a fit of another estimator of the processor, at a batch of rows;
         `family` is its law of `domain.cost.boosted_trees.CPU_MODELS`
loader   a sample of the input pipeline with `batch_size` workers; `model` is the task, `family` the modality

Each part is learned apart, by the same arithmetic.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """Medians of a run's steps (or epochs) at one batch.

    device            registered device; "" when only the GPU model is known (published tables)
    gpu               slug of the GPU model
    model             catalogue name without the tag of timm's weights; family as in the profile
    input_size        pixels a side, tokens or columns
    part              see `Part`
    cores             of a processor, that it ran on; None of a card, and where it was stored without them
    outputs, leaves   of a fit: classes (1 = regression), leaves a tree
    precision         fp32 | tf32 | fp16 | bf16; layout nhwc | nchw; mode train | infer
    step_seconds      steady state, loader not counted as far as it was measured separately; None = not
                      observed
    first_epoch_ratio first epoch / later ones (page cache, autotune), kept apart; None = not observed
    at_least_seconds  a step takes at least this: the run timed out before it could say more
    at_most_seconds   it takes at most this: nothing waited for it
    timed_seconds     how long the figure was timed for in all; None = not known
    peak_*_gib        peak allocated, peak reserved, driver's view of the process
    out_of_memory     the batch did not fit
    n                 steps or epochs behind the medians; rounds of a fit
    excluded          see `Exclusion`
    reporter          who told of it (`domain.prediction.trust.reporter_of`)
    doubt             why it cannot be, as a clause: it teaches nothing until another reporter agrees; None =
                      it can be
    confirmed         a person stands for it: it teaches whoever told of it
    at                UTC, ISO 8601; "" when not known
    """

    gpu: str
    model: str
    family: str
    input_size: int
    precision: str
    batch_size: int
    device: str = ""
    part: Part = "step"
    cores: int | None = None
    outputs: int = 1
    leaves: int = 0
    input_kind: str = "image_size"
    layout: str = "nhwc"
    mode: StepMode = "train"
    optimizer: str = "adamw"
    compiled: bool = False
    checkpointing: bool = False
    stack: Stack = "torch2"
    step_seconds: float | None = None
    first_epoch_ratio: float | None = None
    at_least_seconds: float | None = None
    at_most_seconds: float | None = None
    timed_seconds: float | None = None
    peak_allocated_gib: float | None = None
    peak_reserved_gib: float | None = None
    peak_driver_gib: float | None = None
    out_of_memory: bool = False
    n: int = 1
    excluded: Exclusion | None = None
    reporter: str = ""
    doubt: str | None = None
    confirmed: bool = False
    run_id: str = ""
    source: str = ""
    at: str = ""

    @property
    def config(self) -> StepConfig:
        return StepConfig(self.precision, self.layout, self.optimizer, self.mode, self.compiled, self.stack)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Observation:
        """Inverse of `as_dict`; unknown keys are left out."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in raw.items() if name in known})


@dataclass(frozen=True, slots=True)
class PredictionKey:
    """What is predicted: fields as in `Observation`. It belongs to one key of every level.

    shape   of a fit: (half octaves of its rows, trees a round, leaves)
    """

    gpu: str
    device: str
    model: str
    family: str
    input_size: int
    checkpointing: bool
    config: StepConfig
    cores: int | None = None
    part: Part = "step"
    shape: tuple[int, ...] = ()


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
    shape = shape_of(o.batch_size, o.outputs, o.leaves) if o.part == "fit" else ()
    return PredictionKey(
        o.gpu, o.device, o.model, o.family, o.input_size, o.checkpointing, o.config, o.cores, o.part, shape
    )


def priced_as(observation: Observation) -> tuple[PredictionKey, int, int, int]:
    """What its baseline prediction depends on: the first rounds of a fit cost more than later ones, trees of
    classes take less memory."""
    rounds = observation.n if observation.part == "fit" else 0
    return observation_key(observation), observation.batch_size, rounds, observation.outputs


def shape_of(rows: float, outputs: int, leaves: int) -> tuple[int, int, int]:
    """The `shape` of a fit's key."""
    return round(2.0 * log2(max(rows, 1.0))), outputs if outputs > 2 else 1, leaves


_PLAIN = ("gpu", "device", "model", "family", "input_size", "checkpointing", "cores", "part")


def observation_of(key: PredictionKey, batch_size: int, **figures: Any) -> Observation:
    """An observation of the key at a batch, with other fields of `Observation`."""
    return Observation(
        **{name: getattr(key, name) for name in _PLAIN},
        **asdict(key.config),
        batch_size=batch_size,
        **figures,
    )


def prediction_key(profile: Profile, gpu: Gpu, config: StepConfig) -> PredictionKey:
    """What a prediction is of, in the names that observations use."""
    with_layout = config.layout == "nhwc" or is_convolutional(profile)
    return _key(profile, gpu, config if with_layout else replace(config, layout="nhwc"))


class PredictionKeys(list[PredictionKey]):
    """Keys of many profiles on one device. known: what was made of all of them, by what else decides it."""

    known: Mapping[Any, Any] = MappingProxyType({})


MOST_KNOWN = 64
"""Lists of keys that a stack remembers: of its cards, precisions and modes."""


def prediction_keys(stack: ProfileStack, gpu: Gpu, config: StepConfig, layout: Integers) -> PredictionKeys:
    """`prediction_key` of each profile with its optimizer ("adamw" in inference) and its layout, a place in
    LAYOUTS; made once of a stack."""
    asked = (gpu.slug, gpu.device, gpu.cores, config, layout.tobytes())
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
        gpu.cores,
    )
