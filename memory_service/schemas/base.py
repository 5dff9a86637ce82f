"""What every request has in common: strict fields and no others; and how one is read from texts alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator

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
        kinds = {name: kind_of(field.annotation) for name, field in cls.model_fields.items()}
        return {
            name: _read(kinds.get(name), value) if isinstance(value, str) else value
            for name, value in given.items()
        }


def kind_of(annotation: Any) -> Any:
    """bool, int or float where a field is such; None for texts and all else."""
    if annotation in (bool, int, float):
        return annotation
    return next((kind for part in get_args(annotation) if (kind := kind_of(part)) is not None), None)


def _read(kind: Any, text: str) -> Any:
    """The text as a value of its kind; as it is where it cannot be one, for the field to refuse."""
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind is int and _INTEGER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text):
        return float(text)
    return text
