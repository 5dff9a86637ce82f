"""The plan for a problem, or the refusal with the smallest change that fits.

Order of decisions: precision from the card, one batch per model from memory, throughput and updates, then
model, input size, epochs and folds together by utility (`domain.planning.plan_search`), then everything that
follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_service.domain.common.vocabulary import OBJECTIVES, size_of
from memory_service.domain.planning import contingency as advice
from memory_service.domain.planning import rationale as reasons
from memory_service.domain.planning.candidates import Choice, Lanes, search_case
from memory_service.domain.planning.expected_figures import expected_of, summary, timetable_of
from memory_service.domain.planning.plan import Plan, Refusal, gpu_facts, plan_id_of
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import Case, Shelf
from memory_service.domain.planning.relaxation import closest_changes
from memory_service.domain.prediction.device import provenance_warnings

__all__ = ["make_plan"]

SMALLER = 0.6
"""A "smaller" alternative has at most this share of the parameters."""


def make_plan(case: Case, shelf: Shelf, lanes: Lanes | None = None) -> Plan | Refusal:
    """The plan for a case, or the refusal with the smallest change that fits.

    lanes   of this very case, where it was already priced
    """
    pinned = case.question.precision
    unsupported = [card.key for card in case.cards if pinned and not card.supports(pinned)]
    lanes = lanes or search_case(case, shelf)
    choice = None if unsupported else lanes.best(case.question.objective, case.question.minutes)
    if choice is not None:
        return _plan(lanes, choice, shelf)
    why = reasons.why_not(lanes, unsupported)
    return Refusal(
        plan_id=plan_id_of(case.question.canonical(), {"feasible": False, "why": why}),
        task=case.task,
        size=size_of(case.n_train),
        gpu=gpu_facts(case.cards, case.visible, lanes.searches[0].table.usable_gib),
        minutes=case.question.minutes,
        metric=case.metric,
        why=why,
        closest=closest_changes(lanes, shelf),
        similar=case.similar,
        warnings=(*case.inferred, *case.warnings, *provenance_warnings(case.cards)),
        evidence=case.evidence,
    )


def _plan(lanes: Lanes, choice: Choice, shelf: Shelf) -> Plan:
    case, search, pick = lanes.case, choice.search, choice.pick
    settings = settings_of(search, pick)
    expected = expected_of(search, pick)
    stages = timetable_of(search, pick)
    option = search.table.options[pick.row]
    minutes = case.question.minutes
    training_end = stages[-3].deadline_minute
    first_fold = search.field.run_of(pick).first_fold.value / 60
    fill = expected.memory_percent if case.on_gpu and not option.is_trees else None
    left = minutes * (1 - case.policy.reserve_share) - expected.total_minutes.value
    spare = advice.spare_folds(
        settings["folds"], left, first_fold, option.learning.fold_gain, float(case.n_train)
    )
    return Plan(
        plan_id=plan_id_of(case.question.canonical(), _named(case, settings)),
        task=case.task,
        size=size_of(case.n_train),
        gpu=gpu_facts(case.cards, case.visible, search.table.usable_gib),
        minutes=minutes,
        metric=case.metric,
        settings=settings,
        expected=expected,
        timetable=stages,
        reserve_minutes=minutes - training_end,
        checks=advice.checks_of(option.model.name, option.model.params_m, fill, case.policy),
        on_trouble=advice.trouble_ladder(
            settings,
            trees=option.is_trees,
            on_gpu=case.on_gpu,
            first_fold_percent=100 * first_fold / minutes,
            spare_folds=spare,
        ),
        alternatives=_alternatives(lanes, choice),
        similar=case.similar,
        rationale=reasons.rationale(search, pick, settings, expected, spare),
        warnings=(*case.inferred, *case.warnings, *reasons.warnings(search, pick, settings, expected)),
        evidence=(*reasons.evidence(search, pick, expected, shelf), *case.evidence),
        facts=case.facts,
    )


def _named(case: Case, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an id stands for: another metric of the competition is another script."""
    return {**settings, **({"metric": case.metric.name} if case.metric else {})}


def _alternatives(lanes: Lanes, chosen: Choice) -> tuple[dict[str, Any], ...]:
    """What the other objectives would choose, and a smaller model that also fits."""
    question = lanes.case.question
    out = []
    for objective in OBJECTIVES:
        other = lanes.best(objective, question.minutes)
        if objective != question.objective and other is not None:
            out.append({"objective": objective, **summary(other.search, other.pick)})
    mine = chosen.search.table.options[chosen.pick.row].model
    smaller = lanes.best(
        question.objective,
        question.minutes,
        lambda table: (table.columns.params_m < SMALLER * mine.params_m) & (table.columns.names != mine.name),
    )
    if smaller is not None:
        out.append({"objective": "smaller", **summary(smaller.search, smaller.pick)})
    return tuple(out)
