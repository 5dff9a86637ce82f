"""Calibrations: what one may hold, whoever made it. Known sections in their units, figures that can be.

A result posted from elsewhere is checked here before anything is written; so is each line of the benchmark
that runs on this host.
"""

import datetime as dt
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from memory_service.domain.calibration.calibration import Calibration, Measurement
from memory_service.domain.calibration.probes import can_be_missing, probe_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.fields import JsonObject, Line, Sentences, Slug, Word, optional
from memory_service.schemas.validation_errors import MOST_FOUND, checked, wrong_fields

SHORTEST_BUDGET_SECONDS, LONGEST_BUDGET_SECONDS, DEFAULT_BUDGET_SECONDS = 1.0, 3600.0, 60.0
"""Of a calibration."""

BudgetSeconds = Annotated[
    float, Field(ge=SHORTEST_BUDGET_SECONDS, le=LONGEST_BUDGET_SECONDS, allow_inf_nan=False)
]


class RegisterDevice(Request):
    """A device of this or another host."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=120)] = Field(
        description="What the device is to be called; `gpu=` takes it."
    )
    device: Annotated[str, StringConstraints(min_length=1, max_length=20)] | None = optional(
        "What its host calls it: `cuda:0`, `cpu`, `mps`. Left out: it is on another host."
    )
    calibrate: bool | None = optional("Whether to measure it now; true when not given.")
    budget_seconds: BudgetSeconds | None = optional(
        f"Time that the calibration may take; {DEFAULT_BUDGET_SECONDS:g} when not given."
    )
    force: bool | None = optional("Measure although others use it; the result is kept and not used.")


class RegisterDeviceForm(FromText, RegisterDevice):
    """The same as texts."""


MOST_BY_UNIT: Mapping[str, float] = {
    "ms": 1e7, "us": 1e9, "s": 1e5, "TFLOP/s": 1e5, "GB/s": 1e6, "GiB": 1e5, "images/s": 1e7, "ratio": 100.0,
    "MHz": 1e5, "C": 200.0,
}  # fmt: skip
"""Beyond any device for years to come: more is a mistake of unit."""

_WRONG = "This cannot be a calibration"
_MAY_BE_ZERO = ("GiB", "C")
_ROUNDING = 1e-6


def _measurable(value: float) -> float:
    if value and not LEAST_MEASURED <= abs(value) <= 1e12:
        raise ValueError(f"must be 0, or from {LEAST_MEASURED:g} to 1e12")
    return value


LEAST_MEASURED = 1e-9
"""In any unit of a section: quotients of smaller figures are none."""

Measured = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_measurable)]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0, le=1e9)]


class PostedMeasurement(Request):
    value: Measured
    unit: Literal["ms", "us", "s", "TFLOP/s", "GB/s", "GiB", "images/s", "ratio", "MHz", "C"]
    p20: Measured
    p80: Measured
    n: Annotated[int, Field(ge=1, le=10**7)]
    flagged: bool = False


class PostedFingerprint(Request):
    kind: Literal["cuda", "mps", "cpu"]
    name: Line
    uuid: Word
    memory_gib: Annotated[float, Field(ge=0.01, le=1e5, allow_inf_nan=False)]
    architecture: Word | None = None
    compute_capability: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] | None = None
    mig: Word | None = None
    power_limit_w: Annotated[float, Field(ge=1, le=1e5, allow_inf_nan=False)] | None = None
    driver: Word | None = None
    torch: Word | None = None
    cuda: Word | None = None
    cudnn: Word | None = None
    cores: Annotated[int, Field(ge=1, le=100_000)] | None = None
    host_cpu: Line | None = None


class Posted(Request):
    """A calibration as `memory-service calibrate --server` sends it: whole each time, also while it runs."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F-]{32,36}$")] = Field(
        description="UUID made by who measures; the same one again extends the calibration while it runs."
    )
    device: Slug | None = optional(
        "Name of the device; without it that of its fingerprint, or one made from its host."
    )
    fingerprint: PostedFingerprint = Field(description="Which device it is, and what drives it.")
    status: Literal["running", "done", "failed", "timed_out"]
    budget_seconds: BudgetSeconds
    sections: Annotated[dict[Slug, PostedMeasurement], Field(max_length=2_000)] = Field(
        default_factory=dict, description="Everything measured so far, by section."
    )
    missing: Annotated[dict[Slug, Line], Field(max_length=2_000)] = Field(
        default_factory=dict, description="Section -> why it could not be measured."
    )
    contended: bool = Field(False, description="Another process used the device: kept, never used.")
    why: Sentences | None = optional("Sentence for a status that is not `done`.")
    self_check: JsonObject | None = optional("Not kept: it is computed anew here.")
    progress: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    doing: Line | None = optional("What is being measured now.")
    seconds: Positive | None = optional("Taken so far.")
    started_at: Annotated[str, StringConstraints(max_length=40)] | None = optional(
        "UTC, ISO 8601; now when not given."
    )
    version: Word | None = optional("Of the program that measured.")
    word: Word | None = optional("What its own host calls the device: `cuda:0`, `cpu`.")
    host: Line | None = optional("Name of its host.")

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, given: Any) -> Any:
        if isinstance(given, dict):
            _few_unknown(given.get("sections"))
            return {k: v for k, v in given.items() if v is not None}
        return given


