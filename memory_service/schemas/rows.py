"""Rows of knowledge: one model per table, for seeds and for what people send alike, and the requests that
add, correct, undo and delete one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)

from memory_service.domain.common.vocabulary import size_of
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import gpu_from_row
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.policy import unreadable
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.vocabulary import Basis, Split
from memory_service.errors import FieldError, InvalidInput
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request, Row
from memory_service.schemas.model_config import check_model_config
from memory_service.schemas.validation_errors import checked, wrong_fields


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Validation(_Part):
    split: Split = Field("unknown", description="how folds were split")
    by: f.Line | None = f.optional("what a fold keeps together or follows, e.g. patient")
    folds: f.Small | None = None


class Ensemble(_Part):
    members: f.Small | None = None
    method: f.Word = Field("unknown", description="mean, weighted, rank, stacking, hill-climbing, none")


class Score(_Part):
    cv: f.Number | None = None
    public: f.Number | None = None
    private: f.Number | None = None


Said = Annotated[list[f.Line], Field(max_length=40)]


class SolutionRow(Row):
    """A winning solution. What is null or empty is not known, which is not "not used"."""

    competition: f.Slug = Field(description="its slug")
    rank: Annotated[int, Field(ge=1, le=100_000)] = Field(description="on the private leaderboard")
    url: f.Url | None = f.optional("of the write-up")
    basis: Basis = Field("second-hand", description="read: the write-up or its code; recalled: from memory")
    read_at: f.Line | None = f.optional("where it was read, if not there")
    families: Annotated[list[f.Family], Field(max_length=40)] = Field(
        default_factory=list, description="of models: lightgbm, efficientnet, deberta-v3 ..."
    )
    models: Said = Field(default_factory=list, description="their names as written")
    input: f.Line | None = f.optional("what the models were given")
    image_size: f.Pixels | None = f.optional("pixels a side")
    seq_len: f.Small | None = f.optional("tokens or steps")
    validation: Validation = Field(default_factory=Validation, description="how it was validated")
    loss: Annotated[list[f.Loss], Field(max_length=20)] = Field(
        default_factory=list, description="bce, focal, mse ..."
    )
    techniques: Annotated[list[f.Technique], Field(max_length=40)] = Field(
        default_factory=list, description="tta, pseudo-labels, stacking ..."
    )
    features: Said = Field(default_factory=list, description="that mattered, of tables and series")
    ensemble: Ensemble = Field(default_factory=Ensemble, description="of how many models, blended how")
    epochs: f.Small | None = f.optional("of training")
    batch_size: f.Small | None = f.optional("samples a step")
    optimizer: f.Word | None = f.optional("as written")
    learning_rate: Annotated[f.Word | f.Amount, AfterValidator(str)] | None = f.optional(
        "a number, or as written"
    )
    hardware: f.Line | None = f.optional("that it was trained on")
    score: Score = Field(default_factory=Score, description="by the metric of the competition")
    what_mattered: Said = Field(default_factory=list, description="by its authors, a sentence each")
    what_failed: Said = Field(default_factory=list, description="what they tried in vain")

    @model_validator(mode="after")
    def _read_somewhere(self) -> SolutionRow:
        where = self.read_at or self.url
        if "source" not in self.model_fields_set and where:
            self.source = where
        return self


class CompetitionRow(Row):
    slug: f.Slug = Field(description="its name in links: letters, digits and . _ - only")
    title: f.Line = Field(description="its name for people")
    description: f.Description = Field(description="what is predicted, from what data, how it is judged")
    year: f.PastYear | None = f.optional("when it was held")
    task: f.Task | None = f.optional("a task or its alias")
    modality: f.Word | None = f.optional("image, text, tabular, audio ...: as the task says")
    metric: f.Line | None = f.optional("what predictions are judged by, e.g. log loss")
    metric_family: f.Word | None = f.optional("metrics like it, e.g. log-loss, auc, accuracy")
    metric_direction: Literal["max", "min"] | None = f.optional("max: more is better")
    n_train: f.Count | None = f.optional("training samples")
    n_test: f.Count | None = f.optional("samples to predict")
    n_classes: f.Small | None = f.optional("classes to tell apart")
    image_size: f.Pixels | None = f.optional("pixels a side")
    dataset_gb: f.Amount | None = f.optional("size of the data on disk")
    domain: f.Line | None = f.optional("field of the data, e.g. medicine, ecology")
    label_structure: f.Line | None = f.optional("e.g. single label, multi-label, mask")
    split: Literal["random", "group", "time", "stratified", "unknown"] | None = f.optional(
        "how validation has to be split"
    )
    group_by: f.Line | None = f.optional("what rows that belong together share, e.g. the patient")
    host_kind: f.Word | None = f.optional("featured, research, playground, recruitment ...")
    teams: f.Small | None = f.optional("teams on the final leaderboard")
    code_competition: bool | None = f.optional("true: code is handed in and run by the host")
    inference_limit_hours: f.Amount | None = f.optional("that such code may run")
    summary: f.Sentences | None = f.optional("what worked")
    pitfalls: f.Sentences | None = f.optional("what went wrong, and for whom")


class PatternRow(Row):
    id: f.RowName
    scope: Literal["competition", "kind"]
    competition: f.Slug | None = None
    task: f.Task | None = None
    size: f.SizeClass | None = None
    kind: Literal["model", "validation", "augmentation", "input", "loss", "post", "pitfall", "schedule"]
    statement: f.Sentences
    advice: f.JsonObject = Field(default_factory=dict)
    rule: f.Word | None = None

    @model_validator(mode="after")
    def _about_one_competition(self) -> PatternRow:
        if (self.scope == "competition") != (self.competition is not None):
            message = "is given exactly when scope is 'competition'"
            raise wrong_fields([FieldError("competition", message, self.competition)])
        return self


class ModelRow(Row):
    name: f.ModelName
    library: f.Word
    tasks: Annotated[list[f.Task], Field(min_length=1, max_length=40)]
    family: f.Word
    params_m: f.Amount = Field(description="millions of parameters; 0 for boosted trees")
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_sizes: Annotated[list[f.Small], Field(max_length=60)] = Field(default_factory=list)
    default_input_size: f.Small = Field(description="pixels a side, tokens or columns")
    pretrained: bool
    licence: f.Line = "unknown"
    licence_note: f.Sentences | None = None
    good_for: f.Sentences | None = None
    quality: dict[f.Word, f.Number] = Field(default_factory=dict)
    quality_score: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        description="0 to 100, comparable within a modality: docs/models.md"
    )
    config: Annotated[f.JsonObject, AfterValidator(check_model_config)] = Field(default_factory=dict)
    aliases: Annotated[list[f.ProductName], Field(max_length=100)] = Field(default_factory=list)
    device: Literal["gpu", "cpu", "both"] = "gpu"


class GpuRow(Row):
    slug: f.Slug
    name: f.ProductName
    kind: Literal["cuda", "mps", "cpu"]
    architecture: f.Word
    memory_gib: Annotated[float, Field(ge=0.1, le=1e5, allow_inf_nan=False)]
    usable_gib: Annotated[float, Field(ge=0.1, le=1e5, allow_inf_nan=False)]
    bandwidth_gb_s: Annotated[float, Field(ge=0.1, le=1e6, allow_inf_nan=False)]
    tflops: dict[f.Word, Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)]]
    compute_capability: Annotated[float, Field(ge=0.1, le=1000, allow_inf_nan=False)] | None = None
    aliases: Annotated[list[f.ProductName], Field(max_length=100)] = Field(default_factory=list)
    sm_count: f.Small | None = None
    l2_cache_mib: f.Amount | None = None
    tdp_w: Annotated[float, Field(ge=0.5, le=1e5, allow_inf_nan=False)] | None = None
    year: f.PastYear | None = None
    extra: f.JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _usable_is_part_of_all(self) -> GpuRow:
        if self.usable_gib > self.memory_gib:
            message = f"must not be more than memory_gib, {self.memory_gib:g}"
            raise wrong_fields([FieldError("usable_gib", message, self.usable_gib)])
        cores = self.extra.get("cores", 1)
        if type(cores) is not int or not 1 <= cores <= 4096:
            raise wrong_fields([FieldError("extra.cores", "must be a whole number from 1 to 4096", cores)])
        return self


class ClaimRow(Row):
    id: f.RowName
    gpu: f.Line | None = None
    vram_gib: f.Amount | None = None
    task: f.Line | None = None
    size: f.Line | None = None
    model: f.Line | None = None
    image_size: f.Pixels | None = None
    batch_min: f.Small | None = None
    batch_max: f.Small | None = None
    folds: f.Small | None = None
    epochs: f.Word | None = f.optional("as written: a number or a range such as 8-12")
    precision: f.Word | None = None
    quantity: f.Line
    value_min: f.Number | None = None
    value_max: f.Number | None = None
    unit: f.Word | None = None
    statement: f.Sentences | None = None


class StrategyRow(Row):
    id: f.RowName
    rule: Annotated[str, StringConstraints(pattern=r"^[A-Z]\d{2}$")]
    table: Literal[
        "batch_defaults", "model_by_budget", "time_management", "loader", "monitoring", "decision_matrix",
        "parallel", "domain_architectures", "review", "pitfalls", "precision", "batch_policy",
    ]  # fmt: skip
    key: f.JsonObject
    value: f.JsonObject
    statement: f.Sentences
    followed: bool
    why_not: f.Sentences | None = None

    @model_validator(mode="after")
    def _numbers_in_range(self) -> StrategyRow:
        row: dict[str, Any] = {"id": self.id, "rule": self.rule, "key": self.key, "value": self.value}
        wrong = {**_out_of_range("key", self.key), **_out_of_range("value", self.value), **unreadable(row)}
        if wrong:
            raise wrong_fields(
                FieldError(part, f"{name} {message}", row[part].get(name))
                for (part, name), message in wrong.items()
            )
        return self


_NUMBER = re.compile(
    r"percent|batch_size|epoch|folds|patience|num_workers|_gib|minutes|seconds|factor|_ratio|cores|_at_least"
    r"|_(?:min|max|from|to)$"
)
_NO_NUMBER = re.compile(r"^(?:batch_size_form|factors|print_)")
_WHOLE = re.compile(
    r"^(?:batch_size|folds|epochs|early_stopping_patience|image_size)(?:_(?:min|max|from|to))?$"
)
_UPPER = {"_min": "_max", "percent_from": "percent_to"}


def _out_of_range(part: str, values: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Numbers of a strategy that nobody can mean, told by what their fields are called."""
    wrong = {}
    for name, value in values.items():
        named = _NUMBER.search(name) and not _NO_NUMBER.match(name)
        number = isinstance(value, int | float)
        if isinstance(value, bool) or not (number or named):
            continue
        most = 100 if "percent" in name and not name.startswith("speedup") else 10**9
        if not number or not 0 <= value <= most:
            wrong[part, name] = f"must be a number from 0 to {most:,}"
        elif _WHOLE.match(name) and (value < 1 or value != int(value)):
            wrong[part, name] = "must be a whole number from 1"
    for end, other in _UPPER.items():
        for low in [name for name in values if name.endswith(end)]:
            high = low.removesuffix(end) + other
            if (
                high in values
                and not {(part, low), (part, high)} & wrong.keys()
                and values[low] > values[high]
            ):
                wrong[part, high] = f"must not be less than {low}"
    return wrong


