"""Does docs/mcp.md name the tools, resources and prompts that there are, and show a true example?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from memory_service.api.security.route_scopes import ROUTES
from memory_service.mcp.server import TOOLS
from tests.mcp.conftest import Agent, text_of

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
TOOL = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `([A-Z]+ [^`]+)` \| [^|]+ \|$", re.MULTILINE)
EXAMPLE = re.compile(r"`(\w+)`:\n\n```json\n(.*?)\n```\n\n```text\n(.*?)\n```", re.DOTALL)


def labels(text: str) -> set[str]:
    """What begins the lines of an answer, without figures and names: how it reads, not what it says."""
    return {re.split(r"[:=(\d]", line.strip("-* "))[0].strip() for line in text.splitlines()}


def test_every_listed_tool_stands_in_the_table_with_its_scope(agent: Agent):
    listed = [tool.name for tool in agent.portal.call(agent.client.list_tools).tools]
    rows = TOOL.findall(PAGE)
    assert [name for name, _, _ in rows] == listed
    for name, scope, route in rows:
        assert ROUTES[route] == (TOOLS[name].scope,) == (scope,)


def test_the_examples_are_answered_as_they_are_shown(agent: Agent):
    shown = EXAMPLE.findall(PAGE)
    assert shown
    for name, arguments, answer in shown:
        result = agent.call(name, json.loads(arguments))
        assert not result.is_error, text_of(result)
        assert labels(text_of(result)) == labels(answer)


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
