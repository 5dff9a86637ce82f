"""What one run really took: one observation per (run, batch, phase), with the case it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from memory_service.domain.cost.step_config import Stack, StepConfig, StepMode

Exclusion = Literal["contended", "throttled", "loader_bound"]
"""Why an observation says nothing of the device's speed (its memory may still count)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Medians of a run's steps (or epochs) at one batch.

    device            registered device; "" when only the GPU model is known (published tables)
    gpu               slug of the GPU model
    model             catalogue name without the tag of timm's weights; family as in the profile
    input_size        pixels a side, tokens or columns
    precision         fp32 | tf32 | fp16 | bf16; layout nhwc | nchw; mode train | infer
    step_seconds      steady state, loader not counted as far as it was measured separately; None = not
                      observed
    first_epoch_ratio first epoch / later ones (page cache, autotune), kept apart; None = not observed
    at_least_seconds  a step takes at least this: the run timed out before it could say more
    peak_*_gib        peak allocated, peak reserved, driver's view of the process
    out_of_memory     the batch did not fit
    n                 steps or epochs behind the medians
    excluded          see `Exclusion`
    at                UTC, ISO 8601; "" when not known
    """

    gpu: str
    model: str
    family: str
    input_size: int
    precision: str
    batch_size: int
    device: str = ""
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
    peak_allocated_gib: float | None = None
    peak_reserved_gib: float | None = None
    peak_driver_gib: float | None = None
    out_of_memory: bool = False
    n: int = 1
    excluded: Exclusion | None = None
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
