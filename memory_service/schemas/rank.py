"""Rankings: which of these models, trained like this, is best on this data set."""

from typing import Annotated

from pydantic import FailFast, Field

from memory_service.schemas import fields as f
from memory_service.schemas.answers.common import Answer, Estimate
from memory_service.schemas.base import FromText, Request

MOST_ROWS = 10_000


class RankRow(Request):
    """One candidate. Rows of one `dataset` are compared with each other."""

    dataset: f.Text200 | None = f.optional("Rows of one name compete; without one, all do.")
    task: f.Task = Field(description=f.ABOUT_TASK, examples=["tabular-classification"])
    model: f.Text200 = Field(description="A name of the catalogue.", examples=["catboost"])
    subtask: f.SubtaskWord | None = f.optional("What kind of text or speech task it is.")
    language: f.Language | None = f.optional("Of texts: ISO 639-1, or `multi`.")
    n_train: f.Samples | None = f.optional("Training rows.")
    n_classes: f.NClasses | None = f.optional("Classes.")
    n_features: f.NFeatures | None = f.optional("Columns of a table.")
    horizon: f.Samples | None = f.optional("Of series: steps to forecast.")
    metric: f.Text200 | None = f.optional(
        "Of forecasts: `MASE`; `CRPS`, `SQL` and other losses of quantiles."
    )
    input_size: f.NFeatures | None = f.optional("Pixels a side, or tokens; the usual one else.")
    epochs: f.Epochs | None = f.optional("Epochs or rounds; as many as pay when not given.")
    folds: f.Folds | None = f.optional("Models averaged; 1 when not given.")
    gpu: f.Text200 | None = f.optional("With `minutes`: what fits there is planned.")
    minutes: f.Minutes | None = f.optional("Budget; counts together with `gpu`.")


class RankTextRow(FromText, RankRow):
    """The same as texts: a row of a CSV file."""


class RankRequest(Request):
    """Candidates to rank."""

    rows: Annotated[list[RankRow], FailFast()] = Field(
        min_length=1, max_length=MOST_ROWS, description="One for each candidate."
    )


class RankedRow(RankRow):
    """A row as it was given, epochs and folds as planned for `gpu` and `minutes`; null: not judged."""

    quality: Estimate | None = Field(description="Index 0 to 100, comparable within a data set.")
    rank: int | None = Field(description="1: the highest quality of its data set.")
    p_best: float | None = Field(description="Probability to be the best row of its data set.")
    run_order: int | None = Field(description="In which order to run several: up to five, then null.")
    why: str | None = Field(description="Why it could not be judged.")


class Ranked(Answer):
    """In the order given."""

    rows: list[RankedRow]
