"""MCP resources: strategy tables that plans follow, and the vocabulary."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread
import mcp_types as wire
import orjson
from mcp.shared.exceptions import MCPError

from memory_service.api.service import Service
from memory_service.domain.common.quoted_text import as_markdown, one_line, quoted
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import MODES, OBJECTIVES, PRECISIONS, TASK_ALIASES, TASKS
from memory_service.domain.monitoring.verdict import ACTIONS
from memory_service.errors import NotFound
from memory_service.schemas.events import EVENT_FIELDS
from memory_service.schemas.runs import STATUSES
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.tables.table_rows import get_row

_MARKDOWN, _JSON = "text/markdown", "application/json"
_TABLES_AT, _ROW = "memory://strategies/", "memory://strategy/"

_WORDS = shipped_table(__package__, "tools.toml")["resources"]
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
