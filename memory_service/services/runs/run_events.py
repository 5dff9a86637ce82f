"""Which events may a run send, and in which form are they kept? Checked by compiled code: a microsecond each.

Names and meanings are those of `domain.monitoring.event`. A loss or metric that is not finite is legal and
kept:
JSON has no NaN, so it is the text "nan", "inf" or "-inf" (a literal NaN is taken for it). null is "not said".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

import orjson
import typing_extensions
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.services.runs.run_fields import Moment, utc_text
from memory_service.services.tables.row_models import clean_text

__all__ = [
    "EVENT_FIELDS",
    "MOST_EVENTS",
    "SERVER_SEQ",
    "NewEvent",
    "Told",
    "as_kept",
    "event_schema",
    "fitting",
    "parse_events",
]

NewEvent = tuple[int, str, str]
"""seq, kind, and the rest as canonical JSON text: equal events have equal texts."""

Told = tuple[int, str, dict[str, Any]]
"""seq, kind, and the rest."""

MOST_EVENTS = 5_000
"""Of one request: what a client that was offline for an hour sends in a few."""

MOST_SEQ = 2**53 - 1
SERVER_SEQ = 2**60
"""From here on count the events that this service reads from a log: no client can send such a seq."""

Seconds = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=101, allow_inf_nan=False)]
Gib = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Degrees = Annotated[float, Field(ge=-100, le=1000, allow_inf_nan=False)]
Ordinal = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Some = Annotated[int, Field(ge=1, le=10**9)]
NotANumber = Annotated[
    Literal[
        "nan", "inf", "-inf", "NaN", "Inf", "-Inf", "+inf", "Infinity", "-Infinity", "infinity", "-infinity",
        "NAN", "INF", "-INF", "+Inf", "+Infinity", "-nan", "-NaN",
    ],
    AfterValidator(lambda given: _wire(float(given))),
]  # fmt: skip
"""As Python, JavaScript, NumPy and C write it; kept as "nan", "inf" or "-inf"."""

Score = Union[Annotated[float, Field(allow_inf_nan=False)], NotANumber]  # noqa: UP007
Text = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(clean_text)]
Name = Annotated[str, StringConstraints(max_length=300), AfterValidator(clean_text)]

_MEMORY = {
    "allocated_gib": Gib,
    "peak_allocated_gib": Gib,
    "reserved_gib": Gib,
    "peak_reserved_gib": Gib,
    "used_gib": Gib,
    "process_gib": Gib,
    "memory_gib": Gib,
    "memory_percent": Percent,
}

_SETTINGS = {
    "batch_size": Some,
    "epochs": Ordinal,
    "folds": Ordinal,
    "learning_rate": Amount,
    "num_workers": Ordinal,
    "prefetch_factor": Ordinal,
    "cpu_count": Ordinal,
    "n_train": Count,
    "precision": Name,
    "grad_accumulation": Ordinal,
    "patience": Ordinal,
    "total_gib": Gib,
    "total_steps": Count,
    "gpu_name": Name,
    "steps_per_epoch": Count,
    "persistent_workers": bool,
}

_KINDS: dict[str, dict[str, Any]] = {
    "gpu": {
        "utilization_percent": Percent,
        "power_w": Amount,
        "temperature_c": Degrees,
        "clock_mhz": Amount,
        "throttled": bool,
        "other_processes": Ordinal,
        "cpu_percent": Percent,
        "host_gib": Gib,
        **_MEMORY,
    },
    "batch": {
        "fold": Ordinal,
        "epoch": Ordinal,
        "step": Count,
        "of": Count,
        "scope": Literal["epoch", "run"],
        "elapsed_seconds": Seconds,
        "steps": Count,
        "seconds": Seconds,
        "samples": Count,
        "loader_wait_percent": Percent,
        "loader_wait_seconds": Seconds,
        "train_loss": Score,
    },
    "epoch": {
        "fold": Ordinal,
        "epoch": Ordinal,
        "seconds": Seconds,
        "valid_seconds": Seconds,
        "samples": Count,
        "train_loss": Score,
        "valid_loss": Score,
        "metric": Score,
        "loader_wait_percent": Percent,
        "utilization_percent": Percent,
        **_MEMORY,
    },
    "fold": {
        "fold": Ordinal,
        "done": bool,
        "seconds": Seconds,
        "metric": Score,
        "best_epoch": Ordinal,
    },
    "note": {"text": Text, "out_of_memory": bool, "error": bool, "submission": bool},
}

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    kind: ("seq", "kind", "at", *fields, *(name for name in _SETTINGS if name not in fields))
    for kind, fields in _KINDS.items()
}
"""Kind -> the fields it may have; seq, kind and at are required."""


_TypedDict: Any = typing_extensions.TypedDict  # pydantic refuses that of typing before Python 3.12


def _shape(kind: str) -> Any:
    required = {"seq": Annotated[int, Field(ge=0, le=MOST_SEQ)], "kind": Literal[kind], "at": Moment}
    optional = {name: NotRequired[form | None] for name, form in {**_SETTINGS, **_KINDS[kind]}.items()}
    made = _TypedDict(f"{kind.capitalize()}Event", required | optional)
    made.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return made


_ONE: Any = Union[tuple(_shape(kind) for kind in _KINDS)]  # noqa: UP007
_EVENTS: TypeAdapter[Any] = TypeAdapter(list[Annotated[_ONE, Discriminator("kind")]])


def event_schema() -> dict[str, Any]:
    """JSON Schema of the list of events, without references."""
    made = _EVENTS.json_schema()
    kinds = [made["$defs"][one["$ref"].rpartition("/")[2]] for one in made["items"]["oneOf"]]
    return {"type": "array", "items": {"oneOf": kinds}, "maxItems": MOST_EVENTS}


def parse_events(body: Mapping[str, Any]) -> list[Told]:
    """The events of a request's body `{"events": [...]}`, in their order; InvalidInput names the index and
    the field of what is wrong, and then none of them may be kept."""
    unknown = [name for name in body if name != "events"]
    given = body.get("events")
    if unknown or not isinstance(given, list):
        errors = [FieldError(name, "unknown field", None, ("events",)) for name in unknown]
        if not isinstance(given, list):
            errors.append(FieldError("events", "must be a list of events"))
        raise InvalidInput("The body must be an object with a list `events`", errors)
    if len(given) > MOST_EVENTS:
        message = f"must hold at most {MOST_EVENTS} events"
        raise InvalidInput(f"events {message}, not {len(given)}", [FieldError("events", message, len(given))])
    told = list(map(_plain, given))
    if None not in told:
        return told  # type: ignore[return-value]
    try:
        events = _EVENTS.validate_python(given)
    except ValidationError as error:
        raise _refusal(error, given) from None
    return [_told(event) for event in events]


def _plain(event: Any) -> Told | None:
    """An event of possible numbers only, as most are, as `_EVENTS` and `_told` give it, in half the time;
    None for any other."""
    if event.__class__ is not dict:
        return None
    fields: dict[str, Any] = event.copy()
    seq, kind, at = fields.pop("seq", None), fields.pop("kind", None), fields.pop("at", None)
    bounds = _BOUNDS.get(kind) if kind.__class__ is str else None
    if bounds is None or seq.__class__ is not int or not 0 <= seq <= MOST_SEQ:
        return None
    for name, value in fields.items():
        bound = bounds.get(name)
        if bound is None:
            return None
        number, low, high = bound
        sort = value.__class__
        if sort is int and number is float and low <= value <= high:
            fields[name] = float(value)
        elif sort is not number or not low <= value <= high:
            return None
    if at.__class__ is not str or not 8 <= len(at) <= 40:
        return None
    try:
        fields["at"] = utc_text(at)
    except ValueError:
        return None
    return seq, kind, fields


def _bounds(form: Any) -> tuple[type, float, float] | None:
    """(type, least, most) of the numbers of a form, of the first of several; None = not a number."""
    while get_origin(form) is Union:
        form = get_args(form)[0]
    number, *rest = get_args(form) if get_origin(form) is Annotated else (form,)
    if number not in (int, float):
        return None
    low, high = -sys.float_info.max, sys.float_info.max
    for limit in (each for one in rest if isinstance(one, FieldInfo) for each in one.metadata):
        low, high = getattr(limit, "ge", low), getattr(limit, "le", high)
    return number, low, high


_BOUNDS: dict[str, dict[str, tuple[type, float, float]]] = {
    kind: {
        name: bound for name, form in {**_SETTINGS, **forms}.items() if (bound := _bounds(form)) is not None
    }
    for kind, forms in _KINDS.items()
}


def fitting(seq: int, kind: str, at: str, fields: Mapping[str, Any]) -> Told:
    """An event that a line of a log gave, as if a client had sent it: what no client may send is left out."""
    event = {name: _wire(value) for name, value in fields.items() if value is not None}
    event = {name: value for name, value in event.items() if name in EVENT_FIELDS[kind]}
    for _ in range(2):
        try:
            (fits,) = _EVENTS.validate_python([{**event, "seq": 0, "kind": kind, "at": at}])
        except ValidationError as error:
            wrong = {
                str(found["loc"][2]) for found in error.errors(include_url=False) if len(found["loc"]) > 2
            }
            event = {name: value for name, value in event.items() if name not in wrong}
        else:
            _, _, rest = _told(fits)
            return seq, kind, rest
    return seq, kind, {"at": at}


def as_kept(told: Told) -> NewEvent:
    """The form in which it is stored."""
    seq, kind, fields = told
    return seq, kind, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def _told(event: dict[str, Any]) -> Told:
    seq, kind = event.pop("seq"), event.pop("kind")
    if None in event.values():
        event = {name: value for name, value in event.items() if value is not None}
    return seq, kind, event


def _wire(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def _refusal(error: ValidationError, given: list[Any]) -> InvalidInput:
    problems = _merged(_problem(dict(found), given) for found in error.errors(include_url=False)[:100])
    shown = "; ".join(f"{p.field}: {p.message}" for p in problems[:3])
    return InvalidInput(f"Nothing of this was kept: {shown}", problems)


def _problem(found: Mapping[str, Any], given: list[Any]) -> FieldError:
    index, *rest = found["loc"]
    event = given[index]
    kind = event.get("kind") if isinstance(event, Mapping) else None
    if found["type"].startswith("union_tag"):
        near = unknown_name("kind", str(kind), tuple(_KINDS)).errors[0].nearest
        return FieldError(f"events.{index}.kind", f"must be one of {', '.join(_KINDS)}", kind, near)
    if len(rest) < 2:
        return FieldError(f"events.{index}", "must be an object", found.get("input"))
    name = str(rest[1])
    where = f"events.{index}.{name}"
    if found["type"] == "extra_forbidden":
        near = unknown_name("field", name, EVENT_FIELDS[str(kind)]).errors[0].nearest
        return FieldError(where, f"is no field of a {kind} event", None, near)
    if found["type"] == "missing":
        return FieldError(where, "is required")
    message = str(found["msg"]).removeprefix("Value error, ")
    if len(rest) > 2:
        message = 'must be a finite number, or the text "nan", "inf" or "-inf"'
    return FieldError(where, message, found.get("input"))


def _merged(problems: Iterable[FieldError]) -> list[FieldError]:
    """One a field: each alternative of a union complains for itself."""
    return list({problem.field: problem for problem in problems}.values())