class ProfileFigures(Row):
    id: f.RowName
    model: f.ModelName
    library: f.Word
    family: f.Word
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_size: f.Small
    precision: Literal["fp32", "amp"]
    checkpointing: bool
    fused_attention: bool
    channels_last: bool
    params_m: f.Amount
    fixed_mib: f.Amount
    per_sample_mib: f.Amount
    forward_gflops_per_sample: f.Amount
    torch_version: f.Word | None = None


class ProfileRow(ProfileFigures):
    profile: dict[str, Any]


ROW_MODELS: Mapping[str, type[Row]] = {
    "competitions": CompetitionRow,
    "solutions": SolutionRow,
    "patterns": PatternRow,
    "models": ModelRow,
    "profiles": ProfileRow,
    "gpus": GpuRow,
    "claims": ClaimRow,
    "strategies": StrategyRow,
}


BUILT: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "models": CatalogueModel.from_dict,
    "gpus": gpu_from_row,
    "solutions": Solution.from_row,
    "profiles": lambda row: Profile.from_dict(
        {key: row["profile"][key] for key in Profile.__slots__ if key in row["profile"]}
    ),
}
"""What plans are made with, from a row; raises whatever the row lacks."""


def fields_of(table: str) -> tuple[str, ...]:
    """The names a row of the table may carry."""
    return tuple(ROW_MODELS[table].model_fields)


