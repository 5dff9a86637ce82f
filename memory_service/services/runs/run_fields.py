"""What may a run say of itself? The fields of POST /runs and of its finish, checked and named when wrong."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from memory_service.domain.common.optimizers import optimizer_name
from memory_service.domain.common.vocabulary import parse_precision
from memory_service.domain.planning.request import INTEGER_BOUNDS, NUMBER_BOUNDS
from memory_service.domain.runs.run_observations import EndStatus
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.services.tables.row_models import (
    JsonObject,
    Line,
    RowName,
    Slug,
    Task,
    Word,
    pattern_in_words,
)

__all__ = [
    "STATUSES",
    "Moment",
    "RunFinish",
    "RunStart",
    "fitting_start",
    "parse_finish",
    "parse_start",
    "refusal",
    "run_key",
    "utc_text",
]

STATUSES: tuple[EndStatus, ...] = get_args(EndStatus)
"""How a run can end."""

UUID_FORM = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"


def utc_text(given: str) -> str:
    """The moment in UTC with a Z behind it; one without a zone is UTC already. ValueError for all else."""
    try:
        moment = dt.datetime.fromisoformat(given)
        if not given.endswith("Z"):
            moment = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
            given = moment.replace(tzinfo=None).isoformat() + "Z"
    except (ValueError, OverflowError):
        raise ValueError("must be a time in ISO 8601, e.g. 2026-01-31T12:00:00Z") from None
    if not 1970 <= moment.year <= 2200:
        raise ValueError("must be a time between 1970 and 2200")
    return given


def run_key(given: str) -> str:
    """The run's id in its one spelling: a UUID in lower case with dashes. ValueError for another text."""
    return str(uuid.UUID(given))


def _bounds(name: str) -> Any:
    low, high = INTEGER_BOUNDS[name]
    return Field(ge=low, le=high)


_LOW_MINUTES, _MOST_MINUTES = NUMBER_BOUNDS["minutes"]

