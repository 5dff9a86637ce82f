"""Errors as MCP tool results: what was wrong, in which field, with what value, and the nearest names."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent

from memory_service.error_document import problem_of
from memory_service.errors import MemoryServiceError, Unavailable

_AGAIN = "Nothing of this call was kept; call again in a few seconds."


def refused(error: MemoryServiceError) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=refused_text(error))], is_error=True)


def refused_text(error: MemoryServiceError) -> str:
    """The code, the sentence, and a line for each field."""
    problem = problem_of(error)
    lines = [f"{error.code}: {problem['detail']}"]
    for wrong in problem["errors"]:
        given = "" if wrong["given"] is None else f"; given: {wrong['given']!r}"
        near = f"; nearest: {', '.join(wrong['nearest'])}" if wrong["nearest"] else ""
        lines.append(f"- {wrong['field'] or 'arguments'}: {wrong['message']}{given}{near}")
    if isinstance(error, Unavailable):
        lines.append(_AGAIN)
    return "\n".join(lines)
