"""The MCP server: tools, resources and the prompt, over any transport.

The low-level server of the SDK: what a tool takes is described and checked by the very fields that HTTP
describes and checks, so that both refuse the same things in the same words.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as wire
import orjson
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from memory_service import __version__
from memory_service.api.error_handlers import failures
from memory_service.api.request_body import check_texts
from memory_service.api.service import Service
from memory_service.domain.common.quoted_text import as_markdown, one_line, quoted
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import MODES, OBJECTIVES, PRECISIONS, TASK_ALIASES, TASKS
from memory_service.domain.monitoring.verdict import ACTIONS
from memory_service.errors import MemoryServiceError, NotFound, unknown_name
from memory_service.mcp import tools
from memory_service.mcp.tool import Tool, caller_of, refused_text
from memory_service.schemas.events import EVENT_FIELDS
from memory_service.schemas.runs import STATUSES
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.tables.table_rows import get_row
from memory_service.settings import Settings

_MARKDOWN, _JSON = "text/markdown", "application/json"
_TABLES_AT, _ROW = "memory://strategies/", "memory://strategy/"

_ALL = shipped_table(__package__, "tools.toml")
_WORDS, _PROMPT = _ALL["resources"], _ALL["prompt"]
_TABLES: Mapping[str, str] = _WORDS["tables"]
_ABOUT_TABLE = "The strategy table {}, row by row."

TEMPLATE = wire.ResourceTemplate(
    uri_template=_ROW + "{id}", name="strategy", mime_type=_JSON, **_WORDS["strategy"]
)


async def read(service: Service, uri: str) -> wire.ReadResourceResult:
    """The text of a resource. MCPError (invalid params) for an unknown one."""
    kind = _JSON if uri.startswith(_ROW) else _MARKDOWN
    text = await anyio.to_thread.run_sync(_text, service, uri, abandon_on_cancel=True)
    return wire.ReadResourceResult(contents=[wire.TextResourceContents(uri=uri, mime_type=kind, text=text)])


def _text(service: Service, uri: str) -> str:
    database = service.preparation.require_knowledge()
    if uri in _PAGES:
        return _PAGES[uri][1](knowledge_of(database))
    if not uri.startswith(_ROW):
        raise _unknown(uri)
    try:
        with database.read() as unit:
            row = get_row(unit, "strategies", uri.removeprefix(_ROW))
    except NotFound:
        raise _unknown(uri) from None
    return orjson.dumps(row, option=orjson.OPT_INDENT_2).decode()


def _unknown(uri: str) -> MCPError:
    known = ", ".join((*list(_PAGES)[:3], _ROW + "{id}"))
    message = f"There is no resource {uri[:200]!r}; there are {known} ..."
    return MCPError(wire.INVALID_PARAMS, message, {"uri": uri[:200]})


def _table(table: str, knowledge: Knowledge) -> str:
    lines = [_line(row) for row in knowledge.strategies if row["table"] == table]
    end = f"Each with its numbers and source: {_ROW}{{id}}\n"
    return "\n".join([f"# {_TABLES[table]}", "", *lines, "", end])


def _rules(knowledge: Knowledge) -> str:
    lines = ["# Rules"]
    rule = None
    for row in sorted(knowledge.strategies, key=lambda row: (row["rule"], row["id"])):
        if row["rule"] != rule:
            rule = row["rule"]
            lines += ["", f"## {rule}"]
        lines.append(_line(row))
    return "\n".join(lines) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    unused = "" if row["followed"] else f" (plans do not follow this: {one_line(row['why_not'])})"
    who = "written here" if row.get("origin") == "user" or row.get("corrected") else "shipped"
    return f"- `{row['id']}` [{row['grade']}, {who}] {as_markdown(quoted(row['statement']))}{unused}"


def _vocabulary(knowledge: Knowledge) -> str:
    aliases = ", ".join(f"{alias} = {task}" for alias, task in TASK_ALIASES.items())
    cards = ", ".join(f"{card.key} ({card.memory_gib:g} GiB)" for card in knowledge.gpus.values())
    parts = {
        "task": f"{', '.join(TASKS)}. Aliases: {aliases}",
        "gpu": cards,
        "precision": ", ".join(PRECISIONS),
        "objective": ", ".join(OBJECTIVES),
        "mode": ", ".join(MODES),
        "actions of a verdict": ", ".join(ACTIONS),
        "kinds of events": ", ".join(EVENT_FIELDS),
        "how a run ends": ", ".join(STATUSES),
    }
    more = _WORDS["words"]
    lines = [f"- **{name}**: {parts.get(name, '')}{more.get(name, '')}." for name in {**parts, **more}]
    return "\n".join(["# Vocabulary", "", *lines]) + "\n"


_PAGES: Mapping[str, tuple[dict[str, str], Callable[[Knowledge], str]]] = {
    "memory://rules": (_WORDS["rules"], _rules),
    "memory://vocabulary": (_WORDS["vocabulary"], _vocabulary),
    **{
        _TABLES_AT + name: (
            {"title": title, "description": _ABOUT_TABLE.format(name)}, partial(_table, name)
        )
        for name, title in _TABLES.items()
    },
}  # fmt: skip
"""Address -> title and description, what writes it."""

RESOURCES = tuple(
    wire.Resource(uri=uri, name=uri[len("memory://") :].replace("/", "-"), mime_type=_MARKDOWN, **words)
    for uri, (words, _) in _PAGES.items()
)


_NAME = "train_within_budget"
_REQUIRED, _ARGUMENTS = _PROMPT["required"], {**_PROMPT["required"], **_PROMPT["optional"]}

PROMPT = wire.Prompt(
    name=_NAME,
    title=_PROMPT["title"],
    description=_PROMPT["description"],
    arguments=[
        wire.PromptArgument(name=name, description=about, required=name in _REQUIRED)
        for name, about in _ARGUMENTS.items()
    ],
)
_STEPS = files(__package__).joinpath("train_within_budget.md").read_text(encoding="utf-8").rstrip()


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in tools.TOOLS}

KNOWLEDGE_WITHIN_SECONDS = 45.0
"""A call that comes while the service starts waits for its knowledge: agents give up after a minute."""

INSTRUCTIONS: str = _ALL["instructions"]

_LISTS = CacheHint(ttl_ms=3_600_000, scope="public")
_CACHED: Mapping[CacheableMethod, CacheHint] = {
    "tools/list": _LISTS,
    "prompts/list": _LISTS,
    "resources/list": _LISTS,
    "resources/templates/list": _LISTS,
    "server/discover": _LISTS,
    "resources/read": CacheHint(ttl_ms=60_000, scope="private"),
}
"""`ttlMs` and `cacheScope` of MCP 2026-07-28. Lists change with the version and are the same for any key."""

_Context = ServerRequestContext[Any, Any]


def build_server(service: Service) -> Server[Any]:
    """A stateless server over the services of one process."""

    async def list_tools(_: _Context, __: Any) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=[tool.listed() for tool in TOOLS.values()])

    async def call_tool(
        context: _Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            near = unknown_name("tool", params.name, tuple(TOOLS))
            raise MCPError(wire.INVALID_PARAMS, near.detail)
        try:
            caller = caller_of(context, service.settings)
            caller.check(tool.name, tool.scope)
            arguments = dict(params.arguments or {})
            check_texts(arguments)
            arguments = tool.fields(arguments)
            if tool.scope != "read":
                takes_back = any(arguments.get(name) is not None for name in tools.TAKES_BACK)
                service.quotas.check(caller.key_id, takes_back=takes_back)
                service.quotas.add(caller.key_id, events=1, size=len(str(arguments)))
            await knowledge_soon(service)
            answer = await tool.answer(service, arguments, caller)
            told = await _elicited(context, answer.data.get("needs"), params.input_responses)
            if isinstance(told, wire.InputRequiredResult):
                return told
            return (await tool.answer(service, {**arguments, **told}, caller) if told else answer).as_result()
        except MemoryServiceError as error:
            text = refused_text(error)
        except Exception as error:  # noqa: BLE001 - logged with its trace, which must not reach an agent
            failures.log(f"tool {tool.name} failed", f"to {tool.name}", error)
            text = f"unexpected: {tool.name} failed; see the service's log"
        return wire.CallToolResult(content=[wire.TextContent(type="text", text=text)], is_error=True)

    async def list_resources(_: _Context, __: Any) -> wire.ListResourcesResult:
        return wire.ListResourcesResult(resources=list(RESOURCES))

    async def list_templates(_: _Context, __: Any) -> wire.ListResourceTemplatesResult:
        return wire.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(
        context: _Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        try:
            caller_of(context, service.settings).check("resources", "read")
            await knowledge_soon(service)
            return await read(service, str(params.uri))
        except MemoryServiceError as error:
            raise MCPError(wire.INTERNAL_ERROR, refused_text(error), {"uri": str(params.uri)[:200]}) from None

    async def list_prompts(_: _Context, __: Any) -> wire.ListPromptsResult:
        return wire.ListPromptsResult(prompts=[PROMPT])

    async def get_prompt(_: _Context, params: wire.GetPromptRequestParams) -> wire.GetPromptResult:
        return render(params.name, params.arguments)

    return Server(
        "memory-service",
        version=__version__,
        title="memory_service",
        instructions=INSTRUCTIONS,
        cache_hints=_CACHED,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def _elicited(
    context: _Context, needs: list[dict[str, Any]] | None, responses: wire.InputResponses | None
) -> dict[str, Any] | wire.InputRequiredResult:
    """What the client's person or agent says of the fields that a plan needs; {} where the client cannot ask
    or gets no answer. From MCP 2026-07-28 on the question is a result, and the answer comes with the call
    again (`responses`); before, it is a request of its own."""
    asks = wire.ClientCapabilities(elicitation=wire.ElicitationCapability())
    if not needs or not context.session.check_client_capability(asks):
        return {}
    fields = {
        need["field"]: {
            "type": "string",
            "title": need["question"],
            "enum": [str(each["value"]) for each in need["options"]],
        }
        for need in needs
    }
    form = wire.ElicitRequestFormParams(
        message=" ".join(need["question"] for need in needs),
        requested_schema={"type": "object", "properties": fields, "required": list(fields)},
    )
    said: Any = None
    if is_version_at_least(context.protocol_version, "2026-07-28"):
        if responses is None:
            return wire.InputRequiredResult(input_requests={_NEEDS: wire.ElicitRequest(params=form)})
        said = responses.get(_NEEDS)
    else:
        with suppress(MCPError):
            said = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
    if not isinstance(said, wire.ElicitResult) or said.action != "accept":
        return {}
    return {name: value for name, value in (said.content or {}).items() if name in fields}


_NEEDS = "needs"


async def knowledge_soon(service: Service) -> None:
    """Wait until questions can be answered, or waiting is no use: then asking says why."""
    with anyio.move_on_after(KNOWLEDGE_WITHIN_SECONDS):
        while not service.preparation.state.knowledge and service.preparation.state.failed is None:
            await anyio.sleep(0.05)


def render(name: str, raw: Mapping[str, str] | None) -> wire.GetPromptResult:
    """The prompt, filled in. MCPError (invalid params) for an unknown or incomplete one."""
    if name != _NAME:
        raise MCPError(wire.INVALID_PARAMS, f"There is no prompt {name[:80]!r}; there is {_NAME}")
    filled = {key: text.strip() for key, text in (raw or {}).items() if text.strip()}
    wrong = [f"{key} is required" for key in _REQUIRED if key not in filled]
    wrong += [f"{key} is no argument" for key in sorted(filled.keys() - _ARGUMENTS)]
    if wrong:
        raise MCPError(wire.INVALID_PARAMS, f"{'; '.join(wrong)}; {name} takes {', '.join(_ARGUMENTS)}")
    text = _STEPS.format(**{"minutes": "30", **filled})
    message = wire.PromptMessage(role="user", content=wire.TextContent(type="text", text=text))
    return wire.GetPromptResult(description=PROMPT.description, messages=[message])


STOP_WITHIN_SECONDS = 2.0
"""Agents kill what does not end soon after its input has."""


def serve_stdio(settings: Settings) -> None:
    """Answer until the input ends; database and encoder get ready meanwhile. Prints go to stderr."""
    service = Service(settings)
    anyio.run(_serve, service)
    if not service.preparation.stop(STOP_WITHIN_SECONDS):
        # It is within torch, or within a transaction that then never was; taking the interpreter down under
        # it would abort the process.
        sys.stderr.flush()
        os._exit(0)
    service.database.close()


async def _serve(service: Service) -> None:
    server = build_server(service)
    async with stdio_server() as (reading, writing):
        service.preparation.start()
        await server.run(reading, writing, server.create_initialization_options())
