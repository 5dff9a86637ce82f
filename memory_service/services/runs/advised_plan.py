"""What was a run advised when it began? Its plan is held against what it runs, and stored with it.

Asking writes nothing: a plan is known while the process remembers having answered it
(`services.planning.recommend.plan_given`). A server that was started anew gives the same plan, under the
same id, to
the same question over the same knowledge; or the run brings its plan along in `plan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_service.domain.common.estimate import Grade
from memory_service.domain.runs.advice_outcome import advice_of, brief_of, place_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.database.transactions import WriteTransaction
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.runs.run_configuration import RunCase
from memory_service.services.tables.row_models import Line, Word
from memory_service.store.queries import outcomes

__all__ = ["advised", "begin_outcome", "plan_brought"]

Count = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Number(_Part):
    value: Amount
    low: Amount
    high: Amount
    grade: Grade
    n: Count
    basis: str


class _Model(_Part):
    name: Line
    image_size: Count | None = None
    seq_len: Count | None = None
    n_features: Count | None = None


class _Card(_Part):
    slug: Line | None = None
    device: Line | None = None
    memory_gib: Amount | None = None


class _Loader(_Part):
    num_workers: Count | None = None


class _Expected(_Part):
    peak_memory_gib: _Number | None = None
    samples_per_second: _Number | None = None
    epoch_seconds: _Number | None = None
    total_minutes: _Number | None = None
    inference_minutes: _Number | None = None
    bound: Literal["gpu", "loader", "host"] = "gpu"


class _Checks(_Part):
    first_after_seconds: Amount = 60
    every_seconds: Amount = 150
    not_before_steps: Count = 20
    model_class: Literal["small", "large"] | None = None
    target_percent: list[Amount] | None = None


class _Facts(_Part):
    n_train: Count | None = None
    n_test: Count | None = None
    n_classes: Count | None = None
    cpu_count: Count | None = None


class _Trouble(_Part):
    when: Line
    planned_percent: Amount | None = None


class _Evidence(_Part):
    id: Line
    demoted: bool = False


class _Plan(_Part):
    """What of a plan that a run brings along is used: for what it should show, and what it was advised."""

    plan_id: Word
    feasible: Literal[True]
    task: Word | None = None
    model: _Model
    gpu: _Card = Field(default_factory=_Card)
    batch_size: Count | None = None
    grad_accumulation: Count | None = None
    folds: Count | None = None
    epochs: Count | None = None
    early_stopping_patience: Count | None = None
    precision: Word | None = None
    optimizer: Word | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    gradient_checkpointing: bool | None = None
    data_loader: _Loader = Field(default_factory=_Loader)
    minutes: Amount | None = None
    expected: _Expected = Field(default_factory=_Expected)
    checks: _Checks = Field(default_factory=_Checks)
    on_trouble: list[_Trouble] = Field(default_factory=list)
    alternatives: list[dict[str, Any]] = Field(default_factory=list)
    evidence: list[_Evidence] = Field(default_factory=list)
    facts: _Facts = Field(default_factory=_Facts)


def plan_brought(said: dict[str, Any]) -> dict[str, Any] | None:
    """Take the plan that a run brought along out of what it said; `plan_id` is then said too. InvalidInput
    where it is no answer of /recommend with a plan, or not the one that plan_id names."""
    given: Mapping[str, Any] | None = said.pop("plan", None)
    if given is None:
        return None
    try:
        plan = _Plan.model_validate(given).model_dump(exclude_none=True)
    except ValidationError as error:
        problems = [
            FieldError(".".join(map(str, ("plan", *found["loc"]))), found["msg"])
            for found in error.errors(include_url=False)[:50]
        ]
        detail = "; ".join(f"{problem.field}: {problem.message}" for problem in problems[:3])
        raise InvalidInput(f"This is no plan of /recommend: {detail}", problems) from None
    if said.setdefault("plan_id", plan["plan_id"]) != plan["plan_id"]:
        message = "names another plan than the one in `plan`"
        raise InvalidInput(f"plan_id {message}", [FieldError("plan_id", message, said["plan_id"])])
    return plan


def advised(knowledge: Knowledge, case: RunCase, plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a run that begins was advised, and whether it does so; None where its plan is not known.

    plan   the answer of /recommend that it follows
    """
    if plan is None or plan.get("feasible") is False:
        return None
    patterns = {row["id"]: row for row in knowledge.patterns}
    runs_it = {"model": case.model, "precision": case.precision, case.input_kind: case.input_size}
    runs_it |= {name: case.reported.get(name) for name in ("batch_size", "folds", "epochs")}
    return advice_of(brief_of(plan, patterns), patterns, runs_it)


def begin_outcome(
    transaction: WriteTransaction, run_id: str, case: RunCase, advice: Mapping[str, Any] | None
) -> None:
    """Keep with a new run what it was advised."""
    said = case.reported
    place = place_of(said.get("competition"), said["task"], said.get("n_train"))
    outcomes.begin(transaction.session, run_id, place, advice, transaction.now)
