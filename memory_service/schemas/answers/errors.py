"""Refusals (RFC 9457)."""

from typing import Any

from pydantic import Field

from memory_service.errors import FieldError
from memory_service.schemas.answers.common import Answer, left_out


class Difference(Answer):
    field: str = Field(description="Members of nested objects by their path.")
    before: Any
    after: Any


class Problem(Answer):
    """Every refusal. The last part of `type` is the stable code."""

    type: str = Field(description="`urn:memory-service:problem:` and the code.")
    title: str = Field(description="The code in words, the same for every refusal of the kind.")
    status: int = Field(description="Of HTTP.")
    detail: str = Field(description="What was wrong here, and what would be right.")
    errors: list[FieldError] = Field(description="By field, with the nearest right names, closest first.")
    request_id: str = Field(description="As in `X-Request-ID`.")
    current: dict[str, Any] | None = left_out("Of a row that moved meanwhile: the row as it is now.")
    changes: list[Difference] | None = left_out("Of a row that moved meanwhile: what somebody changed.")
