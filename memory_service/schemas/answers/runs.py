"""Runs: begun, reported, ended."""

from typing import Any, Literal

from pydantic import Field

from memory_service.domain.common.estimate import Grade
from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.scoring import Score
from memory_service.domain.monitoring.event import MemoryKind
from memory_service.domain.monitoring.verdict import Action, Severity
from memory_service.domain.runs.run_observations import EndStatus
from memory_service.domain.runs.run_outcome import DeviceUse, Peaks
from memory_service.schemas.answers.common import (
    Answer,
    Estimate,
    Layout,
    Provenance,
    Sentence,
    Settings,
    Time,
    left_out,
)
from memory_service.schemas.runs import RunFinish, RunStart


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


Status = Literal["running", EndStatus]
Mode = Literal["train", "infer"]


class FigureBasis(Answer):
    """What a figure stands on."""

    n: int = Field(description="Observations.")
    grade: Grade
    basis: str


class ProfileUsed(Answer):
    model: str
    family: str
    input_kind: str
    input_size: int
    precision: str
    checkpointing: bool
    torch_version: str | None


class PredictionInputs(Answer):
    """All that the figures were made from."""

    gpu: str
    device: str | None
    calibration: Provenance | None
    profile: ProfileUsed | None
    time: FigureBasis | None
    memory: FigureBasis | None
    precision: str
    layout: Layout
    optimizer: str
    mode: Mode
    cpu_count: int
    knowledge_revision: int
    version: str = Field(description="Of the service.")


class Naive(Answer):
    """What the baselines of /accuracy need."""

    gflops_per_sample: float
    traced_gib: float


class RunPrediction(Answer):
    """What was predicted when the run began; never changed afterwards. A figure that could not be predicted
    is null or absent."""

    batch_size: int | None = left_out("Samples a step.")
    fits: bool | None = left_out("Whether the batch fits the card, or the data the host.")
    peak_memory_gib: Estimate | None = left_out("As the driver reports it.")
    peak_reserved_gib: Estimate | None = left_out("Of the caching allocator.")
    peak_allocated_gib: Estimate | None = left_out("Of live tensors.")
    step_seconds: Estimate | None = left_out("One training step.")
    samples_per_second: Estimate | None = left_out("Without waiting for the loader.")
    epoch_seconds: Estimate | None = left_out("One epoch, validation and loader included.")
    loader_samples_per_second: Estimate | None = left_out("What the input pipeline can feed.")
    setup_seconds: Estimate | None = left_out("Before the first step.")
    fit_seconds: Estimate | None = left_out("One fit of boosted trees to the rows of a fold.")
    total_minutes: Estimate | None = left_out("The whole run.")
    naive: Naive | None = left_out("Of networks.")
    why_not: str | None = Field(description="Why there are no figures.")
    inputs: PredictionInputs
    case: Observation | None = Field(
        description="What an observation of this run is of; null: it teaches nothing."
    )
    own_runs: int = Field(0, description="Runs of this model at this size on this device that it knew of.")


class RunBegun(Answer):
    run_id: str
    status: Status
    prediction: RunPrediction
    notes: list[str] = Field(description="What the run is watched without: its plan, its metric's direction.")


class IgnoredValue(Answer):
    """A value that cannot be meant: kept as reported, and counted nowhere."""

    seq: int
    field: str
    value: Any
    why: str


class RunEventsTaken(Answer):
    accepted: int = Field(description="New events, now on disk.")
    duplicates: int = Field(description="Events that were there already, and changed nothing.")
    verdict: RunVerdict | None = Field(description="Null where the events cannot be judged; they are kept.")
    differing: list[int] = Field(description="Seqs of duplicates that were there with another body.")
    ignored: list[IgnoredValue] = Field(
        description="Values that no such run can report: memory over the card's, an epoch far beyond those "
        "announced, a time before its start."
    )


