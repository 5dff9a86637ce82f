"""Claims, estimates and measurements that disagree."""

from pydantic import Field

from memory_service.domain.common.estimate import Grade
from memory_service.schemas.answers.common import Answer, Estimate, left_out


class Statement(Answer):
    id: str
    grade: Grade
    low: float = Field(description="In `unit`.")
    high: float | None = Field(description="In `unit`; null: no upper end was named.")
    unit: str | None
    source: str
    value: float | None = left_out("In `unit`.")
    n: int | None = left_out("Observations.")
    statement: str | None = left_out("As written.")
    set_aside: str | None = left_out("Why it is not believed (yet).")


class Conflict(Answer):
    id: str
    quantity: str
    unit: str | None
    gpu: str | None
    device: str | None
    model: str | None
    image_size: int | None = Field(description="Pixels a side.")
    input_size: int | None = Field(description="Of whatever kind the model's input is.")
    batch_size: int | None
    precision: str | None
    assumed: list[str]
    statement: str | None = Field(description="The claim as written.")
    sides: list[Statement]
    apart: float = Field(description="The widest gap between two sides, as a ratio.")
    used: Grade = Field(description="Which of them plans use.")
    uses: Estimate | None = Field(description="The figure that plans use, in `unit`.")
    why: str
    fits: bool | None = Field(description="Whether the claimed batch fits the card at all.")
