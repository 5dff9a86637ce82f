"""What do the answers look like? For the description only: answers are sent as the services make them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from memory_service.domain.estimate import Grade

__all__ = [
    "Alive",
    "Calibration",
    "CardPage",
    "Conflicts",
    "Device",
    "History",
    "KeyRow",
    "Keys",
    "NewKey",
    "Number",
    "Prediction",
    "Predictions",
    "Problem",
    "Ready",
    "Recommendation",
    "Registered",
    "Similar",
]


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class FieldProblem(Shape):
    field: str = Field(description="Path of the field; empty for the whole body.")
    message: str
    given: Any = None
    nearest: list[str] = Field(description="What was probably meant, closest first.")


class Problem(Shape):
    """Every refusal (RFC 9457). The last part of `type` is the stable code."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]
    request_id: str


class Number(Shape):
    """A figure with its central 80 % interval, its grade, the observations behind it and how it was made."""

    value: float
    low: float
    high: float
    grade: Grade
    n: int
    basis: str


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


class Conflict(Shape):
    id: str
    quantity: str
    sides: list[dict[str, Any]]
    used: Grade
    why: str


class Conflicts(Shape):
    items: list[Conflict]
    next: str | None


class Difference(Shape):
    """Members of nested objects are named by their path."""

    field: str
    before: Any
    after: Any


class Change(Shape):
    version: int
    action: Literal["create", "update", "delete"]
    at: str
    who: str
    why: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: list[Difference]


class History(Shape):
    items: list[Change]


class Measured(Shape):
    """Median of n repetitions with its 20th and 80th percentile; flagged: they spread over 5 % twice."""

    value: float
    unit: str
    p20: float
    p80: float
    n: int
    flagged: bool


class Calibration(Shape):
    """One timed benchmark of a device. `progress` is 0 to 1; `stale`: what changed on the device since;
    `usable`: whether predictions may stand on it."""

    id: str
    device: str
    gpu: str
    status: Literal["queued", "running", "done", "failed", "timed_out"]
    progress: float
    doing: str | None
    sections: dict[str, Measured]
    missing: dict[str, str]
    fingerprint: dict[str, Any]
    environment: dict[str, Any]
    self_check: dict[str, Any] | None
    seconds: float
    budget_seconds: float
    contended: bool
    why: str | None
    origin: Literal["local", "posted"]
    started_at: str
    ended_at: str | None
    stale: list[str]
    usable: bool


class Device(Shape):
    """A registered piece of hardware. After registering: its calibration, or the command that makes one."""

    name: str
    gpu: str | None = Field(description="Its GPU model; null until a device elsewhere reports.")
    device: str | None = Field(description="What its host calls it.")
    host: str | None
    fingerprint: dict[str, Any] | None
    card: dict[str, Any] | None = Field(description="The data sheet with the device's own memory and cores.")
    registered_at: str
    seen_at: str | None
    calibrations: list[dict[str, Any]] = Field(description="Newest first, with key figures.")
    drift: list[dict[str, Any]] = Field(description="Between consecutive usable ones, percent by group.")
    calibration: dict[str, Any] | None = Field(None, description="The one that was begun: id and status.")
    command: str | None = Field(None, description="To run on the device's own host.")
    why: str | None = Field(None, description="Why no calibration was begun.")


class Sheet(Shape):
    """A GPU model as its maker describes it."""

    slug: str
    name: str
    kind: str
    architecture: str
    memory_gib: float
    version: int


class Registered(RootModel[Device | Sheet]):
    """The device, or the row that was added."""


class CardPage(Shape):
    """A GPU model (all members of its row) or a device with that of its model; `slug` is null while a device
    elsewhere has not said what it is."""

    slug: str | None
    name: str
    kind: str | None
    device: str | None = Field(description="The device that the path names, if it names one.")
    devices: list[str] = Field(description="Names of all devices of this GPU model.")
    registered: list[Device]


class KeyRow(Shape):
    """A key as it is listed: never the key itself."""

    id: str
    name: str
    scopes: list[Literal["read", "tell", "edit", "admin"]]
    status: Literal["valid", "expired", "revoked"]
    created_by: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None = Field(description="To about a minute.")
    revoked_at: str | None


class NewKey(KeyRow):
    key: str = Field(description="The key itself. It is shown this once: only a hash of it is kept.")


class Keys(Shape):
    items: list[KeyRow]


class Alive(Shape):
    status: Literal["alive"]
    version: str


class Ready(Shape):
    """What is loaded, and what is still missing."""

    ready: bool
    database: str
    knowledge: str
    index: str
    encoder: Literal["loading", "ready", "degraded"]
    encoder_reason: str | None
    failed: str | None
