"""Which values may a row of knowledge hold? One model per table, for seeds and for what people send alike.

Unknown fields, NaN and infinity, control characters, numbers beyond any real thing and words outside the
vocabulary are refused with `InvalidInput`; every error names its field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from memory_service.domain.common.estimate import Grade
from memory_service.domain.common.vocabulary import SIZES, parse_task, size_of
from memory_service.domain.cost.profile import Profile
from memory_service.errors import FieldError, InvalidInput, unknown_name

__all__ = [
    "ROW_MODELS",
    "clean_text",
    "fields_of",
    "pattern_in_words",
    "profile_id",
    "profile_values",
    "validate",
]

MAX_JSON_BYTES = 64_000
MAX_JSON_DEPTH = 8
_BREAK = re.compile(r"\s*[\n\r\t\x0b\x0c\x85\u2028\u2029]+\s*")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")


def clean_text(value: str) -> str:
    """The text, when it can be stored and shown: no control characters but tab and newline, no half
    characters."""
    if _UNPRINTABLE.search(value):
        raise ValueError("holds control characters or half of a surrogate pair")
    return value


def _in_one_line(value: str) -> str:
    """Names and titles stand in lines of plans that programs read: a break in one would begin another."""
    return _BREAK.sub(" ", value)


def _clean_json(value: Any) -> Any:
    _walk(value, 0)
    if len(json.dumps(value)) > MAX_JSON_BYTES:
        raise ValueError(f"is longer than {MAX_JSON_BYTES} bytes as JSON")
    return value


def _walk(value: Any, depth: int) -> None:
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, Mapping):
        for key, item in value.items():
            clean_text(str(key))
            _walk(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _walk(item, depth + 1)
    elif isinstance(value, str):
        clean_text(value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > 1e18:
            raise ValueError("holds a number that is not finite or beyond 10^18")
    else:
        raise ValueError(f"holds a {type(value).__name__}, which JSON has not")


def _size(value: str) -> str:
    if value not in SIZES:
        raise unknown_name("size", value, SIZES)
    return value


_PLAIN = AfterValidator(clean_text)
_ONE_LINE = AfterValidator(_in_one_line)

Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
RowName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/@+:-]*$", max_length=160)]
Word = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), _PLAIN, _ONE_LINE
]
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300), _PLAIN, _ONE_LINE
]
Sentences = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000), _PLAIN]
Description = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000_000), _PLAIN
]
Task = Annotated[str, AfterValidator(parse_task)]
SizeClass = Annotated[str, AfterValidator(_size)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Small = Annotated[int, Field(ge=1, le=10**9)]
Pixels = Annotated[int, Field(ge=1, le=100_000)]
Year = Annotated[int, Field(ge=1990, le=2100)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_clean_json)]


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    source: Sentences = Field("given by a user", description="where this is from")
    grade: Grade = Field("claimed", description="measured, estimated or claimed")

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, values: Any) -> Any:
        """An empty text where none is needed means "not known", as an empty cell of a table does."""
        if not isinstance(values, dict):
            return values
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {
            k: v for k, v in values.items() if not (k in optional and isinstance(v, str) and not v.strip())
        }


class CompetitionRow(Row):
    slug: Slug = Field(description="its name in links: letters, digits and . _ - only")
    title: Line = Field(description="its name for people")
    description: Description = Field(description="what is predicted, from what data, how it is judged")
    year: Year | None = Field(None, description="when it was held")
    task: Task | None = Field(None, description="a task or its alias")
    modality: Word | None = Field(None, description="image, text, tabular, audio ...: as the task says")
    metric: Line | None = Field(None, description="what predictions are judged by, e.g. log loss")
    metric_family: Word | None = Field(None, description="metrics like it, e.g. log-loss, auc, accuracy")
    metric_direction: Literal["max", "min"] | None = Field(None, description="max: more is better")
    n_train: Count | None = Field(None, description="training samples")
    n_test: Count | None = Field(None, description="samples to predict")
    n_classes: Small | None = Field(None, description="classes to tell apart")
    image_size: Pixels | None = Field(None, description="pixels a side")
    dataset_gb: Amount | None = Field(None, description="size of the data on disk")
    domain: Line | None = Field(None, description="field of the data, e.g. medicine, ecology")
    label_structure: Line | None = Field(None, description="e.g. single label, multi-label, mask")
    split: Literal["random", "group", "time", "stratified", "unknown"] | None = Field(
        None, description="how validation has to be split"
    )
    summary: Sentences | None = Field(None, description="what worked")
    pitfalls: Sentences | None = Field(None, description="what went wrong, and for whom")


class PatternRow(Row):
    id: RowName
    scope: Literal["competition", "kind"]
    competition: Slug | None = None
    task: Task | None = None
    size: SizeClass | None = None
    kind: Literal["model", "validation", "augmentation", "input", "loss", "post", "pitfall", "schedule"]
    statement: Sentences
    advice: JsonObject = Field(default_factory=dict)
    rule: Word | None = None


class ModelRow(Row):
    name: RowName
    library: Word
    tasks: Annotated[list[Task], Field(min_length=1, max_length=40)]
    family: Word
    params_m: Amount | None = None
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_sizes: Annotated[list[Small], Field(max_length=60)] = Field(default_factory=list)
    default_input_size: Small | None = None
    pretrained: bool
    licence: Line = "unknown"
    licence_note: Sentences | None = None
    good_for: Sentences | None = None
    quality: dict[Word, Number] = Field(default_factory=dict)
    quality_score: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    config: JsonObject = Field(default_factory=dict)
    aliases: Annotated[list[Line], Field(max_length=100)] = Field(default_factory=list)
    device: Literal["gpu", "cpu", "both"] = "gpu"


class GpuRow(Row):
    slug: Slug
    name: Line
    kind: Literal["cuda", "mps", "cpu"]
    architecture: Word
    memory_gib: Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
    usable_gib: Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
    bandwidth_gb_s: Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
    tflops: dict[Word, Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]]
    compute_capability: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = None
    aliases: Annotated[list[Line], Field(max_length=100)] = Field(default_factory=list)
    sm_count: Small | None = None
    l2_cache_mib: Amount | None = None
    tdp_w: Amount | None = None
    year: Year | None = None
    extra: JsonObject = Field(default_factory=dict)


class ClaimRow(Row):
    id: RowName
    gpu: Line | None = None
    vram_gib: Amount | None = None
    task: Line | None = None
    size: Line | None = None
    model: Line | None = None
    image_size: Pixels | None = None
    batch_min: Small | None = None
    batch_max: Small | None = None
    folds: Small | None = None
    epochs: Word | None = Field(None, description="as written: a number or a range such as 8-12")
    precision: Word | None = None
    quantity: Line
    value_min: Number | None = None
    value_max: Number | None = None
    unit: Word | None = None
    statement: Sentences | None = None


class StrategyRow(Row):
    id: RowName
    rule: Annotated[str, StringConstraints(pattern=r"^[A-Z]\d{2}$")]
    table: Literal[
        "batch_defaults",
        "model_by_budget",
        "time_management",
        "loader",
        "monitoring",
        "decision_matrix",
        "parallel",
        "domain_architectures",
        "review",
        "pitfalls",
        "precision",
        "batch_policy",
    ]
    key: JsonObject
    value: JsonObject
    statement: Sentences
    followed: bool
    why_not: Sentences | None = None


class ProfileRow(Row):
    id: RowName
    model: RowName
    library: Word
    family: Word
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_size: Small
    precision: Literal["fp32", "amp"]
    checkpointing: bool
    fused_attention: bool
    channels_last: bool
    params_m: Amount
    fixed_mib: Amount
    per_sample_mib: Amount
    forward_gflops_per_sample: Amount
    torch_version: Word | None = None
    profile: dict[str, Any]


ROW_MODELS: Mapping[str, type[Row]] = {
    "competitions": CompetitionRow,
    "patterns": PatternRow,
    "models": ModelRow,
    "profiles": ProfileRow,
    "gpus": GpuRow,
    "claims": ClaimRow,
    "strategies": StrategyRow,
}


def fields_of(table: str) -> tuple[str, ...]:
    """The names a row of the table may carry."""
    return tuple(ROW_MODELS[table].model_fields)


def validate(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored, every column present; InvalidInput names each wrong field."""
    try:
        row = ROW_MODELS[table].model_validate(dict(values))
    except ValidationError as error:
        problems = [_problem(table, dict(found)) for found in error.errors(include_url=False)]
        detail = "; ".join(f"{p.field}: {p.message}" for p in problems[:3])
        raise InvalidInput(f"This cannot be a row of {table}: {detail}", problems) from None
    stored = row.model_dump()
    if table == "competitions":
        stored["size"] = None if stored["n_train"] is None else size_of(stored["n_train"])
    if table == "patterns" and (stored["scope"] == "competition") != (stored["competition"] is not None):
        message = "is given exactly when scope is 'competition'"
        raise InvalidInput(
            f"competition {message}", [FieldError("competition", message, stored["competition"])]
        )
    return stored