def validate(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored, every column present; InvalidInput names each wrong field."""
    stored = checked(ROW_MODELS[table], dict(values), f"This cannot be a row of {table}").model_dump()
    if table == "competitions":
        stored["size"] = None if stored["n_train"] is None else size_of(stored["n_train"])
    if table == "solutions":
        stored["id"] = f"{stored['competition']}#{stored['rank']}"
    if table in BUILT:
        try:
            BUILT[table](stored)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidInput(f"This cannot be a row of {table}: {error}") from error
    return stored


class Signature(Request):
    """What a change says about itself; no table has columns of these names that people may write."""

    who: f.Text200 | None = f.optional(
        "Who changes it; a key's name goes first, without either it is `anonymous`."
    )
    why: f.LongReason | None = f.optional("Why, for the row's history.")


class ReadVersion(Signature):
    version: f.Version | None = f.optional("The version that was read: 409 when it is another by now.")


class RemovalQuery(FromText, ReadVersion):
    """The end of a row."""


class UndoRequest(Signature):
    """One change of a row, to be taken back."""

    entry: f.Version = Field(description="`id` of the change in the row's history.")


class _Written(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _no_blanks(cls, values: Any) -> Any:
        given = values.items() if isinstance(values, dict) else ()
        blank = [name for name, value in given if isinstance(value, str) and not value.strip()]
        if blank:
            message = "is blank; leave it out, or give null for not known"
            raise wrong_fields(FieldError(name, message, values[name]) for name in blank)
        return values


@cache
def addition_of(table: str) -> type[BaseModel]:
    """A new row as a person sends it."""
    bases = (_Written, Signature, ROW_MODELS[table])
    return create_model(f"New{singular(table)}", __base__=bases, __doc__="A row to add.")


@cache
def correction_of(table: str) -> type[BaseModel]:
    """Changes of a row: any of its fields. What fits together is checked with the rest of the row."""
    fields: dict[str, Any] = {
        name: (field.rebuild_annotation() | None, f.optional(field.description))
        for name, field in ROW_MODELS[table].model_fields.items()
    }
    name = f"{singular(table)}Correction"
    return create_model(name, __base__=(_Written, ReadVersion), __doc__="Fields to correct.", **fields)


def singular(table: str) -> str:
    """The name of one row of a table in the description of routes."""
    return {"strategies": "Strategy"}.get(table, table.removesuffix("s").capitalize())


def profile_id(profile: Profile) -> str:
    """`resnet50@224/amp`, with what is not usual behind it: `+checkpointing`, `+unfused`, `+nchw`."""
    unusual = "+checkpointing" if profile.checkpointing else ""
    unusual += "" if profile.fused_attention else "+unfused"
    unusual += "" if profile.channels_last else "+nchw"
    return f"{profile.model}@{profile.input_size}/{profile.precision}{unusual}"


_OF_PROFILE = (
    "model", "library", "input_kind", "input_size", "precision", "checkpointing", "fused_attention",
    "channels_last",
)  # fmt: skip


def profile_values(profile: Profile, source: str, grade: str) -> dict[str, Any]:
    """A profile as a row of its table: whole, and the figures it is listed by (MiB, GFLOP of one forward
    pass)."""
    mib = 2.0**20
    return validate(
        "profiles",
        {
            "id": profile_id(profile),
            **{name: getattr(profile, name) for name in _OF_PROFILE},
            "family": profile.family or "unknown",
            "params_m": profile.params / 1e6,
            "fixed_mib": min((point.fixed_bytes for point in profile.peak), default=0.0) / mib,
            "per_sample_mib": max((point.per_sample_bytes for point in profile.peak), default=0.0) / mib,
            "forward_gflops_per_sample": sum(w.flops_per_sample for w in profile.forward.values()) / 1e9,
            "torch_version": profile.torch_version or None,
            "profile": profile.as_dict() | {"extra": orjson.loads(orjson.dumps(dict(profile.extra)))},
            "source": source,
            "grade": grade,
        },
    )
