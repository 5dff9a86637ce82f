"""The state of the service, and its keys."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from memory_service.domain.common.api_keys import Scope
from memory_service.schemas.answers.common import Answer, Time
from memory_service.schemas.base import Request
from memory_service.schemas.fields import Names, optional

LONGEST_DAYS = 36_500.0


class NewKeyRequest(Request):
    """Whose it is, what it may do, and for how long."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=80)] = Field(
        description="Whose it is: it signs every change made with it."
    )
    scopes: Names = Field(description="read, tell, edit, admin: a list, or by comma.")
    expires_days: Annotated[float, Field(gt=0, le=LONGEST_DAYS, allow_inf_nan=False)] | None = optional(
        "Days it is valid; without: until revoked."
    )


class KeyRow(Answer):
    """A key as it is listed: never the key itself."""

    id: str
    name: str
    scopes: list[Scope]
    status: Literal["valid", "expired", "revoked"]
    created_by: str | None
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None = Field(description="To about a minute.")
    revoked_at: Time | None


class NewKey(KeyRow):
    key: str = Field(description="The key itself. It is shown this once: only a hash of it is kept.")


class Keys(Answer):
    items: list[KeyRow] = Field(description="The latest first.")


class Alive(Answer):
    status: Literal["alive"]
    version: str


class Ready(Answer):
    """What is loaded, and what is still missing."""

    ready: bool
    database: str
    knowledge: str
    index: str
    encoder: Literal["loading", "ready", "degraded"]
    encoder_reason: str | None
    failed: str | None
    seconds: float | None = Field(description="That the preparation took.")
    left_out: list[str] = Field(
        description="Rows of knowledge that cannot be used, and why: twenty at most, and to keys only."
    )
    left_out_rows: int = Field(description="How many rows cannot be used: 0 in a sound database.")
