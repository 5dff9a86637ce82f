"""The request of a review: a training script and what is known beside it."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request

LONGEST_SCRIPT = 2**20


class ReviewFacts(Request):
    """What is known beside the script."""

    filename: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = Field(
        None, description="Its name in SARIF; `train.py` when not given."
    )
    gpu: f.Text200 | None = Field(None, description=f.ABOUT_GPU)
    minutes: f.Minutes | None = Field(None, description="Wall-clock budget for everything.")
    task: f.Task | None = Field(None, description=f.ABOUT_TASK, examples=["image"])
    n_train: f.Samples | None = Field(None, description="Training samples.")
    n_test: f.Samples | None = Field(None, description="Samples to predict.")
    image_size: f.ImageSize | None = Field(None, description="Pixels a side.")
    seq_len: f.SeqLen | None = Field(None, description="Tokens a text; of sounds frames of 10 ms.")
    n_features: f.NFeatures | None = Field(None, description="Columns of a table.")
    n_classes: f.NClasses | None = Field(None, description="Classes to tell apart.")
    cpu_count: f.CpuCount | None = Field(None, description="Processor cores.")
    metric: f.Text200 | None = Field(
        None, description="What predictions are judged by.", examples=["roc auc"]
    )


class ReviewQuery(FromText, ReviewFacts):
    """The same as texts."""


class ReviewRequest(ReviewFacts):
    """The script with it, as JSON."""

    script: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SCRIPT)] = Field(
        description="The whole file; it is read, never run."
    )
    plan: dict[str, Any] | None = Field(
        None, description="The plan that it should follow, as /recommend gave it."
    )
