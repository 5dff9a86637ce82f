"""What every request and every row has in common: strict fields and no others; and how a request is read
from texts alone."""

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory_service.domain.common.estimate import Grade
from memory_service.schemas.fields import Sentences

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


class Request(BaseModel):
    """Unknown fields are refused; a number is no text and no truth value; null means "not given"."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def explicit(self) -> dict[str, Any]:
        """What was given, without nulls and defaults."""
        return self.model_dump(exclude_none=True, exclude_unset=True)


class FromText(BaseModel):
    """A request whose values are all texts: a query string, a command line, a form."""

    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        fields = cls.model_fields
        return {
            name: read_as(kind_of(fields[name].annotation), value)
            if isinstance(value, str) and name in fields
            else value
            for name, value in given.items()
        }


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


def kind_of(annotation: Any) -> Any:
    """bool, int or float where a field is such; None for texts and all else."""
    if annotation in (bool, int, float):
        return annotation
    return next((kind for part in get_args(annotation) if (kind := kind_of(part)) is not None), None)


def read_as(kind: Any, text: str) -> Any:
    """The text as a value of its kind; as it is where it cannot be one, for the field to refuse."""
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind is int and _INTEGER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text):
        return float(text)
    return text
