"""Definition of a tool: name, description, input, output, scope, and the service it calls.

What it takes is described by the models that HTTP checks by, in JSON Schema that every client understands:
one plain type a field, no references.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as ListedTool
from pydantic import BaseModel

from memory_service.api.describe import plain_form
from memory_service.api.security.loopback import server_url
from memory_service.api.service import Service
from memory_service.api.time_and_load_limits import HUNG_UP
from memory_service.domain.common.api_keys import allows, mode_limit
from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import PRECISIONS, SIZES, TASK_ALIASES, TASKS, Mode
from memory_service.domain.prediction.trust import reporter_of
from memory_service.error_document import problem_of
from memory_service.errors import Forbidden, MemoryServiceError, Unavailable, wrong_value
from memory_service.schemas.base import read_as
from memory_service.services.knowledge.asker import ASKER, CORRECTS, GONE, INSIDE, still_wanted
from memory_service.settings import Settings

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


Scope = Literal["read", "tell", "edit"]


@dataclass(frozen=True, slots=True)
class Answer:
    """text: what an agent reads; data: the same, and what a program needs beside it; after: what to do now,
    which stands in both, for clients show their model one of them."""

    text: str
    data: Mapping[str, Any]
    after: str = ""

    def as_result(self) -> CallToolResult:
        text = "\n".join(filter(None, (self.text.rstrip("\n"), self.after)))
        data = {**self.data, "next": self.after} if self.after else dict(self.data)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)


def refused_text(error: MemoryServiceError) -> str:
    """A refusal as an agent reads it: the code, the sentence, and a line for each field, with what was given
    and the nearest names."""
    problem = problem_of(error)
    lines = [f"{error.code}: {problem['detail']}"]
    for wrong in problem["errors"]:
        given = "" if wrong["given"] is None else f"; given: {wrong['given']!r}"
        near = f"; nearest: {', '.join(wrong['nearest'])}" if wrong["nearest"] else ""
        lines.append(f"- {wrong['field'] or 'arguments'}: {wrong['message']}{given}{near}")
    if isinstance(error, Unavailable):
        lines.append("Nothing of this call was kept; call again in a few seconds.")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Caller:
    """The key's name, scopes (None: no key, everything allowed) and id; the address that was asked, None
    over stdio."""

    name: str | None = None
    scopes: Collection[str] | None = None
    key_id: str | None = None
    address: str | None = None

    def check(self, tool: str, scope: Scope) -> None:
        """Forbidden where the tool's HTTP sibling would be."""
        if self.scopes is not None and not allows(self.scopes, (scope,)):
            raise Forbidden(f"For {tool} a key needs the scope {scope}")

    def limit(self, service: Service) -> Mode:
        """The most that it may use of memory of competitions."""
        return mode_limit(self.scopes or (), service.settings.mode_limit)


def caller_of(context: ServerRequestContext[Any, Any], settings: Settings) -> Caller:
    """Over HTTP from `api.security.auth_middleware`; over stdio without a key."""
    if context.request is None:
        return Caller()
    # The session's task may have been begun by another request.
    name = context.request.scope["state"].get("key_name")
    ASKER.set(None if name is None else reporter_of(name, None))
    CORRECTS.set(allows(context.request.scope["state"].get("scopes") or (), ("edit",)))
    INSIDE.set(context.request.scope["state"].get("inside") is True)
    GONE.set(context.request.scope.get(HUNG_UP))
    state, address = context.request.scope["state"], server_url(context.request.scope, settings)
    return Caller(state.get("key_name"), state.get("scopes"), state.get("key_id"), address)


Arguments = dict[str, Any]
Call = Callable[[Service, Arguments, Caller], Answer]


@dataclass(frozen=True, slots=True)
class Tool:
    """`scope`: of the tool's HTTP sibling; `model`: the request that arguments and `more` are fields of."""

    name: str
    title: str
    about: str
    scope: Scope
    takes: dict[str, Any]
    call: Call
    model: type[BaseModel] | None = None

    def listed(self) -> ListedTool:
        reads = self.scope == "read"
        hints = ToolAnnotations(
            read_only_hint=reads, destructive_hint=False, idempotent_hint=reads, open_world_hint=False
        )
        named = {"name": self.name, "title": self.title, "description": self.about}
        return ListedTool(**named, input_schema=self.takes, annotations=hints)

    async def answer(self, service: Service, arguments: Arguments, caller: Caller) -> Answer:
        """In a thread, if the caller has not hung up when its turn comes. An abandoned one still ends its
        transaction."""

        def begin() -> Answer:
            still_wanted()
            return self.call(service, dict(arguments), caller)

        return await anyio.to_thread.run_sync(begin, abandon_on_cancel=True)

    def fields(self, arguments: Arguments) -> Arguments:
        """The arguments with those of `more` beside them, quoted numbers as numbers. InvalidInput for a field
        that is given twice."""
        more = arguments.pop("more", None) or {} if self.model else {}
        if not isinstance(more, Mapping):
            raise wrong_value("more", "must be an object of fields", more)
        if twice := sorted(more.keys() & arguments.keys()):
            raise wrong_value(twice[0], "is given twice: as an argument and in more", more[twice[0]])
        known = takes(self.model)["properties"] if self.model else {}
        return unquoted({**arguments, **more}, {**known, **self.takes["properties"]})
