"""Input of a verdict: facts of the run, expectations, summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.description.metrics import direction_of_name
from memory_service.domain.monitoring.event import number_of
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.planning.checks_and_fallbacks import (
    EVERY_S,
    FIRST_CHECK_S,
    NOT_BEFORE_STEPS,
    TARGET_PERCENT,
    model_class_of,
)
from memory_service.domain.planning.hyperparameters import DEFAULT_POLICY
from memory_service.domain.planning.policy import RESERVE_SHARE

TREES = re.compile(r"lightgbm|lgbm|xgboost|xgb|catboost|histgradient|gbdt|forest|extra_trees")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the run stated when it began (the body of POST /runs), resolved where the service can.

    params_m      of the model, in millions, when a profile or the catalogue knows it; 0 = not known
    device_kind   "cuda" | "mps" | "cpu"
    memory_gib    of the card the fill is read against: the one planned for (R06); None = not known
    minutes       the budget; None = none; then time is not judged
    reserve_minutes   of a script that itself uses all minutes but these, on other models too
    metric_direction   "max" | "min" | None: which way `metric` gets better
    status        "running", or how it ended; submission: whether it had left one then
    """

    task: str = "image-classification"
    model: str = ""
    params_m: float = 0.0
    device_kind: str = "cuda"
    memory_gib: float | None = None
    batch_size: int | None = None
    grad_accumulation: int | None = None
    folds: int | None = None
    epochs: int | None = None
    n_train: int | None = None
    minutes: float | None = None
    reserve_minutes: float | None = None
    cpu_count: int | None = None
    num_workers: int | None = None
    image_size: int | None = None
    learning_rate: float | None = None
    precision: str | None = None
    optimizer: str = "adamw"
    metric_direction: str | None = None
    pretrained: bool = True
    status: str = "running"
    submission: bool = False

    @property
    def is_trees(self) -> bool:
        return TREES.search(self.model.lower()) is not None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the plan, or else a prediction for the same case, says the run should show. All optional.

    batch_size          the batch these figures are for
    planned             whether a plan chose the batch (then its fill is as intended), not the caller
    driver_gib          peak memory as the driver shows it
    samples_per_second  in training, loader included; epoch_seconds: one epoch, validation included
    inference_minutes   inference and writing, after training
    best_epoch          of best validation: the round, of boosted trees
    curve               batch -> samples per second, ascending: where the knee is
    knee_batch_size     the batch from which on the next one gains under 10 %
    largest_batch       the largest whose p90 memory fits; refused_batch: one that ran out of memory before
    smaller             settings of a smaller model that fits the same budget, or None
    tried               (batch, samples per second) that earlier runs of this case measured
    """

    batch_size: int | None = None
    planned: bool = False
    driver_gib: Estimate | None = None
    samples_per_second: Estimate | None = None
    epoch_seconds: Estimate | None = None
    inference_minutes: Estimate | None = None
    best_epoch: Estimate | None = None
    curve: tuple[tuple[int, float], ...] = ()
    knee_batch_size: int | None = None
    largest_batch: int | None = None
    refused_batch: int | None = None
    smaller: Mapping[str, Any] | None = None
    tried: tuple[tuple[int, float], ...] = ()
    patience: int | None = None
    first_check_seconds: float = FIRST_CHECK_S
    every_seconds: float = EVERY_S
    not_before_steps: int = NOT_BEFORE_STEPS
    target_percent: tuple[float, float] = TARGET_PERCENT
    kill_percent: float = DEFAULT_POLICY.kill_percent
    reserve_share: float = RESERVE_SHARE
    model_class: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything a verdict is made of. The same state always gives the same verdict.

    requested_seconds   when the verdict was requested, in the run's own time, while the run goes on: silence
                        is time too. None = judged at its latest event
    """

    facts: RunFacts
    summary: Summary = field(default_factory=Summary)
    expected: Expectation = field(default_factory=Expectation)
    requested_seconds: float | None = None

    @property
    def last_event_seconds(self) -> float:
        """The run's own time at its latest event."""
        return self.summary.last_us / 1e6

    @property
    def now_seconds(self) -> float:
        """The run's own time."""
        return max(self.last_event_seconds, self.requested_seconds or 0.0)

    def whole(self, name: str) -> int | None:
        """A count that the run stated (batch_size, epochs, folds, ...), else the one it began with."""
        stated = number_of(self.summary.setting(name), most=1e12) or 0.0
        value = stated if stated >= 1 else getattr(self.facts, name, None)
        return int(value) if value else None

    @property
    def batch_size(self) -> int | None:
        return self.whole("batch_size") or self.expected.batch_size

    @property
    def metric_direction(self) -> str | None:
        """max | min: by the name that the metric is reported under, else as the run or its plan said."""
        return direction_of_name(self.summary.setting("metric_name")) or self.facts.metric_direction

    @property
    def since_us(self) -> int:
        """Own time from which on the present batch was used; 0 when it never changed."""
        batches = dict(self.summary.batches)
        if self.facts.batch_size and self.facts.batch_size not in batches:
            batches[self.facts.batch_size] = (-1, -1)
        mine = batches.pop(self.batch_size or 0, None)
        others = max((last for _, last in batches.values()), default=-1)
        if mine is None or not batches or (others < 0 and mine[0] < 0):
            return 0
        return max(0, mine[0] if mine[0] > others else mine[1])

    @property
    def refused_batch(self) -> int | None:
        """The smallest batch known to have run out of memory, in this run or an earlier one."""
        when, known = self.summary.out_of_memory_us, self.expected.refused_batch
        if when is None:
            return known
        stated = {batch: first for batch, (first, _) in self.summary.batches.items() if first <= when}
        began = {} if self.facts.batch_size is None else {self.facts.batch_size: -1}
        used = began | stated
        if not used:
            return known
        mine = max(used, key=lambda batch: used[batch])
        return mine if known is None else min(mine, known)

    @property
    def epoch_word(self) -> str:
        return "round" if self.facts.is_trees else "epoch"

    @property
    def memory_gib(self) -> float | None:
        """The card's memory in GiB: as planned for, else as the run printed it."""
        return self.facts.memory_gib or number_of(self.summary.setting("total_gib"), most=1e6)

    @property
    def model_class(self) -> str:
        """small | large (R22)."""
        return self.expected.model_class or class_of_model(self.facts.model, self.facts.params_m)

    @property
    def budget_seconds(self) -> float | None:
        return None if not self.facts.minutes else self.facts.minutes * 60.0


def class_of_model(name: str, params_m: float) -> str:
    """R22's class of a model in any usual spelling (`EfficientNet-B4`, `resnet-18`, `ViT-Base`); models that
    R22 does not list go by their parameters."""
    plain = re.sub(r"[\s\-]+", "_", name.strip().lower())
    plain = re.sub(r"(resnet|resnext|densenet)_(?=\d)", r"\1", plain)
    plain = re.sub(r"(efficientnet)_?(b\d|v2)", r"\1_\2", plain).replace("efficientnet_v2", "efficientnetv2")
    return model_class_of(plain, params_m)
