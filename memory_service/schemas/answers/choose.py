"""What a model needs and does on a card; hardware chosen among offers, trainings beside each other; past
competitions most like a question."""

from typing import Any, Literal

from pydantic import Field, RootModel

from memory_service.domain.choice.offer import Aim, WhyNot
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.schemas.answers.common import Answer, Estimate, Layout, Provenance, Sentence, left_out
from memory_service.schemas.answers.recommend import Fact, InputSize, Relaxation, ShortPlan, StepSettings


class Interruption(Answer):
    """What one interruption halfway costs."""

    lost_minutes: float
    lost_minutes_with_checkpoint: float = Field(description="Where each epoch (fold, of trees) is saved.")
    checkpoint_saves_minutes: float


class ChosenPlan(Answer):
    """An offer with its best plan; what rests on a plan is null where none fits."""

    name: str
    gpu: str = Field(description="The card, by its key here.")
    n_gpus: int
    price_per_hour: float | None
    price_source: str | None = Field(description="Whose figure that is.")
    fits: bool
    why: WhyNot | None = Field(description="What does not fit.")
    start_up_minutes: Estimate = Field(description="Before the script begins.")
    plan: ShortPlan | None
    minutes: Estimate | None = Field(description="From ordering the box to the end of the script.")
    time_limit_minutes: float | None = Field(description="To ask for: 19 of 20 such jobs end within it.")
    cost: Estimate | None = Field(description="In the currency of the prices; null without a price.")
    most_cost: float | None = Field(description="Of the whole time limit: within the budget.")
    ask: dict[str, Any] | None = Field(
        description="Fields that, with the question's own, ask /recommend for the whole plan."
    )
    interruption: Interruption | None = Field(description="Of a spot offer.")


class FrontierPoint(Answer):
    offer: str
    model: str
    cost: float | None
    minutes: float
    quality_index: float


class More(FrontierPoint):
    costs_more: float
    points: float = Field(description="Of the quality index, over the recommended plan.")


class HeldPlan(Answer):
    offer: str
    plan: ShortPlan


class Scope(Answer):
    """An offer that does not hold the question, and two ways out side by side."""

    offer: str
    why: WhyNot
    same_hardware: Relaxation | None = Field(description="The smallest change that fits there.")
    next_offer: HeldPlan | None = Field(description="The next offer that holds the question as it is.")


class Choice(Answer):
    """Which box, which plan on it, which time limit, what cost."""

    task: str
    objective: Aim
    recommended: str | None = Field(description="Name of the offer; null where none fits.")
    reasons: list[Sentence] = Field(description="Three: what wins, what comes next, the time limit.")
    more: More | None = Field(description="What one unit of money more would buy; null: nothing that shows.")
    offers: list[ChosenPlan] = Field(description="In the order given.")
    frontier: list[FrontierPoint] = Field(
        description="Plans that none costing no more equals in quality, by cost, whatever the budget."
    )
    scope: list[Scope] = Field(description="Of the first two offers that do not fit.")
    built_in: bool = Field(description="Whether the offers are the built-in ones.")
    facts: list[Fact]
    warnings: list[Sentence]
    knowledge_revision: int


class ComparedSide(Answer):
    name: str
    kind: Literal["plan", "row", "script"]
    model: str | None
    quality: Estimate | None = Field(description="Index 0 to 100, comparable among the sides.")
    minutes: Estimate | None
    p_best: float | None = Field(description="Probability to score highest of all.")
    why: str | None = Field(description="What cannot be told of it.")


class ComparedPair(Answer):
    """Of two sides the likelier winner, and with what probability; null where it cannot be told."""

    first: str
    second: str
    better: str | None
    p_better: float | None
    points: float | None = Field(description="Expected index of the first over the second.")
    sooner: str | None
    p_sooner: float | None


class Comparison(Answer):
    """Trainings before one of them runs."""

    sides: list[ComparedSide]
    pairs: list[ComparedPair]
    best: str | None
    soonest: str | None
    knowledge_revision: int


