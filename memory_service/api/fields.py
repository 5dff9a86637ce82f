"""Which fields does a route take, in which form? One description for OpenAPI and for the check at the door.

What a value means (names, aliases, what fits together) is the services' business; here only its form is
checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.errors import FieldError, InvalidInput, unknown_name

__all__ = ["Field", "body_schema", "checked_body", "checked_query", "parameters"]

LONGEST_IN_QUERY = 5_000
"""Characters of a text in a query string, where each may take twelve bytes; longer ones go into a body."""

Kind = Literal["text", "names", "integer", "number", "boolean"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a question. `low` and `high` are inclusive unless `above` (then low is exclusive)."""

    name: str
    kind: Kind
    about: str
    low: float | None = None
    high: float | None = None
    above: bool = False
    longest: int | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    default: Any = None
    example: Any = None

    def schema(self) -> dict[str, Any]:
        """JSON Schema of one value."""
        out: dict[str, Any] = {"type": {"text": "string", "names": "string"}.get(self.kind, self.kind)}
        if self.kind in ("text", "names"):
            out["minLength"] = 1
            if self.longest:
                out["maxLength"] = self.longest
        if self.choices:
            out["enum"] = list(self.choices)
        if self.low is not None:
            out["exclusiveMinimum" if self.above else "minimum"] = self.low
        if self.high is not None:
            out["maximum"] = self.high
        if self.default is not None:
            out["default"] = self.default
        return out

    def parameter(self) -> dict[str, Any]:
        """OpenAPI's description as a query parameter."""
        shape = self.schema()
        if shape.get("maxLength", 0) > LONGEST_IN_QUERY:
            shape["maxLength"] = LONGEST_IN_QUERY
        out = {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.about,
            "schema": shape,
        }
        return out if self.example is None else out | {"example": self.example}

    def in_body(self) -> dict[str, Any]:
        """JSON Schema as a member of a JSON body, where null means "not said"."""
        forms: list[dict[str, Any]] = [self.schema()]
        if self.kind == "names":
            word = {"type": "string", "minLength": 1, "maxLength": 200}
            forms.append({"type": "array", "items": word, "minItems": 1, "maxItems": 16})
        if not self.required:
            forms.append({"type": "null"})
        shape = forms[0] if len(forms) == 1 else {"anyOf": forms}
        return shape | {"description": self.about}


def parameters(fields: Iterable[Field]) -> list[dict[str, Any]]:
    """`parameters` of an OpenAPI operation."""
    return [field.parameter() for field in fields]


def body_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """JSON Schema of an object of these fields and no other."""
    listed = list(fields)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [field.name for field in listed if field.required],
        "properties": {field.name: field.in_body() for field in listed},
    }


def checked_query(fields: Mapping[str, Field], given: Mapping[str, str]) -> dict[str, str]:
    """The query as given, when each field is known and has the form of its kind; InvalidInput names all
    that do not."""
    errors = [_unknown(fields, name) for name in given if name not in fields]
    errors += [e for name, text in given.items() if name in fields and (e := _wrong_text(fields[name], text))]
    return dict(given) if not errors else _refuse(errors)


def checked_body(fields: Mapping[str, Field], given: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """The body without its nulls, when each field is known and has the JSON type of its kind, and none that
    is required is missing."""
    errors = [_unknown(fields, name) for name in given if name not in fields]
    errors += [
        e
        for name, value in given.items()
        if name in fields and value is not None and (e := _wrong_value(fields[name], value))
    ]
    errors += [
        FieldError(name, "is needed")
        for name, field in fields.items()
        if field.required and given.get(name) is None
    ]
    if errors:
        _refuse([FieldError(f"{at}{e.field}", e.message, e.given, e.nearest) for e in errors])
    return {name: value for name, value in given.items() if value is not None}


def _refuse(errors: list[FieldError]) -> Any:
    raise InvalidInput("; ".join(f"{e.field}: {e.message}" for e in errors[:5]), errors)


def _unknown(fields: Mapping[str, Field], name: str) -> FieldError:
    nearest = unknown_name("field", name, tuple(fields)).errors[0].nearest
    return FieldError(name, "unknown field", None, nearest)


def _wrong_text(field: Field, text: str) -> FieldError | None:
    if field.kind == "integer" and not _INTEGER.fullmatch(text):
        return FieldError(field.name, "must be a whole number", text)
    if field.kind == "number" and not _NUMBER.fullmatch(text):
        return FieldError(field.name, "must be a finite number", text)
    if field.kind in ("integer", "number"):
        return _out_of_range(field, float(text), text)
    if field.kind == "boolean" and text not in ("true", "false"):
        return FieldError(field.name, "must be true or false", text, ("true", "false"))
    return _wrong_word(field, text, LONGEST_IN_QUERY)


def _wrong_value(field: Field, value: Any) -> FieldError | None:
    if field.kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return FieldError(field.name, "must be a number", value)
        if field.kind == "integer" and (not math.isfinite(value) or value != int(value)):
            return FieldError(field.name, "must be a whole number", value)
        return _out_of_range(field, value, value)
    if field.kind == "boolean":
        return None if isinstance(value, bool) else FieldError(field.name, "must be true or false", value)
    if field.kind == "names" and isinstance(value, list):
        if not 1 <= len(value) <= 16 or not all(isinstance(v, str) and 1 <= len(v) <= 200 for v in value):
            return FieldError(field.name, "must be 1 to 16 names", value)
        return None
    if not isinstance(value, str):
        return FieldError(field.name, "must be text", value)
    if value == "":
        return FieldError(field.name, "is empty; leave it out or give a value", value)
    return _wrong_word(field, value)


def _wrong_word(field: Field, text: str, longest: int | None = None) -> FieldError | None:
    if field.choices and text not in field.choices:
        nearest = unknown_name(field.name, text, field.choices).errors[0].nearest
        return FieldError(field.name, f"unknown {field.name}", text, nearest or field.choices)
    most = min(field.longest or len(text), longest or len(text))
    if len(text) > most:
        elsewhere = " here; POST takes longer ones" if most == longest else ""
        return FieldError(field.name, f"must be at most {most} characters{elsewhere}", text)
    return None


def _out_of_range(field: Field, value: float, given: Any) -> FieldError | None:
    low_ok = field.low is None or (value > field.low if field.above else value >= field.low)
    high_ok = field.high is None or value <= field.high
    if math.isfinite(value) and low_ok and high_ok:
        return None
    low = "" if field.low is None else f"{'over' if field.above else 'at least'} {field.low:.15g}"
    high = "" if field.high is None else f"at most {field.high:.15g}"
    return FieldError(field.name, "must be " + " and ".join(part for part in (low, high) if part), given)
