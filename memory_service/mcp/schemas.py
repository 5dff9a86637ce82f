"""How does a tool describe what it takes and gives? By the descriptions that HTTP checks by, in JSON Schema
that every client understands: one plain type a field, no references in what is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from memory_service.api.fields import Field
from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import OBJECTIVES, PRECISIONS, SIZES, TASK_ALIASES, TASKS

__all__ = ["given_by", "of_fields", "of_model", "takes"]

_ENUMS: Mapping[str, tuple[str, ...]] = {
    "task": (*TASKS, *TASK_ALIASES),
    "size": SIZES,
    "objective": OBJECTIVES,
    "precision": PRECISIONS,
    "optimizer": tuple(OPTIMIZERS),
}
"""Names that are the same in every question."""


def takes(properties: Mapping[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    """The schema of a tool's arguments: these and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def of_fields(fields: Mapping[str, Field], **enums: Iterable[str]) -> dict[str, Any]:
    """Properties of an HTTP question's fields. enums: names that are particular to this question."""
    found = {}
    for name, field in fields.items():
        shape = field.schema() | {"description": field.about.replace("`", "")}
        shape.pop("minLength", None)
        shape.pop("maxLength", None)
        names = enums.get(name, _ENUMS.get(name))
        if names is not None:
            shape["enum"] = list(names)
        if field.example is not None:
            shape["examples"] = [field.example]
        found[name] = shape
    return found


def of_model(model: type[BaseModel]) -> dict[str, Any]:
    """Properties of a body's model: null, which means "not said" there as well, is left out."""
    made = model.model_json_schema()
    return {name: _plain(name, shape) for name, shape in made["properties"].items()}


def given_by(answer: type[BaseModel]) -> dict[str, Any]:
    """The schema of what a tool gives."""
    made: dict[str, Any] = _untitled(answer.model_json_schema(mode="serialization"))
    return made


def _untitled(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {k: _untitled(v) for k, v in shape.items() if not (k == "title" and isinstance(v, str))}
    return [_untitled(item) for item in shape] if isinstance(shape, list) else shape


def _plain(name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    forms = [form for form in shape.get("anyOf", [shape]) if form.get("type") != "null"]
    found = {**forms[0], **{key: value for key, value in shape.items() if key not in ("anyOf", "title")}}
    found = {key: value for key, value in found.items() if key not in _UNSAID and value is not None}
    if name in _ENUMS:
        found["enum"] = list(_ENUMS[name])
    return found


_UNSAID = ("title", "pattern", "minLength", "maxLength")
"""Lengths and patterns are checked; an agent needs no token of them."""
