"""Which part of docs/mcp.md is made from the program? What each tool takes, and an example with its answer.

`make docs` writes it anew; a test compares the arguments with those that are listed, and calls the examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
from mcp.client.client import Client
from mcp_types import TextContent

from memory_service.api.service import Service
from memory_service.mcp.server import TOOLS, build_server
from memory_service.mcp.tool import Tool
from memory_service.settings import load_settings

__all__ = ["EXAMPLES", "SIBLINGS", "arguments_table", "with_tools", "without_ids"]

EXAMPLES: Mapping[str, dict[str, Any]] = {
    "recommend_plan": {"task": "image", "size": "medium", "gpu": "a100", "minutes": 30},
    "find_similar_competitions": {"text": "photos of dogs, 120 breeds, log loss", "limit": 2},
    "predict_fit": {"model": "resnet50", "gpu": "a100", "image_size": 224},
    "review_script": {
        "script": "import torch\nfrom torch.cuda.amp import autocast\n",
        "gpu": "a100",
        "minutes": 30,
    },
    "start_run": {
        "task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 128, "folds": 3, "epochs": 8,
        "n_train": 40000, "minutes": 30,
    },
    "report_progress": {"run_id": "<run_id>", "kind": "note", "out_of_memory": True},
    "finish_run": {"run_id": "<run_id>", "status": "out_of_memory", "submission": False},
    "remember_competition": {
        "slug": "whale-sounds",
        "title": "Whale sounds",
        "description": "Audio recordings of whales, 14 species, judged by log loss",
    },
    "remember_solution": {
        "competition": "whale-sounds",
        "rank": 1,
        "families": ["efficientnet"],
        "techniques": ["mixup", "specaugment"],
        "validation": {"split": "group", "by": "recording", "folds": 5},
    },
}  # fmt: skip
"""Tool -> arguments; `<run_id>` stands for the one that start_run gave."""

SIBLINGS = {
    "recommend_plan": "POST /recommend",
    "find_similar_competitions": "POST /similar",
    "predict_fit": "GET /predict",
    "review_script": "POST /review",
    "start_run": "POST /runs",
    "report_progress": "POST /runs/{run_id}/events",
    "finish_run": "POST /runs/{run_id}/finish",
    "remember_competition": "POST /competitions",
    "remember_solution": "POST /solutions",
}

_PART = re.compile(r"(<!-- tools -->\n).*?(<!-- /tools -->)", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def with_tools(page: str, database_url: str) -> str:
    """The page with this part in its place. database_url: a seeded database, to which the examples write."""
    answers = anyio.run(_answers, database_url)
    made = "\n".join(line for tool in TOOLS.values() for line in _section(tool, answers[tool.name]))
    return _PART.sub(lambda m: f"{m[1]}\n{made}\n{m[2]}", page)


def arguments_table(tool: Tool) -> str:
    """A row an argument: its type, what it is, the names it can have (tasks: see memory://vocabulary)."""
    lines = ["| argument | type | what it is |", "|---|---|---|"]
    for name, shape in tool.takes["properties"].items():
        required = " **required**" if name in tool.takes["required"] else ""
        kind = shape.get("type") or " or ".join(form["type"] for form in shape["anyOf"])
        about, words = shape.get("description", ""), shape.get("enum", ())
        unsaid = name != "task" and not all(word in about for word in words)
        told = f"{about} {', '.join(f'`{word}`' for word in words)}" if unsaid else about
        lines.append(f"| `{name}`{required} | {kind} | {told} |")
    return "\n".join(lines)


def without_ids(answer: str) -> str:
    """An answer as the page shows it: the same whenever it is made."""
    return _UUID.sub("<run_id>", answer)


def _section(tool: Tool, answer: str) -> Iterator[str]:
    yield f"### {tool.name}"
    yield ""
    yield tool.about
    yield ""
    yield f"Scope `{tool.scope}`; the same as `{SIBLINGS[tool.name]}`."
    yield ""
    yield arguments_table(tool)
    yield ""
    yield "```json"
    yield json.dumps(EXAMPLES[tool.name])
    yield "```"
    yield ""
    yield "```text"
    yield without_ids(answer)
    yield "```"
    yield ""


async def _answers(database_url: str) -> dict[str, str]:
    service = Service(load_settings(database_url=database_url))
    service.preparation.start()
    found: dict[str, str] = {}
    run_id = ""
    async with Client(build_server(service)) as client:
        for name, arguments in EXAMPLES.items():
            given = {key: run_id if value == "<run_id>" else value for key, value in arguments.items()}
            result = await client.call_tool(name, given)
            (content,) = result.content
            assert isinstance(content, TextContent)
            assert not result.is_error, content.text
            found[name] = content.text.strip()
            run_id = (result.structured_content or {}).get("run_id", run_id)
    service.preparation.stop()
    service.database.close()
    return found
