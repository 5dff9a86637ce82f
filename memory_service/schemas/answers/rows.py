"""Rows of knowledge as lists, single pages and changes show them, what was done to them, and which of them
disagree."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from memory_service.domain.common.estimate import Grade
from memory_service.domain.recipe.vocabulary import Basis
from memory_service.domain.runs.run_observations import EndStatus
from memory_service.schemas import rows
from memory_service.schemas.answers.common import Answer, Difference, Estimate, Page, Size, Time, left_out
from memory_service.schemas.answers.runs import RunBrief
from memory_service.schemas.rows import Score, SolutionRow, Validation


class _Stored(Answer):
    version: int = Field(description="Raised by every change.")
    origin: Literal["seed", "user"]
    corrected: bool = Field(description="A person changed it: no seed overwrites it.")
    created_at: Time
    updated_at: Time


class Tally(Answer):
    """What came of a pattern or competition: runs that were served it, that followed it, and how those
    compare."""

    served: int
    followed: int
    compared: int
    without: int
    better: int
    same: int
    worse: int
    chance_better: Estimate | None = Field(description="Of a run that follows it, 0 to 1.")
    demoted: bool = Field(description="Plans rank it down.")


class CompetitionRuns(Answer):
    """The latest runs of a competition in short."""

    runs: int
    by_status: dict[EndStatus, int]
    with_submission: int
    best: RunBrief | None
    median_minutes: float | None
    median_minutes_to_submission: float | None
    median_epochs_to_best: float | None
    median_budget_percent: float | None
    latest: list[RunBrief]


class Competition(_Stored, rows.CompetitionRow):
    size: Size | None = Field(description="By `n_train`.")


class CompetitionAdded(Competition):
    inferred: list[str] | None = left_out("Of one that was just added: fields that were read from its text.")


class Solution(_Stored, SolutionRow):
    id: str = Field(description="`<competition>#<rank>`")


class SolutionBrief(Answer):
    """What a solution says to whoever looks at its competition."""

    id: str
    rank: int
    url: str | None
    basis: Basis
    families: list[str]
    validation: Validation
    techniques: list[str]
    score: Score
    what_mattered: list[str]


class CompetitionDetail(Competition):
    outcomes: Tally = Field(description="Of all its patterns.")
    runs: CompetitionRuns
    solutions: list[SolutionBrief] = Field(description="What won it, best rank first.")


class Pattern(_Stored, rows.PatternRow): ...


class PatternDetail(Pattern):
    outcomes: Tally


class Model(_Stored, rows.ModelRow): ...


class Gpu(_Stored, rows.GpuRow): ...


class GpuItem(Gpu):
    devices: list[str] = Field(description="Names of its registered devices.")


class Claim(_Stored, rows.ClaimRow): ...


class Strategy(_Stored, rows.StrategyRow): ...


class StrategyDetail(Strategy):
    steers_plans: bool = Field(description="Correcting a number of it changes the next plan.")


class ProfileItem(_Stored, rows.ProfileFigures): ...


class ProfileDetail(_Stored, rows.ProfileRow): ...


CHANGED: Mapping[str, type[Answer]] = {
    "competitions": CompetitionAdded,
    "solutions": Solution,
    "patterns": Pattern,
    "models": Model,
    "gpus": Gpu,
    "strategies": Strategy,
    "claims": Claim,
}
"""A row as it is answered after a change."""

PAGES: Mapping[str, type[Answer]] = {
    "competitions": Page[Competition],
    "solutions": Page[Solution],
    "patterns": Page[PatternDetail],
    "models": Page[Model],
    "gpus": Page[GpuItem],
    "strategies": Page[StrategyDetail],
    "claims": Page[Claim],
    "sizing": Page[ProfileItem],
}

ALONE: Mapping[str, type[Answer]] = {
    **CHANGED,
    "competitions": CompetitionDetail,
    "patterns": PatternDetail,
    "strategies": StrategyDetail,
    "sizing": ProfileDetail,
}


class AuditEntry(Answer):
    """Who changed what, when and why."""

    id: int
    table: str
    row: str = Field(description="Its key.")
    version: int = Field(description="Of the row then; 0 of what has no versions.")
    action: Literal["create", "update", "delete"]
    origin: Literal["seed", "user"]
    at: Time
    who: str
    why: str


class Change(AuditEntry):
    before: dict[str, Any] | None = Field(description="The row; null: it was not there.")
    after: dict[str, Any] | None = Field(description="The row; null: it is gone.")
    changes: list[Difference]
    can_undo: bool = Field(description="Nothing later touched what it changed.")


class History(Answer):
    items: list[Change] = Field(description="Newest first.")


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
