"""What do the tools give? The answers of the services, without what an agent does not act on."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from memory_service.api.plan_shapes import Card, Expected, Metric, PlannedModel, Stage
from memory_service.api.run_shapes import RunFigure, RunVerdict, Status
from memory_service.api.shapes import Number, Shape
from memory_service.domain.common.estimate import Grade

__all__ = ["Begun", "Ended", "Fits", "Found", "PlanGiven", "Progress", "Remembered", "Reviewed"]


class CompactPlan(Shape):
    """The settings to run, what to expect of them, and what to do when it goes wrong; or why nothing fits and
    the smallest change that would. It can be brought along to start_run as `plan`."""

    plan_id: str
    feasible: bool
    task: str
    gpu: Card
    minutes: float
    metric: Metric | None = None
    warnings: list[str]
    model: PlannedModel | None = None
    batch_size: int | None = None
    grad_accumulation: int | None = None
    effective_batch_size: int | None = None
    precision: str | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    folds: int | None = None
    epochs: int | None = None
    early_stopping_patience: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    warmup_epochs: float | None = None
    data_loader: dict[str, Any] | None = None
    expected: Expected | None = None
    timetable: list[Stage] | None = None
    reserve_minutes: float | None = None
    checks: dict[str, Any] | None = None
    on_trouble: list[dict[str, Any]] | None = None
    facts: dict[str, int] | None = Field(None, description="What was known of data and host, not assumed.")
    why: str | None = Field(None, description="Why nothing fits.")
    closest: dict[str, Any] | None = Field(None, description="The smallest change that would fit.")


class PlanGiven(Shape):
    """The plan in the form that was asked for; the other forms are absent."""

    form: Literal["plan", "text", "script"]
    plan_id: str
    feasible: bool
    plan: CompactPlan | None = None
    text: str | None = Field(None, description="Markdown of at most 500 tokens.")
    script: str | None = Field(None, description="A complete Python file; save it as `filename`.")
    filename: str | None = None


class Neighbour(Shape):
    slug: str
    title: str
    task: str | None
    score: float
    why: str


class Found(Shape):
    """Past competitions, best first. degraded: without the encoder, by words and structure only."""

    items: list[Neighbour]
    inferred_task: str | None
    inferred: dict[str, Any] | None = Field(description="Facts that were read from the text.")
    degraded: bool
    reason: str | None


class CurvePoint(Shape):
    """Medians; `/predict` tells their intervals. grade: the lower of the two."""

    batch_size: int
    peak_memory_gib: float
    samples_per_second: float | None
    grade: Grade
    fits: bool


class Fits(Shape):
    """What a model needs and does on a card. knee_batch_size: past it more memory buys no speed."""

    model: str
    gpu: str
    fits: bool
    batch_size: int | None
    max_batch_size: Number | None
    safe_batch_size: int | None
    knee_batch_size: int | None
    peak_memory_gib: Number | None
    samples_per_second: Number | None
    step_seconds: Number | None
    would_fit: dict[str, Any] | None
    warnings: list[str]
    curve: list[CurvePoint]


class Finding(Shape):
    rule: str
    severity: Literal["error", "warning", "note"]
    line: int
    message: str
    fix: str


class Reviewed(Shape):
    """ok: nothing was found."""

    ok: bool
    counts: dict[str, int]
    read: dict[str, Any] = Field(description="What was understood of the script.")
    findings: list[Finding]
    not_checked: list[Any]


class Begun(Shape):
    """`expected` was predicted now and is held against what happens; `why_not` says what kept it from being
    predicted."""

    run_id: str
    status: Status
    expected: dict[str, Number | None]
    fits: bool | None
    why_not: str | None
    notes: list[str]


class Progress(Shape):
    """accepted 1: new, and on disk; duplicates 1: this seq was told before, and what it said then stands."""

    run_id: str
    seq: int
    accepted: int
    duplicates: int
    verdict: RunVerdict


class Ended(Shape):
    """How the run ended and how what happened compares with what was predicted."""

    run_id: str
    status: Status
    finished_at: str | None
    comparison: list[RunFigure]
    evidence: dict[str, Any] | None = Field(description="What the run is worth to later plans.")


class Remembered(Shape):
    """inferred: fields that were read from the description, because nobody said them."""

    slug: str
    title: str
    task: str | None
    version: int
    inferred: list[str]
    row: dict[str, Any]
