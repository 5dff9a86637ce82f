"""What a run says of itself: the requests that begin and end one, its log, and the question how good the
predictions were."""

import re
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints

from memory_service.domain.runs.run_observations import EndStatus
from memory_service.errors import InvalidInput
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.validation_errors import checked

STATUSES: tuple[EndStatus, ...] = get_args(EndStatus)
"""How a run can end."""


def run_key(given: str) -> str:
    """The run's id in its one spelling: a UUID in lower case with dashes. ValueError for another text."""
    return given if _USUAL.fullmatch(given) else str(uuid.UUID(given))


_USUAL = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


RunId = Annotated[str, StringConstraints(pattern=f.UUID_FORM, max_length=36), AfterValidator(run_key)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class RunStart(Request):
    """A run that begins. `task`, `gpu` and `model` are required unless the plan it follows says them: what
    the run leaves out is taken from its plan. What nobody knows may be left out: then less can be predicted
    and learned."""

    run_id: RunId | None = f.optional("A UUID made by the client, so that asking twice is safe.")
    plan_id: f.Word | None = f.optional(
        "The plan it follows. Without `run_id` it means the run of it that a script reports already."
    )
    plan: f.JsonObject | None = f.optional(
        "That plan itself, the answer of /recommend as it was: for a server that was started "
        "since and has forgotten it. What the run is compared with is stored, the rest is not."
    )
    join: bool = Field(
        False,
        description="A process of the training (`host.pid`) means the one run of this plan that its caller "
        "has begun and no process reports to, whatever id it gave.",
    )
    competition: f.Slug | None = f.optional("Slug of a known competition.")
    task: f.Task | None = f.optional("A task or its alias.")
    gpu: f.Line | None = f.optional(
        "A registered device, or a GPU model by any name; `custom/NAME` for a card that is not "
        "listed: it is watched, without predictions."
    )
    model: f.Line | None = f.optional(
        "A catalogue, timm or transformers name; `custom/NAME` for a network of one's own: it is "
        "watched, without predictions."
    )
    n_gpus: f.NGpus | None = f.optional("Cards that train it together; `gpu=2xt4` says the same.")
    batch_size: f.BatchSize | None = f.optional("Samples a step, of each card.")
    image_size: f.ImageSize | None = f.optional("Pixels a side.")
    seq_len: f.SeqLen | None = f.optional("Tokens a text; of sounds frames of 10 ms.")
    n_features: f.NFeatures | None = f.optional("Columns of a table.")
    n_classes: f.NClasses | None = f.optional("Classes to tell apart.")
    precision: f.Precision | None = f.optional("fp32, tf32, fp16, bf16; the card's best otherwise.")
    layout: f.Layout | None = f.optional("nhwc = channels last.")
    optimizer: f.Optimizer | None = f.optional("adamw when not given.")
    compiled: bool = Field(False, description="torch.compile was used.")
    checkpointing: bool = Field(False, description="Gradient checkpointing was used.")
    grad_accumulation: Annotated[int, Field(ge=1, le=4096)] | None = f.optional("Steps an update.")
    learning_rate: Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)] | None = f.optional(
        "At its highest; a loss that is not a number is answered with a lower one."
    )
    num_workers: Annotated[int, Field(ge=0, le=1024)] | None = f.optional("Loader processes.")
    mode: Literal["train", "infer"] = Field("train", description="What the run's steps are.")
    folds: f.Folds | None = f.optional("Folds in all; 1 = one split.")
    seeds: f.Seeds | None = f.optional("Repeats of all folds, each with another seed.")
    epochs: f.Epochs | None = f.optional("Epochs of a fold.")
    metric: f.Line | None = f.optional(
        "Name of the validation metric that epochs report as `metric`, as scripts write it; a "
        "known one (accuracy, eval_f1, val_auc, rmse) says which way it gets better."
    )
    metric_direction: Literal["max", "min"] | None = f.optional(
        "Which way `metric` gets better, where its name does not say it."
    )
    n_train: f.Samples | None = f.optional("Training samples, validation included.")
    n_test: f.Samples | None = f.optional("Samples to predict.")
    minutes: f.Minutes | None = f.optional("Wall-clock budget.")
    reserve_minutes: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = f.optional(
        "Of a script that itself uses all minutes but these, on other models too: its time is not judged."
    )
    started_at: f.Moment | None = f.optional("ISO 8601, UTC; now when not given.")
    host: f.JsonObject | None = f.optional(
        "Facts of the machine; `cpu_count` is used, the rest is kept as it is."
    )


class RunFinish(Request):
    """A run that ended, and how."""

    status: EndStatus = Field(
        description="completed: it trained to its end. stopped: ended early on purpose, as by a verdict."
    )
    best_metric: Finite | None = f.optional("The best validation metric.")
    best_epoch: Annotated[int, Field(ge=0, le=1_000_000)] | None = f.optional("Its epoch.")
    submission: bool | None = f.optional("Whether a submission was written.")
    test_metric: Finite | None = f.optional(
        "The submission's score on data it never saw; it goes before best_metric."
    )
    followed: Annotated[list[f.RowName], Field(max_length=50)] | None = f.optional(
        "Patterns of the plan's `evidence`, and techniques of its recipe (`technique:mixup`), "
        "that were acted on, where nothing else would show it."
    )
    batch_size: f.BatchSize | None = f.optional(
        "The batch that ran out of memory, where it is not the run's."
    )
    at: f.Moment | None = f.optional("When it ended; the time of the request when not given.")


class RunExclusion(Request):
    """A run that is to count nowhere, or again."""

    why: f.LongReason = Field(description="Why, for whoever reads the run's history.")


class LogQuery(FromText, Request):
    """Where a piece of a log belongs."""

    offset: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = f.optional(
        "Where in the log the piece begins, in bytes; what was taken before is passed over. "
        "Without it the piece follows what was taken, unless it is the very piece taken last."
    )
    at: Annotated[str, StringConstraints(min_length=1, max_length=40)] | None = f.optional(
        "When it was written, ISO 8601, UTC; now when not given.", examples=["2026-03-01T12:00:00Z"]
    )


class AccuracyQuery(FromText, Request):
    """Which runs are scored."""

    gpu: f.Filter | None = f.optional("Only runs with this `gpu`.")
    device: f.Filter | None = f.optional("Only runs with this `device`.")
    family: f.Filter | None = f.optional("Only runs with this `family`.")
    model: f.Filter | None = f.optional("Only runs with this `model`.")
    days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] | None = f.optional(
        "Only runs that ended in the last so many days."
    )


def fitting_start(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Of facts that somebody else said (a plan), those that a run could have said."""
    try:
        return checked(RunStart, facts).explicit()
    except InvalidInput as error:
        wrong = {problem.field.split(".")[0] for problem in error.errors}
        return checked(RunStart, {n: v for n, v in facts.items() if n not in wrong}).explicit()