class CurvePoint(Answer):
    batch_size: int = Field(description="Samples a step.")
    peak_memory_gib: Estimate
    samples_per_second: Estimate
    fits: bool


class WouldFit(Answer):
    """What would fit in place of a batch that does not."""

    batch_size: int | None = left_out("Samples a step.")
    grad_accumulation: int | None = left_out(
        "Steps an update, which keep about the batch that was asked for."
    )
    why: str


class _Prediction(Answer):
    model: str
    gpu: str = Field(description="Slug of the GPU model.")
    fits: bool = Field(
        description="Whether it is expected to: more likely than not. Up to `safe_batch_size` it fits nine "
        "times in ten; between both the interval of the peak reaches beyond the card."
    )
    max_batch_size: Estimate | None = Field(
        description="`low` fits nine times in ten; null: of boosted trees."
    )
    knee_batch_size: int | None = Field(description="The next rung gains under 10 % of speed; see `curve`.")
    samples_per_second: Estimate = Field(
        description="Of the card, of several all; the input pipeline, which a plan counts, is left out. Of "
        "boosted trees, rows that a round reads."
    )
    step_seconds: Estimate | None = Field(description="Null of boosted trees.")
    peak_memory_gib: Estimate = Field(
        description="As the driver reports it; of boosted trees, where they grow on the card; 0 of what the "
        "host fits."
    )
    warnings: list[str]
    reasons: list[Sentence] = Field(description="The warnings as data.")
    device: str | None = Field(description="The registered device, where it is one.")
    calibration: Provenance | None
    curve: list[CurvePoint]
    basis: str = Field(description="How the time was made.")


class NetworkPrediction(_Prediction, InputSize, StepSettings):
    precision: str
    layout: Layout
    optimizer: str = Field(description="`none` of inference.")
    mode: Literal["train", "infer"]
    gradient_checkpointing: bool
    batch_size: int = Field(description="Samples a step: the one asked for, or the knee within what fits.")
    safe_batch_size: int = Field(description="The largest that fits nine times in ten.")
    n_train: int | None = left_out("Training rows, where they were said.")
    epoch_seconds: Estimate | None = left_out("Where `n_train` was said.")
    would_fit: WouldFit | None = left_out("Where the batch does not fit.")
    loader_cores: Estimate | None = left_out("Cores that keep up with the card; of pictures.")


class TreesPrediction(_Prediction):
    """Of boosted trees and forests: one fit."""

    n_features: int = Field(description="Columns of the table.")
    n_train: int = Field(description="Training rows.")
    assumed: list[str]
    cpu_count: int = Field(description="Cores.")
    rounds: int
    host_memory_gib: Estimate = Field(description="Of the process that fits.")
    fit_seconds: Estimate = Field(description="On the processor's cores.")
    card_fit_seconds: Estimate | None = left_out(
        "By the library's own trees on the card, where a law is known."
    )
    predict_seconds_per_row: Estimate


class Prediction(RootModel[NetworkPrediction | TreesPrediction]):
    """What a model needs and does on a card."""


class Predictions(RootModel[list[NetworkPrediction | TreesPrediction]]):
    """One answer a question, in their order."""


class Signals(Answer):
    """What each opinion thought of it; null where it had none."""

    embedding: float | None = Field(description="Cosine.")
    words: float | None = Field(description="Share of the best full-text score.")
    structure: float | None = Field(description="Share of the known facts that agree.")


class Hit(Answer):
    slug: str
    title: str
    task: str | None
    score: float = Field(description="Chance that it was won in the same ways; 1: the competition itself.")
    signals: Signals
    why: str
    lessons: list[str] = Field(description="Up to three sentences on what its best solutions taught.")


class Similar(Answer):
    """Past competitions, best first."""

    items: list[Hit]
    inferred_task: str | None
    inferred: InferredFacts | None = Field(description="Facts that were read from the text.")
    degraded: bool = Field(description="Without the encoder: by words and structure only.")
    described: str | None = Field(description="The stored competition that the text itself describes.")
    mode: Mode
    reason: str | None = Field(description="Why it is degraded, or there are none.")
