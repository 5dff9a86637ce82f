"""Definition of a tool: name, description, input, output, scope, and the service it calls."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Literal

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as ListedTool

from memory_service.api.service import Service
from memory_service.domain.common.api_keys import allows
from memory_service.domain.monitoring.verdict import figures
from memory_service.error_document import problem_of
from memory_service.errors import Forbidden, MemoryServiceError, Unavailable

Scope = Literal["read", "tell", "edit"]


@dataclass(frozen=True, slots=True)
class Answer:
    """text: what an agent reads; data: the same by the tool's output schema."""

    text: str
    data: dict[str, Any]

    def as_result(self) -> CallToolResult:
        return CallToolResult(
            content=[TextContent(type="text", text=self.text)], structured_content=self.data
        )


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
    """The key's name, scopes (None: no key, everything allowed) and id."""

    name: str | None = None
    scopes: Collection[str] | None = None
    key_id: str | None = None

    def check(self, tool: str, scope: Scope) -> None:
        """Forbidden where the tool's HTTP sibling would be."""
        if self.scopes is not None and not allows(self.scopes, (scope,)):
            raise Forbidden(f"For {tool} a key needs the scope {scope}")


def caller_of(context: ServerRequestContext[Any, Any]) -> Caller:
    """Over HTTP from `api.security.auth_middleware`; over stdio without a key."""
    if context.request is None:
        return Caller()
    state = context.request.scope["state"]
    return Caller(state.get("key_name"), state.get("scopes"), state.get("key_id"))


Arguments = dict[str, Any]
Call = Callable[[Service, Arguments, Caller], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """`scope`: of the tool's HTTP sibling."""

    name: str
    title: str
    about: str
    scope: Scope
    takes: dict[str, Any]
    gives: dict[str, Any]
    hints: ToolAnnotations
    call: Call

    def listed(self) -> ListedTool:
        return ListedTool(
            name=self.name, title=self.title, description=self.about, input_schema=self.takes,
            output_schema=self.gives, annotations=self.hints,
        )  # fmt: skip


def spread(n: Mapping[str, Any], unit: str = "") -> str:
    """A figure with its central 80 % and its grade: `12.3 (10.2-14.1) GiB, estimated`."""
    text = f"{figures(n['value'])} ({figures(n['low'])}-{figures(n['high'])})"
    return f"{text}{f' {unit}' if unit else ''}, {n['grade']}"


def hints(*, reads: bool, repeats: bool) -> ToolAnnotations:
    """reads: nothing is written; repeats: the same call again changes nothing more."""
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=False, idempotent_hint=repeats, open_world_hint=False
    )


def threaded(call: Callable[[Service, Arguments, Caller], Answer]) -> Call:
    """A blocking call in a thread. An abandoned one still ends its one transaction."""

    @wraps(call)
    async def soon(service: Service, arguments: Arguments, caller: Caller) -> Answer:
        return await anyio.to_thread.run_sync(
            partial(call, service, arguments, caller), abandon_on_cancel=True
        )

    return soon
