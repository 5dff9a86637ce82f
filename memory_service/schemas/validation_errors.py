"""Errors of pydantic as this service's refusals: the field's path, plain words, and the nearest names."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from memory_service.domain.common.tables import shipped_table
from memory_service.errors import FieldError, InvalidInput, unknown_name

MOST_ERRORS = 50
SHOWN_ERRORS = 5
MOST_FOUND = 1_000
"""Errors that are looked at: a list of each takes Python's lock for 3 µs, and 3 MB hold 400 000 of them."""
MOST_SHOWN = 200
"""Characters of what was given."""

Model = TypeVar("Model", bound=BaseModel)

_MESSAGES: Mapping[str, str] = shipped_table(__package__, "messages.toml")
_SHOULD = re.compile(r"^(Value error, )?((Input|String|List|Dictionary|Tuple|Value) should )?")
_QUOTED = re.compile(r"'([^']*)'")


def checked(model: type[Model], given: Any, wrong: str = "", at: str = "") -> Model:
    """The checked model; InvalidInput names every wrong field. wrong: how its sentence begins; at: the field
    that it lies in."""
    if isinstance(given, model):
        return given
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise refusal(found_errors(error), model, wrong, at) from None


def found_errors(error: ValidationError) -> Sequence[Mapping[str, Any]]:
    """What pydantic found, where that is not over `MOST_FOUND`; else one error that says how many."""
    count = error.error_count()
    if count <= MOST_FOUND:
        return error.errors(include_url=False)
    message = f"{count:,} values are wrong or unknown, which are too many to name: send a short part of it"
    return [{"type": "too_many_errors", "loc": (), "msg": message, "input": None}]


def refusal(found: Iterable[Mapping[str, Any]], model: Any, wrong: str = "", at: str = "") -> InvalidInput:
    """The refusal of what pydantic found wrong with a `model` (or a list of them); `at`: where that lies."""
    errors = [field_error(one, model, at) for one in list(found)[:MOST_ERRORS]]
    detail = "; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in errors[:SHOWN_ERRORS])
    return InvalidInput(f"{wrong}: {detail}" if wrong else detail, errors)


def field_error(found: Mapping[str, Any], model: Any, at: str = "") -> FieldError:
    """One error of pydantic's as this service shows it."""
    path, known = _path(found["loc"], model)
    field, kind, context = ".".join(part for part in (at, *path) if part), found["type"], found.get("ctx", {})
    if kind == "extra_forbidden":
        return FieldError(field, "unknown field", None, _nearest("field", path[-1], known))
    if kind == "missing":
        return FieldError(field, "is required")
    given, nearest = found.get("input"), tuple(context.get("nearest", ()))
    if isinstance(given, str):
        given = given[:MOST_SHOWN].encode("utf-8", "replace").decode()
    if kind == "literal_error" and isinstance(given, str):
        nearest = _nearest(field, given, _QUOTED.findall(context["expected"]))
    return FieldError(field, _message(kind, found, context), given, nearest)


def vocabulary(parse: Callable[[str], str]) -> AfterValidator:
    """Reads a name by a function of the domain; what that refuses is refused with the nearest names."""

    def read(given: str) -> str:
        try:
            return parse(given)
        except InvalidInput as refused:
            wrong = refused.errors[0]
            context = {"message": wrong.message, "nearest": wrong.nearest}
            raise PydanticCustomError("unknown_name", "{message}", context) from None

    return AfterValidator(read)


def wrong_fields(errors: Iterable[FieldError], before: ValidationError | None = None) -> ValidationError:
    """What a validator of a whole model raises, each error at its field, behind those found `before`."""
    again = [
        InitErrorDetails(
            type=PydanticCustomError(e["type"], e["msg"], e.get("ctx")), loc=e["loc"], input=e["input"]
        )
        for e in (found_errors(before) if before is not None else ())
    ]
    fresh = [
        InitErrorDetails(
            type=PydanticCustomError("wrong", "{message}", {"message": e.message, "nearest": e.nearest}),
            loc=(e.field,),
            input=e.given,
        )
        for e in errors
    ]
    return ValidationError.from_exception_data("question", [*again, *fresh])


def pattern_in_words(pattern: str) -> str:
    """What the pattern of a name asks of a text, for who cannot read a pattern."""
    if not pattern.startswith("^[A-Za-z0-9][A-Za-z0-9"):
        return "must be a UUID" if "a-fA-F" in pattern else f"must match {pattern}"
    marks = pattern.removeprefix("^[A-Za-z0-9][A-Za-z0-9").removesuffix("]*$")
    return f"must be letters, digits and {' '.join(marks)} only, a letter or digit first"


def _message(kind: str, found: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    if kind == "string_pattern_mismatch":
        return pattern_in_words(context["pattern"])
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(**context)
    message = str(found["msg"])
    plain = _SHOULD.sub("", message)
    return f"must {plain}" if "should" in message[: len(message) - len(plain)] else plain


def _nearest(kind: str, given: str, known: Sequence[str]) -> tuple[str, ...]:
    return unknown_name(kind, given, known, 0.6 if kind == "field" else 0.4).errors[0].nearest


def _path(place: Sequence[str | int], model: Any) -> tuple[list[str], tuple[str, ...]]:
    """(the parts of the path without pydantic's names of alternatives, the fields known where it ends)."""
    path: list[str] = []
    known: tuple[str, ...] = ()
    for part in place:
        models = _models(model)
        chosen = next((each for each in models if each.__name__ == part), None)
        if len(models) > 1 and chosen is not None:
            model = chosen
            continue
        path.append(str(part)[:80])
        if len(models) == 1 and isinstance(part, str):
            fields = models[0].model_fields
            known = tuple(fields)
            model = fields[part].annotation if part in fields else None
    return path or [""], known


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
