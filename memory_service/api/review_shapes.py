"""What does the answer of a review look like? For the description only."""

from __future__ import annotations

from typing import Any, Literal

from memory_service.api.shapes import Shape

__all__ = ["Reviewed"]


class Found(Shape):
    """One thing to change. Lines and columns count from one; `fix` can be pasted."""

    rule: str
    severity: Literal["error", "warning", "note"]
    line: int
    end_line: int
    column: int
    message: str
    fix: str
    source: str


class Counts(Shape):
    error: int
    warning: int
    note: int


class Reviewed(Shape):
    """`ok`: nothing was found. `read`: what was understood. `not_checked`: what could not be, and why."""

    ok: bool
    counts: Counts
    read: dict[str, Any]
    findings: list[Found]
    not_checked: list[str]
