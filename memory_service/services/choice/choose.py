"""Which box, which plan on it, which time limit, what cost: `POST /choose`, `memory-service choose`.

    choose_offer(database, checked(ChooseRequest, {"task": "image", "offers": [...]}))   -> the answer

Asking writes nothing. What fits is decided by `domain.choice` on the plans that /recommend chooses among.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, inf
from operator import attrgetter
from typing import Any

import numpy as np

from memory_service.domain.choice.choice import (
    Chosen,
    Limits,
    Pick,
    PricedOffer,
    choose,
    interruption,
    next_offers,
)
from memory_service.domain.choice.offer import Aim, Offer, common_boxes, p95, start_up
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.resources import resources_in
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.learning.shrinkage import SAME_FIGURE
from memory_service.domain.planning.candidates import Candidate, CandidateSets, price_candidates
from memory_service.domain.planning.expected_figures import summary
from memory_service.domain.planning.refusal import closest_changes
from memory_service.domain.planning.request import MOST_MINUTES, Question
from memory_service.domain.planning.run_seconds import Seconds
from memory_service.domain.prediction.device import provenance_warnings
from memory_service.domain.prediction.trust import heard_rows, near_figures
from memory_service.errors import InvalidInput, wrong_value
from memory_service.schemas.choose import ChooseRequest
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER, still_wanted
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import RequestText, read_request_text
from memory_service.store.queries import outcomes

ASSUMED_DEADLINE = 720.0
"""A session of Kaggle and Colab, where nobody says how long it may take."""

MOST_START_UPS, POOLED = 300, 5
MOST_SCOPES = 2
"""Offers that do not fit of which the smallest change is sought: each prices several questions."""

_LEAST_SCRIPT = 0.1

_OF_BOXES = ("gpu", "cpu_count", "minutes")

WHY = {
    "memory": "no plan fits its memory",
    "time": "no plan ends within its time, start-up included",
    "budget": "the cheapest plan costs more than the budget",
    "price-unknown": "its price is not known, so it cannot be held against the budget",
}

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Box:
    """An offer with its candidates; what bounds the script alone is part of the offer's `minutes_max`."""

    priced: PricedOffer
    sets: CandidateSets


def choose_offer(database: Database, request: ChooseRequest, limit: Mode = "open") -> Values:
    """Each offer with its best plan, time limit and cost; the recommended one, why, and what more buys.

    limit   the most of memory that the caller may use
    InvalidInput for unknown cards, models and values; NotFound for an unknown competition.
    """
    knowledge, question = knowledge_of(database), request.to_domain().within(limit)
    text = read_request_text(database, question)
    built_in = request.offers is None
    offers = [row.to_offer() for row in request.offers or ()] if not built_in else common_boxes()
    aim: Aim = request.objective or "balanced"
    script = script_minutes(knowledge, question)
    deadline = request.deadline_minutes
    assumed = deadline is None and script is None
    limits = Limits(ASSUMED_DEADLINE if assumed else deadline, request.budget)
    boxes = priced_boxes(database, knowledge, question, text, offers, limits, script)
    chosen = choose([box.priced for box in boxes], aim, limits)
    rows = [_row(box, pick, limits) for box, pick in zip(boxes, chosen.picks, strict=True)]
    best = chosen.recommended
    of_case = boxes[best.place if best else 0].sets.problem
    warnings = [*_warnings(boxes, aim, built_in=built_in, assumed=assumed), *of_case.warnings]
    if best is None:
        why = dict.fromkeys(WHY[row["why"]] for row in rows)
        warnings.insert(0, sentence("nothing-fits-offers", why="; ".join(why)))
    return {
        "task": of_case.task,
        "objective": aim,
        "recommended": boxes[best.place].priced.offer.name if best else None,
        "reasons": [each.as_dict() for each in _reasons(boxes, chosen, aim, limits)],
        "more": _more(boxes, chosen),
        "offers": rows,
        "frontier": [_point(boxes[pick.place], pick) for pick in chosen.frontier],
        "scope": _scope(knowledge, boxes, limits),
        "built_in": built_in,
        "facts": [fact.as_dict() for fact in of_case.facts if fact.name not in _OF_BOXES],
        "warnings": [each.as_dict() for each in (*warnings, *of_case.inferred)],
        "knowledge_revision": knowledge.revision,
    }


