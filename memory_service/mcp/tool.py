"""Definition of a tool: name, description, input, output, scope, and the service it calls."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as ListedTool
from pydantic import BaseModel

from memory_service.api.security.loopback import server_url
from memory_service.api.service import Service
from memory_service.api.time_and_load_limits import HUNG_UP
from memory_service.domain.common.api_keys import allows, mode_limit
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.prediction.trust import reporter_of
from memory_service.error_document import problem_of
from memory_service.errors import Forbidden, MemoryServiceError, Unavailable, wrong_value
from memory_service.mcp.schemas import takes, unquoted
from memory_service.services.knowledge.asker import ASKER, CORRECTS, GONE, INSIDE, still_wanted
from memory_service.settings import Settings

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
