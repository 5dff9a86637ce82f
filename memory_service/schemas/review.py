"""The request of a review: a training script and what is known beside it."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request

LONGEST_SCRIPT = 2**25


class ReviewFacts(Request):
    """What is known beside the script."""

    filename: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = f.optional(
        "Its name in SARIF; `train.py` when not given."
    )
    gpu: f.Text200 | None = f.optional(f.ABOUT_GPU)
    minutes: f.Minutes | None = f.optional("Wall-clock budget for everything.")
    task: f.Task | None = f.optional(f.ABOUT_TASK, examples=["image"])
    n_train: f.Samples | None = f.optional("Training samples.")
    n_test: f.Samples | None = f.optional("Samples to predict.")
    image_size: f.ImageSize | None = f.optional("Pixels a side.")
    seq_len: f.SeqLen | None = f.optional("Tokens a text; of sounds frames of 10 ms.")
    n_features: f.NFeatures | None = f.optional("Columns of a table.")
    n_classes: f.NClasses | None = f.optional("Classes to tell apart.")
    cpu_count: f.CpuCount | None = f.optional("Processor cores.")
    metric: f.Text200 | None = f.optional("What predictions are judged by.", examples=["roc auc"])


class ReviewQuery(FromText, ReviewFacts):
    """The same as texts."""


class ReviewRequest(ReviewFacts):
    """The script with it, as JSON."""

    script: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SCRIPT)] = Field(
        description="The whole file, a script or a Jupyter notebook; it is read, never run."
    )
    files: dict[f.Text200, str] | None = f.optional(
        "Other files of its folder, by path: modules that it imports, settings in YAML or JSON. `filename` "
        "says where the script stands among them."
    )
    plan: dict[str, Any] | None = f.optional("The plan that it should follow, as /recommend gave it.")
