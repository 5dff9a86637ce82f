"""What do plans, neighbours and predictions look like as answers? For the description only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, RootModel

from memory_service.api.shapes import Number, Shape
from memory_service.domain.common.estimate import Grade

__all__ = ["Prediction", "Predictions", "Recommendation", "Similar"]


class Card(Shape):
    slug: str
    name: str
    memory_gib: float
    usable_gib: float


class PlannedModel(Shape):
    name: str
    library: str
    params_m: float | None
    pretrained: bool
    image_size: int | None = None
    seq_len: int | None = None
    n_features: int | None = None


class Expected(Shape):
    """`bound` says what limits the speed; every other member is a Number or null where it does not apply."""

    peak_memory_gib: Number | None = None
    memory_percent: Number | None = None
    samples_per_second: Number | None = None
    epoch_seconds: Number | None = None
    total_minutes: Number | None = None
    inference_minutes: Number | None = None
    bound: str | None = None


class Stage(Shape):
    stage: str
    start_minute: float
    deadline_minute: float


class Neighbour(Shape):
    slug: str
    score: float
    why: str


class Evidence(Shape):
    id: str
    grade: Grade
    text: str
    source: str


class BesideExpected(Shape):
    """Of one model of a set. Memory of the card, or of the host for what runs on the processor."""

    peak_memory_gib: Number | None = None
    host_memory_gib: Number | None = None
    alone_minutes: Number
    ends_minute: Number
    quality_index: Number


class BesideModel(Shape):
    """The settings to copy for one model of a set."""

    runs_on: Literal["gpu", "cpu"]
    model: PlannedModel
    batch_size: int
    grad_accumulation: int
    effective_batch_size: int
    precision: str
    folds: int
    epochs: int
    learning_rate: float | None
    data_loader: dict[str, Any]
    cpu_threads: int | None = None
    expected: BesideExpected


class SetExpected(Shape):
    """`gain_percent`: of the minutes one after another that running together saves."""

    peak_memory_gib: Number
    memory_percent: Number
    together_minutes: Number
    one_after_another_minutes: Number
    gain_percent: Number


class Cores(Shape):
    loader_workers: int
    main_processes: int
    trees: int
    of: int


class ModelSet(Shape):
    """Models that could share the card (R33), and whether that is better than one after another."""

    kind: Literal["explore", "two_large", "network_and_trees"]
    models: list[BesideModel]
    expected: SetExpected
    cores: Cores
    better: Literal["together", "one_after_another"]
    why: str


class Metric(Shape):
    """What predictions are judged by, and who says so: `from`."""

    name: str
    family: str | None
    direction: Literal["max", "min"] | None = Field(description="Which way is better, where it is known.")
    source: str = Field(alias="from", description="As asked, the description, or a competition's record.")
    in_script: bool = Field(description="The plan's script computes exactly this and goes by it.")
    note: str | None = Field(description="Why the script does not.")


class Asked(Shape):
    plan_id: str
    task: str
    size: str
    gpu: Card
    minutes: float
    metric: Metric | None = Field(description="Null where nobody says it.")
    similar: list[Neighbour]
    warnings: list[str]
    evidence: list[Evidence]


class Plan(Asked):
    """A plan that keeps its promises: one value for everything."""

    feasible: Literal[True]
    model: PlannedModel
    batch_size: int
    grad_accumulation: int
    effective_batch_size: int
    precision: str
    channels_last: bool
    compile: bool
    folds: int
    epochs: int
    early_stopping_patience: int | None
    optimizer: str
    learning_rate: float | None
    warmup_epochs: float | None
    data_loader: dict[str, Any]
    expected: Expected
    timetable: list[Stage]
    reserve_minutes: float
    checks: dict[str, Any]
    on_trouble: list[dict[str, Any]]
    alternatives: list[dict[str, Any]]
    parallel: list[ModelSet]
    rationale: list[str]
    facts: dict[str, int]


class NoPlan(Asked):
    """Nothing fits: why, and the smallest change that would."""

    feasible: Literal[False]
    why: str
    closest: dict[str, Any] | None


class Recommendation(RootModel[Plan | NoPlan]):
    """A plan, or why there is none."""


class Signals(Shape):
    embedding: float | None
    words: float | None
    structure: float | None


class Hit(Shape):
    slug: str
    title: str
    task: str | None
    score: float
    signals: Signals
    why: str


class Similar(Shape):
    """Neighbours, best first. `degraded`: no encoder, so words and structure only."""

    items: list[Hit]
    inferred_task: str | None
    degraded: bool


class CurvePoint(Shape):
    batch_size: int
    peak_memory_gib: Number
    samples_per_second: Number
    fits: bool


class Prediction(Shape):
    """What a model needs and does on a card."""

    model: str
    fits: bool
    max_batch_size: Number | None
    knee_batch_size: int | None
    peak_memory_gib: Number
    samples_per_second: Number | None
    step_seconds: Number | None
    curve: list[CurvePoint]


class Predictions(RootModel[list[Prediction]]):
    """One answer a question, in their order."""
