"""The profile that a sizing question means: a known one, one between two sizes, or one traced now.

A model that nobody profiled is traced once and cached; nothing is written to the database.
"""

from typing import Any, Literal

from memory_service.domain.cost.bands import COLOURS, with_bands
from memory_service.domain.cost.decoders.decoder import TRAINERS, USUAL_RANK, Tuning, decoder_of
from memory_service.domain.cost.decoders.tower import tuned_profile
from memory_service.domain.cost.mask_classes import with_mask_classes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import (
    CatalogueModel,
    architecture_of,
    can_take,
    check_side,
)
from memory_service.domain.planning.model_names import built_name
from memory_service.errors import InvalidInput, wrong_value
from memory_service.schemas.predict import SIZE_FIELDS, PredictRequest
from memory_service.services.knowledge.profiling import (
    may_be_built,
    profile_in_child_process,
    require_tracing,
)
from memory_service.services.knowledge.snapshot import Knowledge

MOST_TRACES = 16
"""Models traced for one request; a question past them is refused with the command that profiles a model."""

MOST_TRACED = 512

PrecisionClass = Literal["fp32", "amp"]


class TraceBudget:
    """How many models this request may still have traced."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def spend(self, model: str) -> None:
        self.left -= 1
        if self.left < 0:
            limit = f", and one request traces at most {self.most} models" if self.most else " at this size"
            detail = f"{model!r} is not profiled{limit}; run `memory-service profile {model}` first"
            raise wrong_value("model", "not profiled yet", model, detail=detail)


def _traced(
    knowledge: Knowledge,
    name: str,
    size: int | None,
    kind: PrecisionClass,
    row: CatalogueModel | None,
    budget: TraceBudget,
    checkpointing: bool,
) -> Profile:
    """The traced profile. What cannot be traced is not tried again. One trace at a time, since each takes a
    core for seconds; Unavailable where others wait for theirs."""

    def trace() -> Profile | InvalidInput:
        budget.spend(name)
        options: dict[str, Any] = (
            {"library": row.library, "config": row.config, "family": row.family} if row else {}
        )
        try:
            return profile_in_child_process(
                name, input_size=size, precision=kind, checkpointing=checkpointing, **options
            )
        except InvalidInput as error:
            return error

    key = (name, size, kind, checkpointing)
    known = knowledge.priced.caches.stored(_traced, key, trace, MOST_TRACED)
    if isinstance(known, InvalidInput):
        raise known
    return known


def requested_model(knowledge: Knowledge, given: str) -> tuple[CatalogueModel | None, str]:
    """The catalogue row of a name, or a name that timm can build; InvalidInput with the nearest names."""
    try:
        row = knowledge.listed_model(given)
    except InvalidInput as unknown:
        given = built_name(given)
        require_tracing(given, unknown)
        if may_be_built(given):
            return None, given
        raise
    return row, row.name


def requested_size(question: PredictRequest, row: CatalogueModel | None) -> int | None:
    """The input size asked for, in the model's own kind; None leaves it to the builder."""
    size: int | None = next((n for name in SIZE_FIELDS if (n := getattr(question, name)) is not None), None)
    return size if size is not None else (row.default_input_size if row else None)


def requested_profile(
    knowledge: Knowledge,
    question: PredictRequest,
    row: CatalogueModel | None,
    name: str,
    kind: PrecisionClass,
    budget: TraceBudget,
    shards: int = 1,
) -> Profile:
    """Known exactly, else between two known sizes, else traced now; InvalidInput where the model takes
    another kind of input than was given.

    shards   cards over which a decoder's weights lie spread"""
    profile = _found(knowledge, name, row, requested_size(question, row), kind, budget, question, shards)
    profile = with_bands(with_mask_classes(profile, question.n_classes or 0), question.bands or COLOURS)
    for field in SIZE_FIELDS:
        if getattr(question, field) is not None and field != profile.input_kind:
            takes, detail = profile.input_kind, f"{profile.model} takes {profile.input_kind}, not {field}"
            raise wrong_value(field, f"this model takes {takes}", detail=detail, nearest=(takes,))
    return profile


def _found(
    knowledge: Knowledge,
    name: str,
    row: CatalogueModel | None,
    size: int | None,
    kind: PrecisionClass,
    budget: TraceBudget,
    question: PredictRequest,
    shards: int,
) -> Profile:
    if row is not None and size is not None and decoder_of(row.config) is not None and _by_law(row, question):
        plain: dict[str, Any] = {"checkpointing": bool(question.gradient_checkpointing)}
        tuning = Tuning(
            question.method or "full", question.lora_rank or USUAL_RANK, shards=shards,
            head="sequence" if question.n_classes else "lm", **plain | TRAINERS[question.trainer],
        )  # fmt: skip
        outputs = question.n_classes or 2
        return tuned_profile(
            name, row.config, size, tuning, precision=kind, n_outputs=outputs, family=row.family
        )
    if row is not None and size is not None and row.input_kind == "image_size":
        check_side(row.library, row.name, row.config, size)
    saving = bool(question.gradient_checkpointing)
    if row is not None and size is not None and not saving:
        library = knowledge.priced.library
        shipped = library.plain(row, size, kind) if "traced_with" in row.config else None
        if shipped is not None:
            return shipped
        kin = architecture_of(name, row.library)
        sizes = [s for s in library.sizes.get(kin, ()) if (kin, s, kind) in library.profiles]
        known = library.traces.get((kin, size, kind, False))
        if size in sizes or can_take(row, size, sizes):
            known = library.between(kin, size, kind)
        if known is not None:
            return known
    return _traced(knowledge, name, size, kind, row, budget, saving)


def _by_law(row: CatalogueModel, question: PredictRequest) -> bool:
    """Whether a decoder is priced by formula; those of public tables that nobody tunes were traced."""
    asked = (
        question.method, question.lora_rank, question.gradient_checkpointing, question.n_classes,
        question.sharding, question.trainer,
    )  # fmt: skip
    return "methods" in row.config or any(value is not None for value in asked)
