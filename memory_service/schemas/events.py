"""The events that a run may send, checked by compiled code (a microsecond each), and their stored form.

Names and bounds are those of `domain.monitoring.event`. A loss or metric that is not finite is legal:
JSON has no NaN, so it is the text "nan", "inf" or "-inf" (a literal NaN is taken for it). null is "not
given".
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, NotRequired, Union

import orjson
import typing_extensions
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from memory_service.domain.monitoring.event import KIND_FIELDS, SETTING_FIELDS, FieldForm
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.fields import Moment, clean_text, optional
from memory_service.schemas.lists import FileFormat
from memory_service.schemas.validation_errors import field_error

ReportedEvent = tuple[int, str, dict[str, Any]]
"""seq, kind, and the rest."""

StoredEvent = tuple[int, str, str]
"""The same with the rest as canonical JSON text: equal events have equal texts."""

MOST_EVENTS = 5_000
"""Of one request: what a client that was offline for an hour sends in a few."""

MOST_PROBLEMS = 50
MOST_SEQ = 2**53 - 1

NotANumber = Annotated[
    Literal[
        "nan", "inf", "-inf", "NaN", "Inf", "-Inf", "+inf", "Infinity", "-Infinity", "infinity", "-infinity",
        "NAN", "INF", "-INF", "+Inf", "+Infinity", "-nan", "-NaN",
    ],
    AfterValidator(lambda given: as_json_value(float(given))),
]  # fmt: skip
"""As Python, JavaScript, NumPy and C write it; kept as "nan", "inf" or "-inf"."""

Score = Union[Annotated[float, Field(allow_inf_nan=False)], NotANumber]  # noqa: UP007
EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    kind: ("seq", "kind", "at", *fields, *(name for name in SETTING_FIELDS if name not in fields))
    for kind, fields in KIND_FIELDS.items()
}
"""Kind -> the fields it may have; seq, kind and at are required."""


def _type(form: FieldForm) -> Any:
    match form.sort:
        case "number":
            return Annotated[float, Field(ge=form.low, le=form.high, allow_inf_nan=False)]
        case "whole":
            return Annotated[int, Field(ge=form.low, le=form.high)]
        case "text":
            return Annotated[str, StringConstraints(max_length=int(form.high)), AfterValidator(clean_text)]
    return {"score": Score, "flag": bool, "scope": Literal["epoch", "run"]}[form.sort]


class EventsQuery(FromText, Request):
    """Which events of a run, as which file."""

    kind: Literal[tuple(KIND_FIELDS)] | None = optional("Only events of this kind.")  # type: ignore[valid-type]
    format: FileFormat = Field("jsonl", description="As which file.")


_TypedDict: Any = typing_extensions.TypedDict  # pydantic refuses that of typing before Python 3.12


def _shape(kind: str) -> Any:
    required = {"seq": Annotated[int, Field(ge=0, le=MOST_SEQ)], "kind": Literal[kind], "at": Moment}
    forms = {**SETTING_FIELDS, **KIND_FIELDS[kind]}
    optional = {name: NotRequired[_type(form) | None] for name, form in forms.items()}
    made = _TypedDict(f"{kind.capitalize()}Event", required | optional)
    made.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return made


_ONE: Any = Union[tuple(_shape(kind) for kind in KIND_FIELDS)]  # noqa: UP007
_EVENTS: TypeAdapter[Any] = TypeAdapter(Annotated[list[Annotated[_ONE, Discriminator("kind")]], FailFast()])


def event_schema() -> dict[str, Any]:
    """JSON Schema of the list of events, without references."""
    made = _EVENTS.json_schema()
    kinds = [made["$defs"][one["$ref"].rpartition("/")[2]] for one in made["items"]["oneOf"]]
    return {"type": "array", "items": {"oneOf": kinds}, "maxItems": MOST_EVENTS}


def parse_events(body: Mapping[str, Any]) -> list[ReportedEvent]:
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
    try:
        return list(map(_split, _EVENTS.validate_python(given)))
    except ValidationError as error:
        first = int(error.errors(include_url=False, include_input=False)[0]["loc"][0])
    problems: list[FieldError] = []
    for index, event in enumerate(given[first:], first):
        try:
            _EVENTS.validate_python([event])
        except ValidationError as error:
            found = error.errors(include_url=False)[:100]
            problems += _merged(_problem(dict(one), index, event) for one in found)
            if len(problems) >= MOST_PROBLEMS:
                break
    shown = "; ".join(f"{p.field}: {p.message}" for p in problems[:3])
    raise InvalidInput(f"Nothing of this was kept: {shown}", problems[:MOST_PROBLEMS])


def fitting(seq: int, kind: str, at: str, fields: Mapping[str, Any]) -> ReportedEvent:
    """An event that a line of a log gave, as if a client had sent it: what no client may send is left out."""
    event = {name: as_json_value(value) for name, value in fields.items() if value is not None}
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
            _, _, rest = _split(fits)
            return seq, kind, rest
    return seq, kind, {"at": at}


def as_stored(event: ReportedEvent) -> StoredEvent:
    """The form in which it is stored."""
    seq, kind, fields = event
    return seq, kind, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def _split(event: dict[str, Any]) -> ReportedEvent:
    seq, kind = event.pop("seq"), event.pop("kind")
    if None in event.values():
        event = {name: value for name, value in event.items() if value is not None}
    return seq, kind, event


def as_json_value(value: Any) -> Any:
    """The value as JSON can say it: a number that is not finite as text."""
    if isinstance(value, float) and not isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def _problem(found: Mapping[str, Any], index: int, event: Any) -> FieldError:
    rest = found["loc"][1:]
    kind = event.get("kind") if isinstance(event, Mapping) else None
    if found["type"].startswith("union_tag"):
        near = unknown_name("kind", str(kind), tuple(KIND_FIELDS)).errors[0].nearest
        return FieldError(f"events.{index}.kind", f"must be one of {', '.join(KIND_FIELDS)}", kind, near)
    if len(rest) < 2:
        return FieldError(f"events.{index}", "must be an object", found.get("input"))
    name = str(rest[1])
    where = f"events.{index}.{name}"
    if found["type"] == "extra_forbidden":
        near = unknown_name("field", name, EVENT_FIELDS[str(kind)]).errors[0].nearest
        return FieldError(where, f"is no field of a {kind} event", None, near)
    if len(rest) > 2:
        message = 'must be a finite number, or the text "nan", "inf" or "-inf"'
        return FieldError(where, message, found.get("input"))
    return field_error({**found, "loc": ()}, None, where)


def _merged(problems: Iterable[FieldError]) -> list[FieldError]:
    """One a field: each alternative of a union complains for itself."""
    return list({problem.field: problem for problem in problems}.values())
