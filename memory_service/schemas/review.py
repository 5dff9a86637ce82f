"""Reviews of training scripts: the request with what is known beside the script, and the answer."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from memory_service.schemas import fields as f
from memory_service.schemas.answers.common import Answer, left_out
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


class Finding(Answer):
    """One thing to change. Lines and columns count from one."""

    rule: str
    severity: Literal["error", "warning", "note"]
    file: str | None = left_out("Of a project, where it is another than the script.")
    cell: int | None = left_out("Of a notebook, counted among all its cells; lines are those of the cell.")
    line: int
    end_line: int
    column: int
    message: str
    fix: str = Field(description="It can be pasted.")
    source: str = Field(description="The rule that plans follow.")


class Counts(Answer):
    error: int
    warning: int
    note: int


class NotebookRun(Answer):
    """What the outputs of a notebook say of its run."""

    epochs: int | None = left_out("That ended.")
    epoch_seconds: float | None = left_out("The median.")
    peak_memory_gib: float | None = left_out("The most that was shown.")
    metric: float | None = left_out("The last score.")
    metric_name: str | None = left_out("Its name.")


class ScriptRead(Answer):
    """What was understood of the script."""

    framework: str | None = left_out("Such as torch.")
    trains: bool | None = left_out("Absent where the script cannot be read.")
    model: str | list[str] | None = left_out("One, or several.")
    batch_size: int | None = left_out("Samples a step.")
    grad_accumulation: int | None = left_out("Steps an update.")
    image_size: int | None = left_out("Pixels a side.")
    seq_len: int | None = left_out("Tokens a text; of sounds frames of 10 ms.")
    precision: str | None = left_out("Of the forward pass.")
    optimizer: str | None = left_out("Its class.")
    folds: int | None = left_out("In all.")
    epochs: int | None = left_out("Of a fold.")
    rounds: int | None = left_out("Of boosted trees.")
    num_workers: int | None = left_out("Of the loader.")
    run: NotebookRun | None = left_out("Of a notebook that ran.")


class Review(Answer):
    ok: bool = Field(description="Nothing was found.")
    counts: Counts
    read: ScriptRead
    findings: list[Finding] = Field(description="In order of lines.")
    not_checked: list[str] = Field(description="What could not be checked, and why.")