def script_minutes(knowledge: Knowledge, question: Question) -> float | None:
    """What the script alone may take, as asked or as the description says; None where nobody does."""
    if question.minutes_given:
        return question.minutes
    read = resources_in(question.description or "", knowledge.cards.models).get("minutes")
    return None if read is None else min(float(read), MOST_MINUTES)


def priced_boxes(
    database: Database,
    knowledge: Knowledge,
    question: Question,
    text: RequestText,
    offers: Sequence[Offer],
    limits: Limits,
    script: float | None,
) -> list[Box]:
    """Every plan on every offer; alike ones are priced once."""
    told, known, boxes = _start_ups(database, knowledge.revision), dict[Any, CandidateSets](), list[Box]()
    for place, given in enumerate(offers):
        still_wanted()
        with _named(place, given):
            starts = start_up(given, *_told_of(knowledge, given, told))
            longest = inf if script is None else script + p95(starts)
            offer = replace(given, minutes_max=min(given.minutes_max or inf, longest))
            key = offer.gpu, offer.n_gpus, offer.cpu_count, offer.vram_gib, offer.memory_gib
            bare = PricedOffer.of(offer, starts, np.zeros(0), np.zeros(0))
            minutes = min(MOST_MINUTES, max(_LEAST_SCRIPT, bare.most_minutes(limits) - p95(starts)))
            if key not in known:
                known[key] = _candidates(knowledge, question, text, offer, minutes)
        sets = known[key]
        problem = replace(sets.problem, question=replace(sets.problem.question, minutes=minutes))
        priced = PricedOffer.of(offer, starts, *sets.flat())
        boxes.append(Box(priced, replace(sets, problem=problem)))
    return boxes


def _candidates(
    knowledge: Knowledge, question: Question, text: RequestText, offer: Offer, minutes: float
) -> CandidateSets:
    on_card = replace(
        question, gpus=(offer.gpu.strip().lower(),), cpu_count=offer.cpu_count, vram_gib=offer.vram_gib,
        n_gpus=offer.n_gpus if offer.n_gpus > 1 else None, minutes=minutes, minutes_given=True,
    )  # fmt: skip
    problem = replace(case_of(knowledge, on_card, text), host_gib=offer.memory_gib)
    return price_candidates(problem, knowledge)


@contextmanager
def _named(place: int, offer: Offer) -> Iterator[None]:
    """Refusals of what an offer says name the offer."""
    try:
        yield
    except InvalidInput as error:
        if not any(each.field in ("gpu", "n_gpus", "vram_gib", "cpu_count") for each in error.errors):
            raise
        raise wrong_value(f"offers.{place}", f"({offer.name}): {error.detail}", offer.gpu) from None


def _start_ups(database: Database, revision: int) -> Mapping[str, list[float]]:
    """Device, GPU model or "" (all) -> minutes that boxes took to start, as the latest runs told of which
    reports count for whoever asks."""

    def read() -> list[outcomes.StartUp]:
        with database.read() as transaction:
            told = outcomes.start_ups(transaction.session, MOST_START_UPS)
        return [row for row in told if row.minutes < 1440.0]

    told = heard_rows(
        database.caches.stored(_start_ups, revision, read, 1), ASKER.get(),
        told_by=attrgetter("told_by"), case=attrgetter("gpu"),
        agree=lambda one, other: near_figures(one.minutes, other.minutes, SAME_FIGURE),
    )  # fmt: skip
    found: dict[str, list[float]] = {}
    for row in told:
        for name in {row.device, row.gpu, ""}:
            found.setdefault(name, []).append(row.minutes)
    return found


