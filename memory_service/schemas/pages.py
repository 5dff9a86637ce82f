"""Requests of the pages, which their addresses carry: the sizing table, the accuracy, the contradictions."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from memory_service.domain.cost.decoders.decoder import Method
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.predict import StepMode
from memory_service.schemas.runs import AccuracyQuery

DEFAULT_N_TRAIN = 10_000

Cursor = Annotated[str, Field(max_length=4_000)]
Search = Annotated[str, BeforeValidator(lambda given: given[:200] if isinstance(given, str) else given)]
LowerLine = Annotated[f.Line, AfterValidator(str.lower)]
Millions = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
"""Of parameters."""


class PageQuery(FromText, Request):
    """What an address says; an empty field of its form says nothing."""

    @classmethod
    def given(cls, asked: Any) -> Any:
        """The fields that say something, without the spaces around them."""
        return {name: text.strip() for name, text in asked.items() if text.strip()}


class SizingQuery(PageQuery):
    """Which models on which cards, with which settings."""

    q: Search = ""
    task: f.Task | None = None
    family: LowerLine | None = None
    library: LowerLine | None = None
    params_min: Millions | None = None
    params_max: Millions | None = None
    gpu: f.Line | None = None
    add: f.Line | None = None
    image_size: f.ImageSize | None = None
    seq_len: f.SeqLen | None = None
    precision: f.Precision | None = None
    optimizer: f.Optimizer | None = None
    mode: StepMode | None = None
    method: Method | None = None
    n_train: f.Rows = DEFAULT_N_TRAIN
    show: Literal["batch", "speed", "epoch"] = "batch"
    sort: Literal["name", "-name", "params_m", "-params_m", "quality_score", "-quality_score"] = "name"
    limit: Annotated[int, Field(ge=1, le=100)] = 25
    cursor: Cursor | None = None


class AccuracyPageQuery(PageQuery, AccuracyQuery):
    """Which runs are scored, and what is shown of them."""

    quantity: Literal[
        "samples_per_second",
        "peak_memory_gib",
        "peak_reserved_gib",
        "peak_allocated_gib",
        "epoch_seconds",
        "total_minutes",
    ] = "samples_per_second"
    by: Literal["family", "device"] = "family"
    """What the points are told apart by; of a run without a registered device, its GPU model."""
    last: Annotated[int, Field(ge=1, le=2_000)] = 200
    """Runs that are scored: enough to tell a coverage of 80 % from one of 70 %, and quick to read."""
