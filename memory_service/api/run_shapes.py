"""What do the answers about runs look like? For the description only."""

from __future__ import annotations

from typing import Any, Literal

from memory_service.api.shapes import Number, Shape
from memory_service.domain.monitoring.verdict import Action, Severity
from memory_service.domain.runs.run_observations import EndStatus

__all__ = ["Accuracy", "RunBegun", "RunEventsTaken", "RunLogTaken", "RunPage", "RunVerdict"]

Status = Literal["running", EndStatus]


class RunPrediction(Shape):
    """What was predicted when the run began, and all it was made from; never changed afterwards. A figure
    that could not be predicted is null or absent, and `why_not` says why."""

    peak_memory_gib: Number | None = None
    samples_per_second: Number | None = None
    step_seconds: Number | None = None
    epoch_seconds: Number | None = None
    total_minutes: Number | None = None
    fits: bool | None = None
    why_not: str | None
    inputs: dict[str, Any]


class RunBegun(Shape):
    """`notes`: what the run is watched without, where its plan is not known."""

    run_id: str
    status: Status
    prediction: RunPrediction
    notes: list[str]


class RunVerdict(Shape):
    """One action, the settings to change (by a plan's names), why and by which rule. `eta_minutes`: from
    `at_seconds`, the present in the run's own time, to the end of training. `next_time`: settings for the
    next run, where changing this one costs more than it brings."""

    action: Action
    set: dict[str, Any]
    why: str
    rule: str
    severity: Severity
    eta_minutes: Number | None
    budget_used_percent: float | None
    memory: dict[str, Any]
    at_seconds: float
    next_check_seconds: float
    next_time: dict[str, Any]
    notes: list[str]


class RunEventsTaken(Shape):
    """`accepted` are new and on disk; `duplicates` were there already and changed nothing; `differing` names
    the seqs among them that were there with another body."""

    accepted: int
    duplicates: int
    differing: list[int]
    verdict: RunVerdict


class RunLogTaken(Shape):
    """`accepted`: events that this piece gave. `offset`: bytes of the log taken so far, where the next piece
    begins; lines (blank ones not counted), those understood, and characters of overlong lines not looked at,
    of the whole log so far."""

    accepted: int
    offset: int
    lines: int
    understood: int
    clipped: int
    verdict: RunVerdict


class RunAdvice(Shape):
    """What was advised, and whether it was taken: yes, no, open while the run goes on, null where nothing
    can tell."""

    given_at: str
    at_seconds: float
    action: Action
    set: dict[str, Any]
    rule: str
    severity: str
    why: str
    followed: Literal["yes", "no", "open"] | None


class RunOutcome(Shape):
    epochs_done: int
    epoch_seconds: float | None
    peak_memory_gib: dict[str, float | None]
    device: dict[str, Any]
    events: dict[str, int]
    epochs: list[dict[str, Any]]


class RunFigure(Shape):
    """Predicted against happened. `excluded`: why it is not scored."""

    quantity: str
    predicted: Number
    actual: float
    error_percent: float
    inside: bool
    excluded: str | None


class RunEvidence(Shape):
    """What came of a run: what it is worth to later plans. `followed` by part of its plan (null: not said);
    `served`: memories that the plan told of, and whether each was followed."""

    status: Status
    succeeded: bool | None
    metric: float | None
    test_metric: float | None
    epochs_to_best: float | None
    folds_done: int
    minutes: float | None
    minutes_to_submission: float | None
    budget_percent: float | None
    followed: dict[str, bool | None] | None
    served: dict[str, bool | None]


class RunPage(Shape):
    id: str
    status: Status
    task: str
    gpu: str
    device: str
    model: str
    started_at: str
    finished_at: str | None
    given: dict[str, Any]
    prediction: RunPrediction
    notes: list[str]
    outcome: RunOutcome
    comparison: list[RunFigure]
    observations: list[dict[str, Any]]
    verdict: RunVerdict
    watch: dict[str, Any]
    verdicts: list[RunAdvice]
    log: dict[str, Any] | None
    advice: dict[str, Any] | None
    evidence: RunEvidence | None


class Scores(Shape):
    """Errors in percent over n runs: absolute median and p90, signed median, share inside the 80 % interval;
    `naive` is a naive method on the same runs."""

    quantity: str
    n: int
    median_percent: float
    p90_percent: float
    bias_percent: float
    inside_percent: float
    naive: dict[str, Any] | None


class ScoredGroup(Shape):
    name: str
    runs: int
    scores: list[Scores]


class ScoredRuns(Shape):
    ended: int
    scored: int
    without_prediction: int
    excluded: dict[str, int]


class Accuracy(Shape):
    """Predictions frozen when runs began, scored on what happened. Nothing to score: empty lists."""

    runs: ScoredRuns
    overall: list[Scores]
    by_device: list[ScoredGroup]
    by_family: list[ScoredGroup]
    by_age: list[ScoredGroup]
    memory_limit: dict[str, int]