def _told_of(knowledge: Knowledge, offer: Offer, told: Mapping[str, list[float]]) -> tuple[list[float], str]:
    """What runs told of the host itself, else of its card, else of all, where these are enough."""
    card = knowledge.gpu(counted(offer.gpu)[1])
    for name in dict.fromkeys((card.device or card.slug, card.slug)):
        if name in told:
            return told[name], name
    every = told.get("", [])
    return (every, "other boxes") if len(every) >= POOLED else ([], "")


def _row(box: Box, pick: Pick | None, limits: Limits) -> Values:
    offer, start = box.priced.offer, box.priced.start_up
    card = box.sets.problem.cards[0]
    row = {
        "name": offer.name,
        "gpu": card.key,
        "n_gpus": box.sets.problem.together.n,
        "price_per_hour": offer.price_per_hour,
        "price_source": offer.price_source,
        "fits": pick is not None,
        "why": box.priced.why_not(limits),
        "start_up_minutes": start.as_dict(),
        **dict.fromkeys(_OF_A_PICK),
    }
    if pick is None:
        return row
    candidate = box.sets.at(pick.plan)
    whole = wall_minutes(box.sets, candidate, start)
    ask_for, limit_minutes = _limit(box, pick, limits)
    cost = None if offer.price_per_hour is None else whole.scaled(offer.price_per_hour / 60.0)
    run, trees = candidate.run(), candidate.option.is_trees
    every = float((run.fold if trees else run.epoch).value) / 60.0
    done = float(box.sets.total_end(candidate).value) / 60.0
    most = offer.cost(limit_minutes)
    return row | {
        "plan": summary(candidate),
        "minutes": whole.as_dict(),
        "time_limit_minutes": limit_minutes,
        "cost": cost and cost.as_dict(),
        "most_cost": None if most is None else round(most, 4),
        "ask": asked_for(box, ask_for),
        "interruption": interruption(start, done, every) if offer.spot else None,
    }


_OF_A_PICK = ("plan", "minutes", "time_limit_minutes", "cost", "most_cost", "ask", "interruption")


def wall_minutes(sets: CandidateSets, candidate: Candidate, start: Estimate) -> Estimate:
    """From ordering the box to the end of its script, what runs before the candidate included."""
    starts = Seconds.of(start).times(60.0)
    whole = sets.total_end(candidate).and_independent(starts).times(1.0 / 60.0)
    low, value, high = float(whole.low), float(whole.value), float(whole.high)
    basis = f"timetable, and a start-up {start.basis}"
    return Estimate(value, max(low, 0.0), high, "estimated", start.n, basis)


def _limit(box: Box, pick: Pick, limits: Limits) -> tuple[float, float]:
    """Minutes for the script and the time limit, each rounded up where the limits leave room for it."""
    most, start = box.priced.most_minutes(limits), p95(box.priced.start_up)
    script = pick.limit_minutes - start
    rounded = ceil(10.0 * script) / 10.0
    script = rounded if rounded + start <= most else script
    whole = float(ceil(script + start))
    return script, whole if whole <= most else script + start


def asked_for(box: Box, minutes: float) -> Values:
    """What asks /recommend for a plan of this offer, beside the question's own fields."""
    offer, n = box.priced.offer, box.sets.problem.together.n
    named: Values = {"gpu": counted(offer.gpu)[1], "n_gpus": n if n > 1 else None}
    named |= {"cpu_count": offer.cpu_count, "vram_gib": offer.vram_gib}
    named |= {"minutes": minutes, "objective": "quality"}
    return {name: value for name, value in named.items() if value is not None}


def _point(box: Box, pick: Pick) -> Values:
    option = box.sets.at(pick.plan).option
    figures = {"cost": pick.cost, "minutes": pick.minutes, "quality_index": pick.quality}
    shown = {name: None if value is None else round(value, 4) for name, value in figures.items()}
    return {"offer": box.priced.offer.name, "model": option.model.name, **shown}


