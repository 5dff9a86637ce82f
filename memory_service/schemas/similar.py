"""The request of a search for similar competitions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from memory_service.domain.common.vocabulary import MODES, Mode
from memory_service.errors import FieldError
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.validation_errors import wrong_fields

MAX_LIMIT, DEFAULT_LIMIT = 100, 5


class SimilarRequest(Request):
    """Either a text or the slug of a known competition."""

    text: f.LongText | None = f.optional(
        "A description in free words; this or `competition`.",
        examples=["photos of dogs, 120 breeds, log loss"],
    )
    competition: f.Text200 | None = f.optional("Slug of a known competition; this or `text`.")
    task: f.Task | None = f.optional(f"{f.ABOUT_TASK} Overrules what the text suggests.")
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), f.INTEGRAL] | None = Field(
        DEFAULT_LIMIT, description="How many neighbours; 5 when not given."
    )
    mode: f.MemoryMode | None = f.optional(f"{f.ABOUT_MODE}; open when not given.")

    @model_validator(mode="after")
    def _one_of_both(self) -> SimilarRequest:
        if (self.text is None) == (self.competition is None):
            both = ", not both" if self.text is not None else ""
            message = f"give either text or competition{both}"
            raise wrong_fields([FieldError(name, message) for name in ("text", "competition")])
        return self

    def within(self, limit: Mode) -> SimilarRequest:
        """The question with no more memory of competitions than a limit allows."""
        return self.model_copy(update={"mode": max(self.mode or "open", limit, key=MODES.index)})


class SimilarQuery(FromText, SimilarRequest):
    """The same as texts."""
