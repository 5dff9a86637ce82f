"""The request that makes a key."""

from typing import Annotated

from pydantic import Field, StringConstraints

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
