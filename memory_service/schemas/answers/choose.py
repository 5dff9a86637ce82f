"""Hardware chosen among offers, and trainings beside each other."""

from typing import Any, Literal

from pydantic import Field

from memory_service.domain.choice.offer import Aim, WhyNot
from memory_service.schemas.answers.common import Answer, Estimate, Sentence
from memory_service.schemas.answers.recommend import Fact, Relaxation, ShortPlan


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