class LogPlace(Answer):
    """How far a raw log has been read."""

    offset: int = Field(description="Bytes taken so far, where the next piece begins.")
    lines: int = Field(description="Of the log so far, blank ones not counted.")
    understood: int = Field(description="Lines that gave events.")
    clipped: int = Field(description="Characters of overlong lines that were not looked at.")


class RunLogTaken(LogPlace):
    accepted: int = Field(description="Events that this piece gave.")
    verdict: RunVerdict | None


class RunRow(Answer):
    """A run as lists show it. Predicted and measured figures are medians; null: not known."""

    id: str
    task: str
    competition: str | None
    plan_id: str | None
    gpu: str = Field(description="Slug of the GPU model, or as given.")
    device: str = Field(description="The registered device; empty where only the GPU model was named.")
    model: str
    family: str
    input_kind: str
    input_size: int | None
    batch_size: int | None = Field(description="Samples a step.")
    precision: str
    layout: Layout
    optimizer: str
    mode: Mode
    folds: int | None
    epochs: int | None = Field(description="Of a fold.")
    n_train: int | None = Field(description="Training samples.")
    minutes: float | None = Field(description="The budget.")
    status: Status
    started_at: Time
    finished_at: Time | None
    best_metric: float | None
    best_epoch: int | None
    submission: bool | None = Field(description="Whether one was written.")
    predicted_samples_per_second: float | None
    samples_per_second: float | None
    predicted_peak_gib: float | None
    peak_gib: float | None = Field(description="As the driver saw the process.")
    predicted_epoch_seconds: float | None
    epoch_seconds: float | None
    predicted_minutes: float | None
    total_minutes: float | None
    excluded: str | None = Field(
        description="Why its speed says nothing of the device; of `by_person` and `implausible` nothing "
        "counts."
    )
    wasted_minutes: float | None
    wasted_on: str | None = Field(description="The part of `waste` that took the most.")
    waste: dict[str, float] | None = Field(description="Minutes that brought nothing, by part.")
    created_at: Time
    updated_at: Time


class RunOutcome(Answer):
    """What the run reported."""

    epochs_done: int
    folds_seen: int
    epoch_seconds: float | None = Field(description="Median of all epochs but the first.")
    loader_wait_percent: float | None = Field(description="Of the epochs' time, median.")
    peak_memory_gib: Peaks
    device: DeviceUse
    events: dict[str, int] = Field(description="How many, by kind.")
    last_event_after_seconds: float | None = Field(description="In the run's own time.")
    first_submission_seconds: float | None = Field(description="In the run's own time.")
    epochs: list[dict[str, Any]] = Field(description="The latest, each with what its events reported.")
    epochs_left_out: int
    events_read: int | None = left_out("Of a run that has ended.")


class RunFigure(Answer):
    """Predicted against happened."""

    quantity: str = Field(description="Its unit is the name's end.")
    predicted: Estimate
    actual: float
    error_percent: float = Field(description="Over zero: more was predicted than happened.")
    inside: bool = Field(description="Whether it lies in the interval.")
    excluded: str | None = Field(description="Why it is not scored.")


class PlanFollowed(Answer):
    plan_id: str | None
    model: str | None
    batch_size: int | None
    precision: str | None
    folds: int | None
    epochs: int | None
    minutes: float | None
    expected_minutes: float | None


class ServedPattern(Answer):
    pattern: str
    competition: str | None
    followed: bool | None


class PlanAdvice(Answer):
    """What its plan advised, and whether the run does so (null: it was not said)."""

    plan: PlanFollowed
    followed: dict[str, bool | None] = Field(description="By part of the plan.")
    served: list[ServedPattern] = Field(description="The patterns and competitions that it served.")
    techniques: dict[str, bool | None] = Field(
        default_factory=dict, description="Of its recipe: true where its script does one."
    )


