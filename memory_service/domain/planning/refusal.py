"""Why nothing keeps the promises of a plan, with the smallest changes that would."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import FROM_RANDOM_WEIGHTS, modality_of, size_of
from memory_service.domain.cost.in_context import context_laws
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.planning.boosting_plan import context_on_card, limit_of
from memory_service.domain.planning.candidates import (
    Candidate,
    CandidateSets,
    host_limit_gib,
    host_share,
    precision_for,
    price_candidates,
)
from memory_service.domain.planning.expected_figures import summary
from memory_service.domain.planning.explanation.rationale import ran_out
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.plan import Refusal, gpu_facts, plan_id_of
from memory_service.domain.planning.problem import CostProvider, PlanningProblem
from memory_service.domain.planning.request import MOST_MINUTES, Question
from memory_service.domain.prediction.device import provenance_warnings

STEP_UP_CARDS = ("t4", "a10", "a100", "a100-80gb", "h100", "h200", "b200")
FASTER_CARDS = ("a100", "h200")
"""Cards one can commonly rent, by memory and speed: the next ones up are tried when the card is too small."""

MOST_ANSWERS = 3

SMALL_STEP = 1.5
"""A budget up to this much longer is a smaller change than giving up what was pinned."""

Change = tuple[dict[str, Any], str]


def refuse(problem: PlanningProblem, costs: CostProvider, all_sets: CandidateSets) -> Refusal:
    """Why nothing keeps the promises, with the smallest changes that would."""
    why = why_not(all_sets)
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
        warnings=(*problem.warnings, *problem.inferred, *provenance_warnings(problem.cards)),
        evidence=problem.evidence,
        recipe=None if problem.recipe is None else problem.recipe.as_dict({}),
        targets=problem.targets,
    )


def unsupported(problem: PlanningProblem) -> list[str]:
    """The cards that cannot compute the pinned precision."""
    pinned = problem.question.precision
    return [card.key for card in problem.cards if pinned and not card.supports(pinned)]


def model_limit(all_sets: CandidateSets) -> tuple[Option, str] | None:
    """Where every option was made for less than the data: the one that takes most rows, and which limit."""
    passed = [(option, limit_of(all_sets.problem, option)) for option in _options(all_sets)]
    if not passed or not all(why for _, why in passed):
        return None
    return max(passed, key=lambda each: context_laws()[each[0].model.name].limits.get("rows", 0))


def _options(all_sets: CandidateSets) -> list[Option]:
    return [option for each in all_sets.sets for option in each.table.options]


def why_not(all_sets: CandidateSets) -> Sentence:
    """One sentence: what stands in the way."""
    problem = all_sets.problem
    if cannot := unsupported(problem):
        named = {"cards": ", ".join(cannot), "precision": problem.question.precision}
        return sentence("precision-not-in-hardware", **named)
    if not any(candidates.table.options for candidates in all_sets.sets):
        names = ("image_size", "seq_len", "method", "weights", "licence")
        asked = {n: getattr(problem.question, n) for n in names}
        idle = (None, "hub", "any")
        by = " and ".join(f"{name}={value}" for name, value in asked.items() if value not in idle)
        if not by:
            return sentence("no-profile", model=problem.model or f"any model for {problem.task}")
        return sentence("left-out", by=by, model=problem.model or f"every model for {problem.task}")
    needed = all_sets.least_minutes()
    if needed == math.inf:
        if (passed := model_limit(all_sets)) is not None:
            return sentence("model-limit", model=passed[0].model.name, limit=passed[1])
        options = _options(all_sets)
        left = {option.model.name for option in options}
        bare = problem.question.weights == "none" and problem.model is None
        if bare and modality_of(problem.task) not in FROM_RANDOM_WEIGHTS:
            return sentence("few-without-weights", task=problem.task, models=", ".join(sorted(left)[:3]))
        share = host_share(problem, options)
        data = {"n_train": problem.n_train, "n_features": problem.n_features}
        if share is not None and share < 1.0:
            limit = host_limit_gib(problem)
            return sentence("host-too-small", **data, needed=limit / share, usable=limit)
        usable = all_sets.sets[0].table.usable_gib
        need = next(filter(None, (context_on_card(problem, option) for option in options)), None)
        if problem.model is not None and need is not None:
            return sentence("card-too-small", model=problem.model, **data, needed=need.high, usable=usable)
        batch = problem.question.batch_size
        what = f"batch {batch}" if batch else "even one sample"
        seen = {text for s in all_sets.sets for o in s.table.options if (text := ran_out(s, o))}
        if problem.model is not None and batch is not None and seen:
            named = {"model": problem.model, "seen": "; ".join(sorted(seen))}
            return sentence("ran-out-here", batch=batch, **named)
        return sentence("no-room", what=what, usable=usable)
    minutes = problem.question.minutes
    shown = next((s for n in (1, 2, 3) if float(s := f"{needed:.{n}f}") > minutes), f"{needed:g}")
    reserve = 100 * problem.policy.reserve_share
    return sentence("too-little-time", needed=shown, reserve=reserve, minutes=minutes)


def closest_changes(
    all_sets: CandidateSets, costs: CostProvider, most: int = MOST_ANSWERS, *, same_cards: bool = False
) -> tuple[dict[str, Any], ...]:
    """`{"set", "why", "plan"}` of up to `most` changes that make a plan feasible, the smallest first;
    `same_cards`: on these alone."""
    out: list[dict[str, Any]] = []
    offered: set[frozenset[str]] = set()

    def priced(changes: Mapping[str, Any]) -> CandidateSets | None:
        """None where a card cannot compute what is pinned then."""
        if changes.keys() == {"minutes"}:  # nothing is priced otherwise then
            return all_sets
        problem = _changed(all_sets.problem, changes, costs)
        return None if unsupported(problem) else price_candidates(problem, costs)

    def answer(changes: Mapping[str, Any]) -> Candidate | None:
        sets, question = priced(changes), all_sets.problem.question
        minutes = changes.get("minutes", question.minutes)
        return None if sets is None else sets.best(question.objective, minutes)

    # A model that the text names is named again when the text is read again.
    of_text = {"model"} & {fact.name for fact in all_sets.problem.facts if fact.source == "text"}
    for changes, why in chain(
        _changes(all_sets, costs, answer), _with_minutes(all_sets.problem, costs, priced, out)
    ):
        kind = frozenset(changes)
        if kind in offered or kind & of_text or (same_cards and kind & {"gpu", "plan_for"}):
            continue
        fitting = answer(changes)
        if fitting is not None:
            offered.add(kind)
            out.append({"set": changes, "why": why, "plan": summary(fitting)})
        if len(out) == most:
            break
    return tuple(out)


def _changed(problem: PlanningProblem, changes: Mapping[str, Any], costs: CostProvider) -> PlanningProblem:
    changes = dict(changes)
    card = changes.pop("plan_for", changes.pop("gpu", None))
    if card is not None:
        problem = replace(problem, cards=(costs.gpus[card],))
    n_train = changes.get("n_train")
    if n_train is not None:
        problem = replace(problem, n_train=n_train)
    if "model" in changes:
        problem = replace(problem, model=changes["model"])
    return replace(problem, question=replace(problem.question, **changes))


def _changes(
    all_sets: CandidateSets, costs: CostProvider, answer: Callable[[Mapping[str, Any]], Candidate | None]
) -> Iterator[Change]:
    problem, question = all_sets.problem, all_sets.problem.question
    precision = precision_for(problem.cards)
    cannot = unsupported(problem)
    if cannot:
        yield {"precision": precision}, "the best precision that the hardware computes"
    needed = all_sets.least_minutes()
    fits_memory = math.isfinite(needed)
    longer = {"minutes": _round_up(needed)} if fits_memory and needed <= MOST_MINUTES * 0.95 else None
    why_longer = "the shortest plan with everything else as asked"
    if longer and not cannot and needed <= SMALL_STEP * question.minutes:
        yield longer, why_longer
        longer = None
    host = host_share(problem, _options(all_sets))
    passed = None if fits_memory else model_limit(all_sets)
    if passed is not None:
        limits = context_laws()[passed[0].model.name].limits
        named = ("rows",) if problem.on_gpu else ("rows", "cores")
        most = min(limits.get(each, problem.n_train) for each in named)
        if "rows" in passed[1]:
            yield {"n_train": most}, f"a random sample of as many rows as {passed[0].model.name} takes"
        if question.model is not None:
            yield {"model": None}, "another model of the catalogue"
        return
    if fits_memory:
        yield from _shorter(problem, question.minutes / needed)
    elif host is not None and host < 1.0:
        yield from _less_data(problem, host)
    else:
        yield from _smaller(problem, answer)
    if longer:
        yield ({**longer, "precision": precision} if cannot else longer), why_longer
    if problem.on_gpu or not fits_memory:
        yield from _other_cards(problem, costs, FASTER_CARDS if fits_memory else STEP_UP_CARDS)
    if question.model is not None:
        yield {"model": None}, "another model of the catalogue"
    if fits_memory:
        yield from _less_data(problem, question.minutes / needed)
    free = {name: None for name in question.pinned if name != "model"}
    if free and question.model is not None:
        yield free, "nothing pinned but the model"
        free = {**free, "model": None}
    if free:
        yield free, "nothing pinned"


def _round_up(minutes: float) -> float:
    return float(math.ceil(minutes)) if minutes > 3 else math.ceil(minutes * 10) / 10


def _shorter(problem: PlanningProblem, share: float) -> Iterator[Change]:
    question = problem.question
    if question.epochs and question.epochs > 1:
        for factor in (1.0, 0.8, 0.5):
            fewer = max(1, int(question.epochs * share * factor))
            yield {"epochs": fewer}, "fewer epochs; early stopping usually ends sooner (R12, R16)"
    if question.folds and question.folds > 1:
        most = min(question.folds - 1, math.ceil(question.folds * share))
        for fewer in dict.fromkeys((most, max(1, most - 1), 1)):
            yield {"folds": fewer}, "fewer folds (R12, R17)"
    yield from _smaller_input(question)


def _smaller(
    problem: PlanningProblem, answer: Callable[[Mapping[str, Any]], Candidate | None]
) -> Iterator[Change]:
    question = problem.question
    if question.vram_gib:
        yield {"vram_gib": None}, "all the memory that the card has"
    if question.batch_size:
        why = "the largest batch that fits; accumulate gradients to keep the effective one"
        if question.model is None:
            fitting = answer({"batch_size": None})
            if fitting is not None and fitting.batch_size < question.batch_size:
                yield {"batch_size": fitting.batch_size}, "the batch that would be planned"
        else:
            yield from (
                ({"batch_size": rung}, why) for rung in reversed(BATCH_LADDER) if rung < question.batch_size
            )
    yield from _smaller_input(question)


def _smaller_input(question: Question) -> Iterator[Change]:
    for name, sizes in (
        ("image_size", (512, 384, 320, 256, 224, 160, 128, 96, 64, 32)),
        ("seq_len", (2048, 1024, 512, 256, 128)),
    ):
        pinned = getattr(question, name)
        if pinned:
            yield from (({name: size}, "a smaller input") for size in sizes if size < pinned)


def _other_cards(
    problem: PlanningProblem, costs: CostProvider, cards: Sequence[str] = STEP_UP_CARDS
) -> Iterator[Change]:
    tightest = min(problem.question.vram_gib or card.usable_gib for card in problem.cards)
    slowest = min(max(card.tflops.values(), default=0.0) for card in problem.cards)
    for slug in cards:
        card = costs.gpus.get(slug)
        if card is None or card in problem.cards:
            continue
        if card.usable_gib >= tightest and max(card.tflops.values()) > slowest:
            changes: dict[str, Any] = {"plan_for" if problem.question.plan_for else "gpu": slug}
            if problem.question.vram_gib is not None:
                changes["vram_gib"] = None
            yield changes, f"{card.name} ({card.memory_gib:g} GiB)"


def _with_minutes(
    problem: PlanningProblem,
    costs: CostProvider,
    priced: Callable[[Mapping[str, Any]], CandidateSets | None],
    found: Sequence[Any],
) -> Iterator[Change]:
    """Two changes at once, when no single one fits: another card or nothing pinned, and the minutes it
    takes."""
    free = dict.fromkeys(problem.question.pinned)
    for changes, why in (*_other_cards(problem, costs), (free, "nothing pinned")):
        if found:
            return
        sets = priced(changes) if changes else None
        needed = math.inf if sets is None else sets.least_minutes()
        if needed <= MOST_MINUTES * 0.95:
            yield {**changes, "minutes": max(problem.question.minutes, _round_up(needed))}, why


def _less_data(problem: PlanningProblem, share: float) -> Iterator[Change]:
    for factor in (0.8, 0.5, 0.25, 0.1):
        fewer = int(problem.n_train * min(1.0, share) * factor)
        if fewer >= 100:
            yield {"n_train": fewer}, "a random sample of the training data"
