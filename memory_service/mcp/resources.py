"""MCP resources: strategy tables that plans follow, and the vocabulary."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread
import mcp_types as wire
import orjson
from mcp.shared.exceptions import MCPError

from memory_service.api.service import Service
from memory_service.domain.common.quoted_text import one_line, quoted
from memory_service.domain.common.vocabulary import MODES, OBJECTIVES, PRECISIONS, TASK_ALIASES, TASKS
from memory_service.domain.monitoring.verdict import ACTIONS
from memory_service.errors import NotFound
from memory_service.schemas.events import EVENT_FIELDS
from memory_service.schemas.runs import STATUSES
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.tables.table_rows import get_row

_MARKDOWN, _JSON = "text/markdown", "application/json"
_TABLE, _ROW = "memory://strategies/", "memory://strategy/"

_TABLES: Mapping[str, str] = {
    "batch_policy": "How a batch size is chosen and changed",
    "batch_defaults": "Batch sizes by input and card",
    "model_by_budget": "Which model for which minutes and card",
    "time_management": "Keeping a deadline: estimates, reserves, when to cut",
    "loader": "Workers, pinned memory, prefetching",
    "precision": "Mixed precision and compiling",
    "monitoring": "When to look at a run and what to look for",
    "decision_matrix": "What to do at which memory fill",
    "parallel": "Several trainings on one card",
    "domain_architectures": "Architectures that served kinds of data",
    "review": "What to look for in a script before it runs",
    "pitfalls": "Traps of libraries",
}


def _resource(uri: str, name: str, title: str, about: str) -> wire.Resource:
    return wire.Resource(uri=uri, name=name, title=title, description=about, mime_type=_MARKDOWN)


RESOURCES = (
    _resource(
        "memory://rules",
        "rules",
        "The rules",
        "Every rule that a plan, a verdict or a review may name (R01 ...), in a sentence each, as data: "
        "about 4 000 tokens.",
    ),
    _resource(
        "memory://vocabulary",
        "vocabulary",
        "The words of the service",
        "Tasks and their aliases, cards with their memory, precisions, what verdicts can ask, how runs end.",
    ),
    *(
        _resource(_TABLE + table, f"strategies-{table}", title, f"The strategy table {table}, row by row.")
        for table, title in _TABLES.items()
    ),
)

TEMPLATES = (
    wire.ResourceTemplate(
        uri_template=_ROW + "{id}",
        name="strategy",
        title="One row of a strategy table",
        description="With its numbers, its source, and whether plans follow it, as JSON; ids stand in the "
        "tables.",
        mime_type=_JSON,
    ),
)


async def read(service: Service, uri: str) -> wire.ReadResourceResult:
    """The text of a resource. MCPError (invalid params) for an unknown one."""
    if uri.startswith(_ROW):
        kind, make = _JSON, partial(_row, service, uri.removeprefix(_ROW))
    elif uri in {resource.uri for resource in RESOURCES}:
        kind, make = _MARKDOWN, partial(_page, service, uri)
    else:
        raise _unknown(uri)
    text = await anyio.to_thread.run_sync(make, abandon_on_cancel=True)
    return wire.ReadResourceResult(contents=[wire.TextResourceContents(uri=uri, mime_type=kind, text=text)])


def _unknown(uri: str) -> MCPError:
    known = ", ".join((*(resource.uri for resource in RESOURCES[:3]), _ROW + "{id}"))
    message = f"There is no resource {uri[:200]!r}; there are {known} ..."
    return MCPError(wire.INVALID_PARAMS, message, {"uri": uri})


def _row(service: Service, key: str) -> str:
    with service.preparation.require_knowledge().read() as unit:
        try:
            return orjson.dumps(get_row(unit, "strategies", key), option=orjson.OPT_INDENT_2).decode()
        except NotFound:
            raise _unknown(_ROW + key) from None


def _page(service: Service, uri: str) -> str:
    knowledge = knowledge_of(service.preparation.require_knowledge())
    if uri.startswith(_TABLE):
        return _table(knowledge, uri.removeprefix(_TABLE))
    return _PAGES[uri](knowledge)


def _table(knowledge: Knowledge, table: str) -> str:
    lines = [f"# {_TABLES[table]}", ""]
    lines += [_line(row) for row in knowledge.strategies if row["table"] == table]
    return "\n".join([*lines, "", f"Each with its numbers and source: {_ROW}{{id}}"]) + "\n"


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
    return f"- `{row['id']}` [{row['grade']}, {who}] {quoted(row['statement'])}{unused}"


def _vocabulary(knowledge: Knowledge) -> str:
    aliases = ", ".join(f"{alias} = {task}" for alias, task in TASK_ALIASES.items())
    cards = ", ".join(f"{card.key} ({card.memory_gib:g} GiB)" for card in knowledge.gpus.values())
    parts = {
        "task": f"{_words(TASKS)}. Aliases: {aliases}",
        "gpu": f"{cards}. Names that drivers report are understood, too",
        "size": "small < 10 000 <= medium < 100 000 <= large training samples",
        "precision": f"{_words(PRECISIONS)}; fp16 and bf16 are automatic mixed precision over fp32 weights",
        "objective": _words(OBJECTIVES),
        "mode": f"{_words(MODES)}: all memory, none of the same competition, rules and physics only",
        "actions of a verdict": _words(ACTIONS),
        "kinds of events": _words(EVENT_FIELDS),
        "how a run ends": _words(STATUSES),
        "grades": "measured > estimated > claimed; a lower one never overrules a higher one",
    }
    return (
        "\n".join(["# Vocabulary", "", *(f"- **{name}**: {about}." for name, about in parts.items())]) + "\n"
    )


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)


_PAGES: Mapping[str, Callable[[Knowledge], str]] = {
    "memory://rules": _rules,
    "memory://vocabulary": _vocabulary,
}