def profile_id(profile: Profile) -> str:
    """`resnet50@224/amp`, with what is not usual behind it: `+checkpointing`, `+unfused`, `+nchw`."""
    unusual = ("+checkpointing" if profile.checkpointing else "") + (
        "" if profile.fused_attention else "+unfused"
    )
    unusual += "" if profile.channels_last else "+nchw"
    return f"{profile.model}@{profile.input_size}/{profile.precision}{unusual}"


def profile_values(profile: Profile, source: str, grade: str) -> dict[str, Any]:
    """A profile as a row of its table: whole, and the figures it is listed by (MiB, GFLOP of one forward
    pass)."""
    mib = 2.0**20
    return validate(
        "profiles",
        {
            "id": profile_id(profile),
            "model": profile.model,
            "library": profile.library,
            "family": profile.family or "unknown",
            "input_kind": profile.input_kind,
            "input_size": profile.input_size,
            "precision": profile.precision,
            "checkpointing": profile.checkpointing,
            "fused_attention": profile.fused_attention,
            "channels_last": profile.channels_last,
            "params_m": profile.params / 1e6,
            "fixed_mib": min((point.fixed_bytes for point in profile.peak), default=0.0) / mib,
            "per_sample_mib": max((point.per_sample_bytes for point in profile.peak), default=0.0) / mib,
            "forward_gflops_per_sample": sum(w.flops_per_sample for w in profile.forward.values()) / 1e9,
            "torch_version": profile.torch_version or None,
            "profile": profile.as_dict() | {"extra": _plain(dict(profile.extra))},
            "source": source,
            "grade": grade,
        },
    )