class _RunResult(Answer):
    status: EndStatus
    metric: float | None
    test_metric: float | None
    model: str
    gpu: str
    batch_size: int | None = Field(description="Samples a step.")
    folds: int | None
    epochs: int | None = Field(description="Of a fold.")
    minutes: float | None
    budget_percent: float | None
    epochs_to_best: float | None
    folds_done: int
    minutes_to_submission: float | None


class RunBrief(_RunResult):
    """What came of a run, in short."""

    run_id: str
    ended_at: Time


class RunEvidence(_RunResult):
    """What came of a run: what it is worth to later plans."""

    succeeded: bool | None = Field(description="Whether it left something to score.")
    submission: bool | None
    metric_from: Literal["finish", "epochs"] | None
    direction: Literal["max", "min"] | None = Field(description="Which way the metric is better.")
    epochs_done: int
    submission_timed: bool
    precision: str
    budget_minutes: float | None
    followed: dict[str, bool | None] | None = Field(description="By part of its plan; null: not known.")
    served: dict[str, bool | None] = Field(
        description="Patterns, competitions and choices of the recipe that the plan served: whether followed."
    )


class RunEnd(RunFinish):
    """As the run said it, or as the service assumes after silence."""

    assumed: bool | None = Field(
        None, description="True where the service closed a run that was silent; its own word goes before."
    )


class RunExclusion(Answer):
    """Who excluded it, when and why."""

    who: str
    at: Time
    why: str


class RunPage(RunRow):
    """One run, whole."""

    exclusion: RunExclusion | None = Field(description="Somebody excluded it: it counts nowhere.")

    given: RunStart = Field(description="What it said when it began.")
    finish: RunEnd | None = Field(description="What it said when it ended.")
    prediction: RunPrediction
    notes: list[str]
    reasons: list[Sentence] = Field(description="The notes as data.")
    comparison: list[RunFigure]
    observations: list[Observation]
    learned: list[str] = Field(
        description="Of a run that has ended: what it changed of predictions, or why it changed nothing."
    )
    outcome: RunOutcome
    verdict: RunVerdict | None = Field(description="Null where its figures cannot be judged.")
    watch: Watch | None
    verdicts: list[AdviceGiven]
    log: LogPlace | None
    advice: PlanAdvice | None = Field(description="Null where its plan is not known.")
    next_minutes: NextMinutes | None = Field(description="Null without a budget.")
    evidence: RunEvidence | None = Field(description="Null while it runs.")


class ScoredGroup(Answer):
    name: str
    runs: int
    scores: list[Score]


class ScoredRuns(Answer):
    """Every ended run is in exactly one of the others."""

    ended: int
    scored: int = Field(description="Some figure of it stands beside its prediction.")
    without_prediction: int
    excluded: dict[str, int] = Field(description="By reason: nothing of them is scored.")
    nothing_measured: int = Field(description="No figure that was predicted was reported.")


class MemoryLimit(Answer):
    """Whether runs ran out of memory, against whether that was predicted."""

    fitted_as_predicted: int
    fitted_unexpectedly: int
    ran_out_as_predicted: int
    ran_out_unexpectedly: int


class QualityOrder(Answer):
    """Whether expected quality orders the models run on a competition as their metrics did."""

    competitions: int
    pairs: int = Field(description="Of models on one competition, each by its best run.")
    right_percent: float | None = Field(description="The higher expected quality had the better metric.")
    expected_percent: float | None = Field(description="The mean probability that was given to that.")


class Accuracy(Answer):
    """Predictions frozen when runs began, scored on what happened. Nothing to score: empty lists."""

    runs: ScoredRuns
    overall: list[Score]
    by_device: list[ScoredGroup]
    by_family: list[ScoredGroup]
    by_own_runs: list[ScoredGroup] = Field(
        description="By how many runs of its model at its size on its device the prediction knew of."
    )
    by_grade: list[ScoredGroup]
    by_age: list[ScoredGroup]
    memory_limit: MemoryLimit
    quality: QualityOrder
