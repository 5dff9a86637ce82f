"""The plan for a problem, or the refusal with the smallest change that fits.

Order of decisions: precision from the card, one batch per model from memory, throughput and updates, then
model, input size, epochs and folds together by utility (`domain.planning.plan_search`), then everything that
follows from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from memory_service.domain.common.vocabulary import OBJECTIVES, size_of
from memory_service.domain.planning import checks_and_fallbacks as advice
from memory_service.domain.planning.batch_choice import Flags
from memory_service.domain.planning.candidates import Candidate, CandidateSet, CandidateSets, price_candidates
from memory_service.domain.planning.expected_figures import expected_of, summary, timetable_of
from memory_service.domain.planning.explanation import rationale as reasons
from memory_service.domain.planning.explanation.plan_warnings import warnings
from memory_service.domain.planning.plan import Plan, Refusal, gpu_facts, plan_id_of
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import CostProvider, PlanningProblem
from memory_service.domain.planning.relaxation import closest_changes
from memory_service.domain.prediction.device import provenance_warnings

SMALLER = 0.6
"""A "smaller" alternative has at most this share of the parameters, and needs less memory."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is planned, where more than one run shares the minutes.

    seeds     repeats of all folds
    minutes   the run's own; others: p90 minutes that other runs take of the question's
    by_objective   what the other objectives would choose
    planned   family -> the model of it that is trained
    """

    candidate: Candidate
    seeds: int
    minutes: float
    others: float
    by_objective: Mapping[str, Candidate]
    planned: Mapping[str, str]


def make_plan(
    problem: PlanningProblem,
    costs: CostProvider,
    all_sets: CandidateSets | None = None,
    choice: Choice | None = None,
) -> Plan | Refusal:
    """The plan for a problem, or the refusal with the smallest change that fits.

    all_sets   of this very problem, where it was already priced
    choice     made by `domain.portfolio`; without one the best single run is planned
    """
    pinned = problem.question.precision
    unsupported = [card.key for card in problem.cards if pinned and not card.supports(pinned)]
    all_sets = all_sets or price_candidates(problem, costs)
    if choice is None and not unsupported:
        choice = _single(all_sets)
    if choice is not None and not unsupported:
        return _plan(all_sets, choice, costs)
    why = reasons.why_not(all_sets, unsupported)
    return Refusal(
        plan_id=plan_id_of(problem.question.canonical(), {"feasible": False, "why": why}),
        task=problem.task,
        size=size_of(problem.n_train),
        gpu=gpu_facts(problem.cards, problem.visible, all_sets.sets[0].table.usable_gib),
        minutes=problem.question.minutes,
        metric=problem.metric,
        why=why,
        closest=closest_changes(all_sets, costs),
        similar=problem.similar,
        warnings=(*problem.inferred, *problem.warnings, *provenance_warnings(problem.cards)),
        evidence=problem.evidence,
        recipe=recipe_answer(all_sets),
        targets=problem.targets,
    )


def _single(all_sets: CandidateSets) -> Choice | None:
    """The best run for all the minutes."""
    question = all_sets.problem.question
    best = {name: all_sets.best(name, question.minutes) for name in OBJECTIVES}
    found = {name: candidate for name, candidate in best.items() if candidate is not None}
    chosen = found.pop(question.objective, None)
    return None if chosen is None else Choice(chosen, 1, question.minutes, 0.0, found, {})


def _plan(all_sets: CandidateSets, choice: Choice, costs: CostProvider) -> Plan:
    problem, candidate, option = all_sets.problem, choice.candidate, choice.candidate.option
    settings = settings_of(candidate)
    expected = expected_of(candidate, choice.seeds)
    stages = timetable_of(candidate, choice.seeds)
    minutes = choice.minutes
    training_end = stages[-3].deadline_minute
    first_fold = candidate.run().first_fold.value / 60
    fill = expected.memory_percent if problem.on_gpu and not option.is_trees else None
    left = problem.question.minutes * (1 - problem.policy.reserve_share) - expected.total_minutes.value
    left -= choice.others
    spare = None  # by time more folds add nothing to what is submitted
    if not problem.by_time:
        gain = option.learning.fold_gain
        n_train, most = problem.n_train, problem.most_folds
        spare = advice.spare_folds(settings["folds"], left, first_fold, gain, float(n_train), most)
    return Plan(
        plan_id=plan_id_of(problem.question.canonical(), named_settings(problem, settings)),
        task=problem.task,
        size=size_of(problem.n_train),
        gpu=gpu_facts(problem.cards, problem.visible, candidate.candidates.table.usable_gib),
        minutes=minutes,
        metric=problem.metric,
        settings={**settings, "seeds": choice.seeds},
        expected=expected,
        timetable=stages,
        reserve_minutes=minutes - training_end,
        checks=advice.checks_of(option.model.name, option.model.params_m, fill, problem.policy),
        on_trouble=advice.trouble_ladder(
            settings,
            trees=option.is_trees,
            on_gpu=problem.on_gpu,
            first_fold_percent=100 * first_fold / minutes,
            training_percent=100 * training_end / minutes,
            spare_folds=spare,
        ),
        alternatives=_alternatives(all_sets, choice),
        similar=problem.similar,
        rationale=reasons.rationale(
            candidate, settings, expected, spare, sum(len(s.table.options) for s in all_sets.sets)
        ),
        warnings=(
            *problem.inferred,
            *problem.warnings,
            *warnings(candidate, settings, expected, choice.others > 0),
        ),
        evidence=(*problem.evidence, *reasons.evidence(candidate, expected, costs)),
        facts=problem.facts,
        recipe=recipe_answer(all_sets, choice.planned),
        targets=problem.targets,
    )


def recipe_answer(
    all_sets: CandidateSets, planned: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any] | None:
    """The recipe of a problem, with the model that would be planned of each family; planned: family -> the
    model that is."""
    recipe = all_sets.problem.recipe
    if recipe is None:
        return None
    return recipe.as_dict({**all_sets.best_of_families([vote.name for vote in recipe.families]), **planned})


def named_settings(problem: PlanningProblem, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an id stands for: another metric of the competition is another script."""
    return {**settings, **({"metric": problem.metric.name} if problem.metric else {})}


def _alternatives(all_sets: CandidateSets, choice: Choice) -> tuple[dict[str, Any], ...]:
    """What the other objectives would choose where that is another run, and a smaller model that needs less
    memory."""
    question = all_sets.problem.question
    chosen = choice.candidate
    shown = summary(chosen)
    others = {name: summary(other) for name, other in choice.by_objective.items()}
    out = [{"objective": name, **other} for name, other in others.items() if other != shown]
    mine, peak = chosen.option.model, chosen.grid.batches.peak_gib[chosen.pick.row]

    def is_smaller(each: CandidateSet) -> Flags:
        columns = each.table.columns
        lighter: Flags = ~(each.grid.batches.peak_gib >= peak)  # of trees it is not known
        lighter &= (columns.params_m < SMALLER * mine.params_m) & (columns.names != mine.name)
        return lighter

    smaller = all_sets.best(question.objective, choice.minutes, is_smaller)
    if smaller is not None:
        out.append({"objective": "smaller", **summary(smaller)})
    return tuple(out)