def _few_unknown(sections: Any) -> None:
    """Refuses sections of very many unknown fields before an error of each is made."""
    known = PostedMeasurement.model_fields.keys()
    each = sections.values() if isinstance(sections, dict) else ()
    count = sum(len(one.keys() - known) for one in each if isinstance(one, dict))
    if count > MOST_FOUND:
        raise wrong_fields([FieldError("sections", f"have {count:,} unknown fields")])


def posted_calibration(given: Posted | Mapping[str, Any], now: dt.datetime) -> tuple[Posted, Calibration]:
    """The calibration as sent, and as the domain has it (device "" when not said). InvalidInput names each
    wrong field."""
    posted = checked(Posted, given, _WRONG)
    kind = posted.fingerprint.kind
    wrong: list[FieldError] = []
    for name, sent in posted.sections.items():
        try:
            section_measurement(kind, name, sent.model_dump())
        except InvalidInput as refusal:
            wrong += refusal.errors
    wrong += [_unknown_section(name) for name in posted.missing if not can_be_missing(kind, name)]
    both = posted.sections.keys() & posted.missing.keys()
    wrong += [FieldError(f"missing.{name}", "is among the sections too") for name in sorted(both)]
    started, problem = _time(posted.started_at, now)
    wrong += problem
    if wrong:
        raise _refused(wrong)
    named = {"id": posted.id.lower(), "device": posted.device or "", "version": posted.version or ""}
    return posted, Calibration.from_dict(posted.model_dump() | named | {"started_at": started.isoformat()})


def section_measurement(kind: str, name: str, raw: Mapping[str, Any]) -> Measurement:
    """One measurement, when it can be one: a known section of this kind of device in its unit, finite figures
    over zero (memory and temperature may be zero) within reach, p20 <= value <= p80.

    InvalidInput otherwise.
    """
    probe = probe_of(kind, name)
    if probe is None:
        raise _refused([_unknown_section(name)])
    try:
        found = Measurement(**raw)
    except TypeError as error:
        raise _refused([FieldError(f"sections.{name}", f"is no measurement: {error}")]) from None
    at = f"sections.{name}"
    wrong: list[FieldError] = []
    if found.unit != probe.unit:
        wrong.append(FieldError(f"{at}.unit", f"must be {probe.unit!r}", found.unit, (probe.unit,)))
    least = 0.0 if probe.unit in _MAY_BE_ZERO else math.ulp(0.0)
    for field in ("value", "p20", "p80"):
        figure = getattr(found, field)
        if not isinstance(figure, int | float) or not math.isfinite(figure):
            wrong.append(FieldError(f"{at}.{field}", "must be a finite number", figure))
        elif not least <= figure <= MOST_BY_UNIT[probe.unit]:
            allowed = f"{'at least 0' if least == 0.0 else 'over 0'} and at most {MOST_BY_UNIT[probe.unit]:g}"
            wrong.append(FieldError(f"{at}.{field}", f"must be {allowed} {probe.unit}", figure))
    if not wrong and found.p20 > found.p80:
        wrong.append(FieldError(f"{at}.p20", "must not be over p80", found.p20))
    slack = _ROUNDING * abs(found.value) if not wrong else 0.0
    if not wrong and not found.p20 - slack <= found.value <= found.p80 + slack:
        wrong.append(FieldError(f"{at}.value", "must lie between p20 and p80", found.value))
    if found.n < 1:
        wrong.append(FieldError(f"{at}.n", "must be a whole number of at least 1", found.n))
    if wrong:
        raise _refused(wrong)
    return found


def _time(given: str | None, now: dt.datetime) -> tuple[dt.datetime, list[FieldError]]:
    """A clock that is ahead of ours does not make a result newer than now."""
    if given is None:
        return now, []
    try:
        moment = dt.datetime.fromisoformat(given)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return min(moment.astimezone(dt.UTC), now), []
    except (ValueError, OverflowError):
        return now, [FieldError("started_at", "must be a time in ISO 8601", given)]


def _unknown_section(name: str) -> FieldError:
    return FieldError(f"sections.{name}", "is no section that this kind of device has", name)


def _refused(errors: list[FieldError]) -> InvalidInput:
    detail = "; ".join(f"{e.field}: {e.message}" for e in errors[:3])
    return InvalidInput(f"{_WRONG}: {detail}", errors)
