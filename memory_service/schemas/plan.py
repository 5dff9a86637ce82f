"""A plan that a run brings along: what of an answer of /recommend is used, the rest is passed over."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memory_service.domain.common.estimate import Grade
from memory_service.schemas.fields import Amount, Count, Line, Word


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
    best_epoch: _Number | None = None
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


def _by_name(facts: Any) -> Any:
    """The counts among the facts of a plan that nobody assumed; plans of before have a mapping of them."""
    if not isinstance(facts, list):
        return facts
    known = [fact for fact in facts if isinstance(fact, dict) and fact.get("from") != "usual"]
    return {fact.get("name"): fact.get("value") for fact in known if fact.get("name") in _Facts.model_fields}


class _Trouble(_Part):
    when: Line
    planned_percent: Amount | None = None
    over_percent: Amount | None = None


class _Evidence(_Part):
    id: Line
    demoted: bool = False


class _Family(_Part):
    name: Line


class _Technique(_Part):
    name: Line
    in_script: bool = False


class _Validation(_Part):
    split: Word | None = None


class _Recipe(_Part):
    validation: _Validation = Field(default_factory=_Validation)
    families: list[_Family] = Field(default_factory=list)
    techniques: list[_Technique] = Field(default_factory=list)


class BroughtPlan(_Part):
    """What of a plan that a run brings along is used: for what it should show, and what it was advised."""

    plan_id: Word
    feasible: Literal[True]
    task: Word | None = None
    model: _Model
    gpu: _Card = Field(default_factory=_Card)
    batch_size: Count | None = None
    grad_accumulation: Count | None = None
    learning_rate: Amount | None = None
    split: Word | None = None
    folds: Count | None = None
    seeds: Count | None = None
    epochs: Count | None = None
    early_stopping_patience: Count | None = None
    precision: Word | None = None
    optimizer: Word | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    gradient_checkpointing: bool | None = None
    tree_device: Literal["cpu", "cuda"] | None = None
    data_loader: _Loader = Field(default_factory=_Loader)
    minutes: Amount | None = None
    expected: _Expected = Field(default_factory=_Expected)
    checks: _Checks = Field(default_factory=_Checks)
    on_trouble: list[_Trouble] = Field(default_factory=list)
    alternatives: list[dict[str, Any]] = Field(default_factory=list)
    evidence: list[_Evidence] = Field(default_factory=list)
    recipe: _Recipe | None = None
    facts: Annotated[_Facts, BeforeValidator(_by_name)] = Field(default_factory=_Facts)
