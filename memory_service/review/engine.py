"""Runs a review: text, tree, index, then every group of rules; linear in the length of the script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from memory_service.review.facts import Context, Facts
from memory_service.review.findings import Finding, Place, finding, head_of, in_order
from memory_service.review.rules import (
    folds,
    hardware,
    leakage,
    loss,
    own_settings,
    stopping_and_schedules,
    torch_loop,
)
from memory_service.review.rules.hardware import has_reason, small_batches
from memory_service.review.rules.libraries import parameters, vision
from memory_service.review.source.project import Places, TooLong, Unreadable, run_of, source_of
from memory_service.review.source.script import Script
from memory_service.review.training import Training
from memory_service.review.training_plan import TrainingPlan, training_plan_of
from memory_service.review.values.mappings import expand
from memory_service.review.values.values import Values

MOST_FINDINGS = 200
FAILED, TOO_DEEP = "could not be applied to this script", "the script is nested too deep for them"
_MISTAKES = (RecursionError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError)

_GROUPS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    hardware.loader_rules, hardware.precision_rules, hardware.memory_rules,
    stopping_and_schedules.time_rules, folds.fold_rules, folds.missing_fold_rules,
    leakage.split_rules, leakage.row_rules, leakage.target_rules,
    leakage.code_rules, leakage.held_out_rules, torch_loop.eval_rules, vision.timm_rules,
    vision.albumentations_rules, parameters.parameter_rules, parameters.boosting_rules,
    stopping_and_schedules.watched_rules, stopping_and_schedules.logged_rules,
    loss.score_rules, loss.loss_rules, loss.objective_rules, torch_loop.loop_rules, own_settings.own_rules,
)  # fmt: skip
Known = TypeVar("Known")


@dataclass(frozen=True)
class Reviewed(Generic[Known]):
    """Findings by line, what was left out and why, facts (None: not readable), and the places of lines."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    facts: Known | None
    places: Places | None = None


def review_source(
    script: bytes | str,
    context: Context | None = None,
    files: Mapping[str, str] | None = None,
    name: str = "",
) -> Reviewed[Facts]:
    """The review of a script or notebook. TooLarge over 1 MiB of code; never another error."""
    try:
        source = source_of(script, files or {}, name)
    except Unreadable as why:
        return Reviewed((_unreadable(why),), ("every other rule",), None)
    except TooLong as why:
        return Reviewed((), (f"every rule: {why}",), None)
    read = Script(source.tree, source.text)
    values = Values(read)
    expand(values)
    asked, stated = context or Context(), getattr(read.own.get("TASK"), "value", None)
    if isinstance(stated, str) and stated.startswith(asked.task or ""):
        asked = replace(asked, task=stated)  # of a script of this service, where nobody asks for another
    facts = Facts(read, values, Training(read, values), asked, {"broken": source.broken})
    found: list[Finding] = [_unreadable(why) for why in source.broken]
    left_out: list[str] = []
    for group in _GROUPS:
        try:
            found.extend(islice(group(facts), max(1, MOST_FINDINGS + 1 - len(found))))
        except _MISTAKES as error:  # of a rule: it costs its findings, not those of all others
            reason = TOO_DEEP if isinstance(error, RecursionError) else f"{FAILED} ({type(error).__name__})"
            left_out.append(f"{group.__name__.replace('_', ' ')}: {reason}")
    if len(found) > MOST_FINDINGS:
        left_out.append(f"findings past the first {MOST_FINDINGS}")
    return Reviewed(in_order(found), tuple(left_out), facts, source.places)


def _unreadable(why: Unreadable) -> Finding:
    found = finding("syntax-error", why.line, why=why.why, fix=why.fix)
    return found if why.certain else replace(found, severity="warning")


@dataclass(frozen=True, slots=True)
class SizingFacts:
    """Facts for sizing. small_batches: by R28's limits alone; run: what the outputs of a notebook say."""

    plan: TrainingPlan
    small_batches: tuple[Finding, ...]
    batch_place: Place | None
    has_reason: bool
    plain_images: bool
    run: Mapping[str, Any] = field(default_factory=dict)


ReviewedText = Reviewed[SizingFacts]


def review_text(
    script: bytes | str,
    context: Context | None = None,
    files: Mapping[str, str] | None = None,
    name: str = "",
) -> ReviewedText:
    """`engine.review_source`, with the facts as plain values."""
    reviewed = review_source(script, context, files, name)
    if (facts := reviewed.facts) is None:
        return Reviewed(reviewed.findings, reviewed.not_checked, None, reviewed.places)
    plan = training_plan_of(facts)
    place = plan.batch_place
    known = SizingFacts(
        plan=replace(plan, batch_place=place and head_of(place), place=plan.place and head_of(plan.place)),
        small_batches=tuple(small_batches(facts)) if plan.trains else (),
        batch_place=place and head_of(facts.values.origin(place)),
        has_reason=place is not None and has_reason(facts, place, place),
        plain_images=facts.modality == "image" and not facts.dense,
        run=run_of(script),
    )
    return Reviewed(reviewed.findings, reviewed.not_checked, known, reviewed.places)