def _showable(value: Any) -> str:
    return str(value)[:80].encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """Tuples as lists: what JSON gives back."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) if isinstance(item, _NESTED) else item for item in value]
    return value


_NESTED = (dict, list, tuple)


def _problem(table: str, found: Mapping[str, Any]) -> FieldError:
    field = ".".join(str(part) for part in found["loc"])
    given = found.get("input")
    shown: Any = given if isinstance(given, bool | int | float) or given is None else _showable(given)
    if (isinstance(shown, float) and not math.isfinite(shown)) or (
        isinstance(shown, int) and abs(shown) > 1e18
    ):
        shown = str(shown)[:80]
    if found["type"] == "extra_forbidden":
        nearest = unknown_name("field", field, fields_of(table)).errors[0].nearest
        return FieldError(field, "unknown field", None, nearest)
    if found["type"] == "missing":
        return FieldError(field, "is required")
    if found["type"] == "string_pattern_mismatch":
        return FieldError(field, pattern_in_words(found["ctx"]["pattern"]), shown)
    return FieldError(field, str(found["msg"]).removeprefix("Value error, "), shown)


def pattern_in_words(pattern: str) -> str:
    """What `Slug` and `RowName` ask of a text, for who cannot read a pattern."""
    marks = pattern.removeprefix("^[A-Za-z0-9][A-Za-z0-9").removesuffix("]*$")
    return f"must be letters, digits and {' '.join(marks)} only, a letter or digit first"
