"""Does docs/mcp.md tell of the tools that there are, with the arguments they take and answers they give?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.mcp_page import EXAMPLES, SIBLINGS, arguments_table, without_ids
from memory_service.api.security.route_scopes import ROUTES
from memory_service.mcp.server import TOOLS
from tests.mcp.conftest import Agent, text_of

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```json\n(.*?)\n```\n\n```text\n(.*?)\n```", re.DOTALL)


def sections() -> dict[str, str]:
    """Tool -> its part of the page."""
    made = PAGE.split("<!-- tools -->")[1].split("<!-- /tools -->")[0]
    return {part.split("\n", 1)[0]: part for part in made.split("\n### ")[1:]}


def labels(text: str) -> set[str]:
    """What begins the lines of an answer, without figures and names: how it reads, not what it says."""
    return {re.split(r"[:=(\d]", line.strip("-* "))[0].strip() for line in text.splitlines()}


def test_every_listed_tool_is_described_as_it_is(agent: Agent):
    listed = {tool.name: tool for tool in agent.portal.call(agent.client.list_tools).tools}
    described = sections()
    assert list(described) == list(listed), "run make docs"
    for name, tool in listed.items():
        assert tool.input_schema == TOOLS[name].takes
        assert tool.description is not None
        assert tool.description in described[name], "run make docs"
        assert arguments_table(TOOLS[name]) in described[name], "run make docs"


def test_a_tool_wants_the_scope_of_the_route_it_names():
    for name, part in sections().items():
        assert f"Scope `{TOOLS[name].scope}`; the same as `{SIBLINGS[name]}`." in part
        assert ROUTES[SIBLINGS[name]] == (TOOLS[name].scope,)


def test_every_example_is_answered_as_it_is_shown(agent: Agent):
    run_id = ""
    for name, part in sections().items():
        found = EXAMPLE.search(part)
        assert found is not None, name
        given = json.loads(found[1])
        assert given == EXAMPLES[name], "run make docs"
        result = agent.call(name, {**given, "run_id": run_id} if "run_id" in given else given)
        assert not result.is_error, text_of(result)
        run_id = result.structured_content.get("run_id", run_id)
        shown, told = labels(found[2]), labels(without_ids(text_of(result)))
        assert len(shown & told) >= 0.5 * len(shown), (name, shown, told)


def test_every_resource_and_the_prompt_are_named(agent: Agent):
    listed = {resource.uri for resource in agent.portal.call(agent.client.list_resources).resources}
    listed |= {
        t.uri_template for t in agent.portal.call(agent.client.list_resource_templates).resource_templates
    }
    assert set(re.findall(r"^\| `(memory://[^`]+)` \|", PAGE, re.MULTILINE)) == listed
    for prompt in agent.portal.call(agent.client.list_prompts).prompts:
        assert f"`{prompt.name}` (`{'`, `'.join(a.name for a in prompt.arguments or [])}`)" in PAGE


def test_the_settings_to_copy_are_json():
    blocks = re.findall(r"```json\n(\{\"mcpServers.*?)\n```", PAGE, re.DOTALL)
    assert [set(json.loads(block)["mcpServers"]) for block in blocks] == [{"memory-service"}] * 3