def _more(boxes: Sequence[Box], chosen: Chosen) -> Values | None:
    """What one unit of money more buys."""
    best, more = chosen.recommended, chosen.more
    if best is None or more is None or more.cost is None or best.cost is None:
        return None
    costs = [_usual_cost(boxes[pick.place], pick)[1] or 0.0 for pick in (best, more)]
    gained = {"costs_more": round(costs[1] - costs[0], 4), "points": round(more.quality - best.quality, 2)}
    return _point(boxes[more.place], more) | gained


def _usual_cost(box: Box, pick: Pick) -> tuple[float, float | None]:
    """(minutes from the order to the end, what they cost), as the offer's row has them."""
    minutes = wall_minutes(box.sets, box.sets.at(pick.plan), box.priced.start_up).value
    return minutes, box.priced.offer.cost(minutes)


def _said(box: Box, pick: Pick) -> Values:
    """Offer, quality, usual minutes and their cost, for a sentence."""
    minutes, cost = _usual_cost(box, pick)
    unit = "" if box.priced.offer.price_source == "as asked" else " US dollars"
    money = "" if cost is None else f", for {cost:.2f}{unit}" if cost else ", free of charge"
    said = {"offer": box.priced.offer.name, "quality": pick.quality}
    return {**said, "minutes": minutes, "cost": money}


def _reasons(boxes: Sequence[Box], chosen: Chosen, aim: Aim, limits: Limits) -> list[Sentence]:
    """Three: what it is, what comes next, which limit."""
    best = chosen.recommended
    if best is None:
        return []
    box, other = boxes[best.place], chosen.next
    fits, start = sum(pick is not None for pick in chosen.picks), box.priced.start_up
    model = box.sets.at(best.plan).option.model.name
    counts = {"aim": aim, "fits": fits, "offers": len(boxes)}
    wins = sentence("choose-wins", model=model, **counts, **_said(box, best))
    if other is not None:
        second = sentence("choose-rival", **_said(boxes[other.place], other))
    else:
        second = sentence("choose-alone", why="" if len(boxes) == 1 else " within these limits")
    script, whole = _limit(box, best, limits)
    said = {"limit": whole, "script": script, "start_up": p95(start), "basis": start.basis}
    return [wins, second, sentence("choose-limit", **said)]


def _warnings(boxes: Sequence[Box], aim: Aim, *, built_in: bool, assumed: bool) -> list[Sentence]:
    offers = [box.priced.offer for box in boxes]
    lacking = [offer.name for offer in offers if offer.price_per_hour is None]
    found = [sentence("deadline-assumed", minutes=ASSUMED_DEADLINE)] if assumed else []
    if len(lacking) == len(offers):
        found += [sentence("no-prices")] if aim == "cheapest" else []
    elif lacking:
        found.append(sentence("prices-missing", offers=", ".join(lacking)))
    if built_in:
        dated = dict.fromkeys(o.price_source for o in offers if o.price_per_hour and o.price_source)
        found.append(sentence("prices-dated", sources="; ".join(map(str, dated))))
    cards = {card.key: card for box in boxes for card in box.sets.problem.cards}
    return found + provenance_warnings(cards.values())


def _scope(knowledge: Knowledge, boxes: Sequence[Box], limits: Limits) -> list[Values]:
    """Of the first offers that do not fit, side by side: the smallest change of the question on the same
    hardware, and the next offer that holds the question as it is."""
    priced = [box.priced for box in boxes]
    following = None
    if able := next_offers(priced, limits):
        place, plan = able[0]
        following = {"offer": priced[place].offer.name, "plan": summary(boxes[place].sets.at(plan))}
    out = list[Values]()
    for box in boxes:
        why = box.priced.why_not(limits)
        if why is None or why == "price-unknown" or len(out) == MOST_SCOPES:
            continue
        changes = closest_changes(box.sets, knowledge, 1, same_cards=True)
        change = changes[0] if changes else None
        shown = {"offer": box.priced.offer.name, "why": why, "same_hardware": change}
        out.append({**shown, "next_offer": following})
    return out