Moment = Annotated[str, StringConstraints(min_length=8, max_length=40), AfterValidator(utc_text)]
RunId = Annotated[str, StringConstraints(pattern=UUID_FORM, max_length=36), AfterValidator(run_key)]
Precision = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(parse_precision)]
Optimizer = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(optimizer_name)]
Minutes = Annotated[float, Field(gt=_LOW_MINUTES, le=_MOST_MINUTES, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RunStart(_Said):
    """A run that begins. `task`, `gpu` and `model` are required unless the plan it follows says them: what
    the run leaves out is taken from its plan. What nobody knows may be left out: then less can be predicted
    and learned."""

    run_id: RunId | None = Field(None, description="A UUID made by the client, so that asking twice is safe.")
    plan_id: Word | None = Field(None, description="The plan it follows.")
    plan: JsonObject | None = Field(
        None,
        description="That plan itself, the answer of /recommend as it was: for a server that was started "
        "since and has forgotten it. What is held against the run is kept, the rest is not.",
    )
    competition: Slug | None = Field(None, description="Slug of a known competition.")
    task: Task | None = Field(None, description="A task or its alias.")
    gpu: Line | None = Field(
        None,
        description="A registered device, or a GPU model by any name; `custom/NAME` for a card that is not "
        "listed: it is watched, without predictions.",
    )
    model: Line | None = Field(
        None,
        description="A catalogue, timm or transformers name; `custom/NAME` for a network of one's own: it is "
        "watched, without predictions.",
    )
    batch_size: Annotated[int, _bounds("batch_size")] | None = Field(None, description="Samples a step.")
    image_size: Annotated[int, _bounds("image_size")] | None = Field(None, description="Pixels a side.")
    seq_len: Annotated[int, _bounds("seq_len")] | None = Field(None, description="Tokens a text.")
    n_features: Annotated[int, _bounds("n_features")] | None = Field(None, description="Columns of a table.")
    n_classes: Annotated[int, _bounds("n_classes")] | None = Field(None, description="Classes to tell apart.")
    precision: Precision | None = Field(
        None, description="fp32, tf32, fp16, bf16; the card's best otherwise."
    )
    layout: Literal["nhwc", "nchw"] | None = Field(None, description="nhwc = channels last.")
    optimizer: Optimizer | None = Field(None, description="adamw when not given.")
    compiled: bool = Field(False, description="torch.compile was used.")
    checkpointing: bool = Field(False, description="Gradient checkpointing was used.")
    grad_accumulation: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="Steps an update."
    )
    num_workers: Annotated[int, Field(ge=0, le=1024)] | None = Field(None, description="Loader processes.")
    mode: Literal["train", "infer"] = Field("train", description="What the run's steps are.")
    folds: Annotated[int, _bounds("folds")] | None = Field(None, description="Folds in all; 1 = one split.")
    epochs: Annotated[int, _bounds("epochs")] | None = Field(None, description="Epochs of a fold.")
    n_train: Annotated[int, _bounds("n_train")] | None = Field(
        None, description="Training samples, validation included."
    )
    n_test: Annotated[int, _bounds("n_test")] | None = Field(None, description="Samples to predict.")
    minutes: Minutes | None = Field(None, description="Wall-clock budget.")
    started_at: Moment | None = Field(None, description="ISO 8601, UTC; now when not given.")
    host: JsonObject | None = Field(
        None, description="Facts of the machine; `cpu_count` is used, the rest is kept as it is."
    )


class RunFinish(_Said):
    """A run that ended, and how."""

    status: EndStatus = Field(
        description="completed: it trained to its end. stopped: ended early on purpose, as by a verdict."
    )
    best_metric: Finite | None = Field(None, description="The best validation metric.")
    best_epoch: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(None, description="Its epoch.")
    submission: bool | None = Field(None, description="Whether a submission was written.")
    test_metric: Finite | None = Field(
        None, description="The submission's score on data it never saw; it goes before best_metric."
    )
    followed: Annotated[list[RowName], Field(max_length=50)] | None = Field(
        None,
        description="Patterns of the plan's `evidence` that were acted on, where nothing else would show it: "
        "losses, augmentation, features.",
    )
    batch_size: Annotated[int, _bounds("batch_size")] | None = Field(
        None, description="The batch that ran out of memory, where it is not the run's."
    )
    at: Moment | None = Field(None, description="When it ended; the time of the request when not given.")


def parse_start(body: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, without nulls, names in their one spelling where the vocabulary knows them; InvalidInput
    names each wrong field."""
    return _parsed(RunStart, body, "This cannot begin a run")


def fitting_start(body: Mapping[str, Any]) -> dict[str, Any]:
    """Of facts that somebody else said (a plan), those that a run could have said."""
    facts = dict(body)
    try:
        return _parsed(RunStart, facts, "")
    except InvalidInput as error:
        wrong = {problem.field.split(".")[0] for problem in error.errors}
        return _parsed(RunStart, {n: v for n, v in facts.items() if n not in wrong}, "")


def parse_finish(body: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of the end, without nulls; InvalidInput names each wrong field."""
    return _parsed(RunFinish, body, "This cannot end a run")


def _parsed(model: type[_Said], body: Mapping[str, Any], wrong: str) -> dict[str, Any]:
    try:
        said = model.model_validate(dict(body))
    except ValidationError as error:
        raise refusal(wrong, error, tuple(model.model_fields)) from None
    return said.model_dump(exclude_none=True, exclude_unset=True)


def refusal(wrong: str, error: ValidationError, known: Sequence[str]) -> InvalidInput:
    """The refusal that names every wrong field, with the nearest of `known` for one that nobody knows."""
    problems = [_problem(dict(found), known) for found in error.errors(include_url=False)[:50]]
    detail = "; ".join(f"{p.field}: {p.message}" if p.field else p.message for p in problems[:3])
    return InvalidInput(f"{wrong}: {detail}", problems)


def _problem(found: Mapping[str, Any], known: Sequence[str]) -> FieldError:
    field = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        name = str(found["loc"][-1])
        return FieldError(field, "unknown field", None, unknown_name("field", name, known).errors[0].nearest)
    if found["type"] == "missing":
        return FieldError(field, "is required")
    if found["type"] == "string_pattern_mismatch":
        pattern = found["ctx"]["pattern"]
        told = "must be a UUID" if pattern == UUID_FORM else pattern_in_words(pattern)
        return FieldError(field, told, found.get("input"))
    return FieldError(field, str(found["msg"]).removeprefix("Value error, "), found.get("input"))
