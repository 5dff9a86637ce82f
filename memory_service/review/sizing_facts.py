"""A review and what sizing needs of its facts, as plain values that can leave the reading process."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memory_service.review.engine import Reviewed, review_source
from memory_service.review.facts import Context, Facts
from memory_service.review.findings import Finding, Place, head_of
from memory_service.review.rules.data_loader import has_reason, small_batches
from memory_service.review.training_plan import TrainingPlan, training_plan_of


@dataclass(frozen=True, slots=True)
class SizingFacts:
    """small_batches: by R28's limits alone; batch_place: where the batch is set, None where unknown;
    has_reason: whether a comment there gives one; plain_images: whether one label an image is learned."""

    plan: TrainingPlan
    small_batches: tuple[Finding, ...]
    batch_place: Place | None
    has_reason: bool
    plain_images: bool


ReviewedText = Reviewed[SizingFacts]


def review_text(
    script: bytes | str,
    context: Context | None = None,
    files: Mapping[str, str] | None = None,
    name: str = "",
) -> ReviewedText:
    """`engine.review_source`, with the facts as plain values."""
    reviewed = review_source(script, context, files, name)
    facts = None if reviewed.facts is None else _sizing_facts(reviewed.facts)
    return Reviewed(reviewed.findings, reviewed.not_checked, facts, reviewed.places)


def _sizing_facts(facts: Facts) -> SizingFacts:
    plan = training_plan_of(facts)
    place = plan.batch_place
    return SizingFacts(
        plan=replace(plan, batch_place=_head(place), place=_head(plan.place)),
        small_batches=tuple(small_batches(facts)) if plan.trains else (),
        batch_place=None if place is None else head_of(facts.values.origin(place)),
        has_reason=place is not None and has_reason(facts, place, place),
        plain_images=facts.modality == "image" and not facts.dense,
    )


def _head(place: ast.AST | None) -> ast.AST | None:
    return None if place is None else head_of(place)
