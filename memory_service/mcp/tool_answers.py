"""The answers of the tools: those of HTTP, without what an agent does not act on."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from memory_service.domain.common.estimate import Grade
from memory_service.schemas.answers.common import Answer, Estimate, left_out
from memory_service.schemas.answers.predict import NetworkPrediction, WouldFit
from memory_service.schemas.answers.recommend import Plan, Refusal
from memory_service.schemas.answers.review import Review
from memory_service.schemas.answers.rows import CompetitionAdded, Solution
from memory_service.schemas.answers.runs import RunEventsTaken, RunPage
from memory_service.schemas.answers.similar import Hit, Similar

LEFT_OUT = ("alternatives", "parallel", "similar", "rationale", "evidence")
"""Of a plan: an agent acts on its settings. GET /recommend gives all of it."""

MOST_OF_RECIPE = {
    "families": 4, "techniques": 6, "loss": 2, "features": 2, "mattered": 3, "failed": 2, "pitfalls": 2,
}  # fmt: skip
"""Entries of each part of a plan's recipe."""


def _part(of: type[BaseModel], names: Iterable[str], about: str | None = None, **others: Any) -> type[Answer]:
    """The model with these members only; `others` in place of its own, or beside them."""
    fields = {n: (of.model_fields[n].annotation, of.model_fields[n]) for n in names if n not in others}
    made: dict[str, Any] = {name: fields.get(name) or (others[name], ...) for name in [*names, *others]}
    return create_model(f"{of.__name__}Part", __base__=Answer, __doc__=about or of.__doc__, **made)


CompactPlan = _part(Plan, [name for name in Plan.model_fields if name not in LEFT_OUT])
CompactRefusal = _part(Refusal, [name for name in Refusal.model_fields if name not in LEFT_OUT])


class PlanGiven(Answer):
    """The plan in the form that was asked for; the other forms are absent."""

    form: Literal["plan", "text", "script"]
    plan_id: str
    feasible: bool
    plan: CompactPlan | CompactRefusal | None = left_out(  # type: ignore[valid-type]
        "It can be brought along to start_run as `plan`."
    )
    text: str | None = left_out("Markdown of at most 700 tokens.")
    script: str | None = left_out("A complete Python file; save it as `filename`.")
    filename: str | None = left_out("Of the script.")


Neighbour = _part(Hit, ("slug", "title", "task", "score", "why", "lessons"))
Found = _part(
    Similar,
    ("items", "inferred_task", "inferred", "degraded", "reason"),
    items=list[Neighbour],  # type: ignore[valid-type]
)


class CurvePoint(Answer):
    """Medians; /predict gives their intervals."""

    batch_size: int = Field(description="Samples a step.")
    peak_memory_gib: float
    samples_per_second: float | None
    grade: Grade = Field(description="The lower of the two.")
    fits: bool


Fits = _part(
    NetworkPrediction,
    (
        "model", "gpu", "fits", "batch_size", "max_batch_size", "safe_batch_size", "knee_batch_size",
        "peak_memory_gib", "samples_per_second", "step_seconds", "would_fit", "warnings", "curve",
    ),
    "What a model needs and does on a card. knee_batch_size: the next rung gains under 10 %.",
    batch_size=int | None,
    safe_batch_size=int | None,
    would_fit=WouldFit | None,
    curve=list[CurvePoint],
)  # fmt: skip
Reviewed = Review


class Begun(Answer):
    """`expected` was predicted now and is compared with what happens; `why_not` says what kept it from being
    predicted."""

    run_id: str
    status: Literal["running"]
    expected: dict[str, Estimate | None]
    fits: bool | None
    why_not: str | None
    notes: list[str]


Progress = _part(
    RunEventsTaken,
    ("run_id", "seq", "accepted", "duplicates", "ignored", "verdict"),
    "accepted 1: new, and on disk; duplicates 1: this seq was reported before, and its first report stands.",
    run_id=str,
    seq=int,
)
Ended = _part(
    RunPage,
    ("run_id", "status", "finished_at", "comparison", "evidence"),
    "How the run ended and how what happened compares with what was predicted.",
    run_id=str,
)
Remembered = _part(
    CompetitionAdded,
    ("slug", "title", "task", "version", "inferred"),
    "inferred: fields that were read from the description, because nobody said them.",
    row=CompetitionAdded,
)
RememberedSolution = _part(Solution, ("id", "version"), row=Solution)
