"""What answers share: the closed base, figures with their interval, times, pages."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from memory_service.domain.common.estimate import Grade
from memory_service.errors import FieldError

Item = TypeVar("Item")
Time = Annotated[str, Field(description="ISO 8601, UTC.")]
Size = Literal["small", "medium", "large"]
Layout = Annotated[str, Field(description="`nhwc` (channels last) or `nchw`.")]
Settings = Annotated[dict[str, Any], Field(description="By a plan's names: the values to set.")]


class Answer(BaseModel):
    """Every member is always there, but for those that are `left_out`."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


def left_out(about: str) -> Any:
    """The field of a member that is absent where there is nothing to say."""
    return Field(None, exclude_if=lambda value: value is None, description=about)


class Estimate(Answer):
    """A figure with its central 80 % interval, in the unit that the member's name ends in."""

    value: float = Field(description="The best single figure: the median.")
    low: float = Field(description="10th percentile.")
    high: float = Field(description="90th percentile.")
    grade: Grade = Field(description="A lower one never overrules a higher one.")
    n: int = Field(description="Observations behind it; 0: computed.")
    basis: str = Field(description="How it was made.")


class Page(Answer, Generic[Item]):
    """Rows in order."""

    items: list[Item]
    next: str | None = Field(description="`cursor` of the next page; null at the end.")
    total: int | None = left_out("Rows that match in all, where `total=1` asked for it.")


class Provenance(Answer):
    """What the rates of a card stand on."""

    id: str | None = Field(description="Of the calibration; null: the data sheet.")
    measured_at: Time | None
    basis: str = Field(description="In words.")
    n: int = Field(description="Calibrations behind the rates; 0: the data sheet alone.")
    observations: int = Field(description="Observed runs of this very device.")
    set_aside: list[str] = Field(description="Why calibrations are not used: stale, contended.")


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


class Sentence(Answer):
    """A reason or a warning as data."""

    code: str = Field(description="What it is about: `minutes-assumed`, `model-best` ...")
    text: str
    severity: Literal["note", "warning"]
    values: dict[str, Any] = Field(description="The figures and names in it.")
