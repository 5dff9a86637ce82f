"""What do the answers look like? For the description only: answers are sent as the services make them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory_service.domain.common.api_keys import Scope
from memory_service.domain.common.estimate import Grade

__all__ = ["Alive", "Conflicts", "History", "KeyRow", "Keys", "NewKey", "Number", "Problem", "Ready", "Shape"]


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class FieldProblem(Shape):
    field: str = Field(description="Path of the field; empty for the whole body.")
    message: str
    given: Any = None
    nearest: list[str] = Field(description="What was probably meant, closest first.")


class Problem(Shape):
    """Every refusal (RFC 9457). The last part of `type` is the stable code."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]
    request_id: str


class Number(Shape):
    """A figure with its central 80 % interval, its grade, the observations behind it and how it was made."""

    value: float
    low: float
    high: float
    grade: Grade
    n: int
    basis: str


class Conflict(Shape):
    id: str
    quantity: str
    sides: list[dict[str, Any]]
    used: Grade
    why: str


class Conflicts(Shape):
    items: list[Conflict]
    next: str | None


class Difference(Shape):
    """Members of nested objects are named by their path."""

    field: str
    before: Any
    after: Any


class Change(Shape):
    version: int
    action: Literal["create", "update", "delete"]
    at: str
    who: str
    why: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: list[Difference]


class History(Shape):
    items: list[Change]


class KeyRow(Shape):
    """A key as it is listed: never the key itself."""

    id: str
    name: str
    scopes: list[Scope]
    status: Literal["valid", "expired", "revoked"]
    created_by: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None = Field(description="To about a minute.")
    revoked_at: str | None


class NewKey(KeyRow):
    key: str = Field(description="The key itself. It is shown this once: only a hash of it is kept.")


class Keys(Shape):
    items: list[KeyRow]


class Alive(Shape):
    status: Literal["alive"]
    version: str


class Ready(Shape):
    """What is loaded, and what is still missing."""

    ready: bool
    database: str
    knowledge: str
    index: str
    encoder: Literal["loading", "ready", "degraded"]
    encoder_reason: str | None
    failed: str | None
