"""The MCP prompt that walks an agent from the question to the finished run."""

from collections.abc import Mapping
from importlib.resources import files

import mcp_types as wire
from mcp.shared.exceptions import MCPError

_NAME = "train_within_budget"

PROMPTS = (
    wire.Prompt(
        name=_NAME,
        title="Train within a budget",
        description="Ask, review, launch, check at 60 s, watch, finish: one training on one card that ends "
        "in time with a submission.",
        arguments=[
            wire.PromptArgument(
                name="description", description="What is predicted, from what data.", required=True
            ),
            wire.PromptArgument(name="gpu", description="The card, e.g. a100, t4, cpu.", required=True),
            wire.PromptArgument(
                name="minutes", description="Minutes for everything; 30 if left out.", required=False
            ),
        ],
    ),
)

_STEPS = files(__package__).joinpath("train_within_budget.md").read_text(encoding="utf-8").rstrip()


def render(name: str, raw: Mapping[str, str] | None) -> wire.GetPromptResult:
    """The prompt, filled in. MCPError (invalid params) for an unknown or incomplete one."""
    prompt = next((prompt for prompt in PROMPTS if prompt.name == name), None)
    if prompt is None:
        raise MCPError(wire.INVALID_PARAMS, f"There is no prompt {name[:80]!r}; there is {_NAME}")
    arguments = prompt.arguments or []
    filled = {key: text.strip() for key, text in (raw or {}).items() if text.strip()}
    missing = [each.name for each in arguments if each.required and each.name not in filled]
    unknown = sorted(filled.keys() - {each.name for each in arguments})
    if missing or unknown:
        wrong = [f"{key} is required" for key in missing] + [f"{key} is no argument" for key in unknown]
        known = ", ".join(each.name for each in arguments)
        raise MCPError(wire.INVALID_PARAMS, f"{'; '.join(wrong)}; {name} takes {known}")
    text = _STEPS.format(**{"minutes": "30", **filled})
    message = wire.PromptMessage(role="user", content=wire.TextContent(type="text", text=text))
    return wire.GetPromptResult(description=prompt.description, messages=[message])
