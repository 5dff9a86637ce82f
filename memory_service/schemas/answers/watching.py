"""How a run looks while it goes on, and what to do."""

from typing import Any, Literal

from pydantic import Field

from memory_service.domain.monitoring.event import MemoryKind
from memory_service.domain.monitoring.verdict import Action, Severity
from memory_service.schemas.answers.common import Answer, Estimate, Sentence, Settings, Time, left_out


class MemoryRead(Answer):
    reading: MemoryKind | None = Field(description="Which memory was read; null: none.")
    fill_percent: float | None = Field(description="Of the card; a lower bound of `allocated_now`.")
    model_class: str = Field(description="By which the fill is judged.")


class Purchase(Answer):
    what: Literal["folds", "model", "more"] = Field(
        description="`more`: the same model again, other settings."
    )
    set: Settings
    minutes: float = Field(description="That it takes, p90.")
    points: float | None = Field(description="Of the quality index that it adds; null of folds.")


class NextMinutes(Answer):
    """What the minutes that a run leaves would buy, by the planner."""

    left: float = Field(description="Minutes of the budget that are not used.")
    used_percent: float = Field(description="Of the budget.")
    left_at_end: float = Field(description="Minutes left when this run ends as it goes on now.")
    buys: list[Purchase] = Field(description="What is worth most first; empty: nothing.")
    ask: dict[str, Any] | None = Field(description="`after` and `done`, which plan them. Null: plan unknown.")
    says: list[Sentence] = Field(description="The same in sentences.")


class RunVerdict(Answer):
    """The one thing to do now."""

    action: Action
    set: Settings
    why: str
    rule: str
    severity: Severity
    eta_minutes: Estimate | None = Field(description="From `at_seconds` to the end of training.")
    budget_used_percent: float | None
    memory: MemoryRead
    at_seconds: float = Field(description="The present, in the run's own time.")
    next_check_seconds: float = Field(description="When to look again, in the run's own time.")
    next_time: Settings = Field(
        description="For the next run: changing it in this one costs more than it brings."
    )
    notes: list[str] = Field(description="Other findings, without advice.")
    reasons: list[Sentence] = Field(description="`why` and `notes` as data.")
    next_minutes: NextMinutes | None = left_out("Of GET alone; null without a budget.")


class Position(Answer):
    fold: int = Field(description="Finished folds.")
    folds: int | None
    epochs_done: int = Field(description="Of the present fold.")
    epochs: int | None


class Fill(Answer):
    percent: float = Field(description="Of the card.")
    gib: float
    of_gib: float
    kind: MemoryKind
    lower_bound: bool


class ExpectedNow(Answer):
    samples_per_second: Estimate | None
    epoch_seconds: Estimate | None
    driver_gib: Estimate | None


class TimeBucket(Answer):
    """Of a few seconds."""

    at_seconds: float
    steps: int | None
    samples_per_second: float | None
    loader_wait_percent: float | None
    utilization_percent: float | None
    temperature_c: float | None


class RankWatched(Answer):
    """One process of several that train together."""

    rank: int
    steps: int
    step_seconds: float | None
    samples_per_second: float | None = Field(description="Of this process alone.")
    loader_wait_percent: float | None
    peak_gib: float | None = Field(description="Of its card.")


class Watch(Answer):
    """How the run looks now, in its own time."""

    at_seconds: float
    used_minutes: float = Field(description="Of the budget: what epochs took that were told afterwards, too.")
    batch_size: int | None = Field(description="Samples a step.")
    position: Position
    steps: int | None = Field(description="Training steps so far.")
    step_seconds: float | None
    samples_per_second: float | None
    loader_wait_percent: float | None
    utilization_percent: float | None
    end_minutes: Estimate | None = Field(description="When training ends, from its start.")
    training_ends_by_minute: float | None = Field(description="Of the budget: what is left predicts.")
    fill: Fill | None
    peaks_gib: dict[MemoryKind, float]
    ranks: list[RankWatched] = Field(description="Of a run of several processes; else empty.")
    odd_values: int = Field(description="Figures that cannot be, passed over.")
    expected: ExpectedNow
    stretch_seconds: int
    stretches: list[TimeBucket] = Field(description="The latest.")


class AdviceGiven(Answer):
    """What was advised while it ran, and whether it was taken."""

    given_at: Time
    followed: Literal["yes", "no", "open", "replaced"] | None = Field(
        description="open: the run goes on; replaced: it goes on, and another answer holds by now; null: it "
        "cannot be known."
    )
    at_seconds: float = Field(description="In the run's own time.")
    action: Action
    set: Settings
    rule: str
    severity: Severity
    why: str
