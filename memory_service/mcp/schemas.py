"""How a tool describes what it takes: by the models that HTTP checks by, in JSON Schema that every client
understands: one plain type a field, no references."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from memory_service.api.describe import plain_form
from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import PRECISIONS, SIZES, TASK_ALIASES, TASKS
from memory_service.schemas.base import read_as

_ENUMS: Mapping[str, tuple[str, ...]] = {
    "task": (*TASKS, *TASK_ALIASES),
    "size": SIZES,
    "precision": PRECISIONS,
    "optimizer": tuple(OPTIMIZERS),
}
"""Names that may be spelled in several ways: an agent is shown one of each."""

_UNSAID = ("pattern", "minLength", "maxLength", "maxItems")
"""Lengths and patterns are checked; an agent needs no token of them."""


def takes(
    model: type[BaseModel],
    shown: Sequence[str] | None = None,
    *,
    required: Iterable[str] | None = None,
    enums: Mapping[str, Iterable[str]] = MappingProxyType({}),
    **own: dict[str, Any],
) -> dict[str, Any]:
    """The schema of a tool's arguments: fields of a model, and the others of it by name in `more`.

    shown      the fields that have an argument of their own; None: all
    required   of them; None: what the model requires
    enums      names that are particular to this model; an empty one: any text
    own        further arguments
    """
    made = model.model_json_schema()
    parts, known = made.get("$defs", {}), {**_ENUMS, **enums}
    names = list(made["properties"]) if shown is None else list(shown)
    fields = {name: made["properties"][name] for name in names}
    properties = {n: _plain(_whole(shape, parts), known.get(n), parts) for n, shape in fields.items()} | own
    others = ", ".join(name for name in made["properties"] if name not in fields)
    if others and shown is not None:
        properties["more"] = {"type": "object", "description": f"Any other field: {others}."}
    needed = made.get("required", ()) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in needed if name in properties],
        "additionalProperties": False,
    }


def unquoted(arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with numbers that a model put in quotes as numbers where these properties want one."""
    return {
        name: read_as(_number_kind(properties.get(name, {})), value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _number_kind(shape: Mapping[str, Any]) -> type[int] | type[float] | None:
    """int or float where a property is a number and takes no free text."""
    forms = shape.get("anyOf", [shape])
    types = {form.get("type") for form in forms if "enum" not in form}
    if "string" in types:
        return None
    return float if "number" in types else int if "integer" in types else None


def _whole(shape: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field that is an object, with its members in place of the reference to them."""
    if "$ref" not in shape:
        return shape
    part = parts[shape["$ref"].rpartition("/")[2]]
    members = {name: _plain(member, None) for name, member in part["properties"].items()}
    about = shape.get("description") or part.get("description") or "what is known of it"
    needed = {"required": part["required"]} if part.get("required") else {}
    shape = {"type": "object", "properties": members, **needed, "additionalProperties": False}
    return {**shape, "description": about}


def _plain(
    shape: Mapping[str, Any], enum: Iterable[str] | None, parts: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    found = {key: value for key, value in plain_form(shape).items() if key not in _UNSAID}
    if "description" in found:
        found["description"] = found["description"].replace("`", "")
    if isinstance(found.get("items"), dict):
        found["items"] = _plain(_whole(found["items"], parts), None)
    return found | {"enum": list(enum)} if enum else found
