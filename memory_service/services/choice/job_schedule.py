"""Several jobs on the same boxes: `POST /schedule`. What runs where and when, or what is late."""

from memory_service.domain.choice.choice import Limits, Pick, choose
from memory_service.domain.choice.offer import p95
from memory_service.domain.choice.schedule import Job, schedule
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.planning.expected_figures import summary
from memory_service.schemas.choose import ScheduleRequest
from memory_service.services.choice.choose import (
    ASSUMED_DEADLINE,
    Box,
    Values,
    asked_for,
    priced_boxes,
    script_minutes,
)
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.planning.request_text import read_request_text

HOW = (
    "Jobs are taken by deadline, the earliest first; each goes to the box where it ends first, by its time "
    "limit; a job gives way to its shortest plan where another would be late. What is late even so is said "
    "with the minute at which it would end behind the others."
)


def schedule_jobs(database: Database, request: ScheduleRequest, limit: Mode = "open") -> Values:
    """Slots that keep every deadline by the jobs' time limits; `late`: jobs for which there is none. Raises
    as `choose_offer` does."""
    knowledge, offers = knowledge_of(database), [row.to_offer() for row in request.offers]
    jobs, boxes_of = list[Job](), list[list[Box]]()
    picks: dict[tuple[int, int], tuple[Pick, Pick]] = {}
    for place, asked in enumerate(request.jobs):
        question = asked.to_domain().within(limit)
        script, deadline = script_minutes(knowledge, question), asked.deadline_minutes
        limits = Limits(ASSUMED_DEADLINE if deadline is None and script is None else deadline)
        text = read_request_text(database, question)
        boxes = priced_boxes(database, knowledge, question, text, offers, limits, script)
        priced = [box.priced for box in boxes]
        wanted = choose(priced, asked.objective or "balanced", limits).picks
        short = choose(priced, "fastest", limits).picks
        lengths = dict[int, tuple[float, float]]()
        for number, (best, shortest) in enumerate(zip(wanted, short, strict=True)):
            if best is not None and shortest is not None:
                least = min(best, shortest, key=lambda pick: pick.limit_minutes)
                picks[place, number] = best, least
                lengths[number] = best.limit_minutes, least.limit_minutes
        jobs.append(Job(asked.name, deadline, lengths))
        boxes_of.append(boxes)
    plan = schedule(jobs, len(offers))
    cost = plan.cost([box.priced for box in boxes_of[0]])
    slots = list[Values]()
    for slot in plan.slots:
        box, pick = boxes_of[slot.job][slot.box], picks[slot.job, slot.box][slot.short]
        slots.append({
            "job": jobs[slot.job].name,
            "offer": box.priced.offer.name,
            "start_minute": round(slot.start, 2),
            "end_minute": round(slot.end, 2),
            "shortest_plan": slot.short,
            "plan": summary(box.candidate(pick.plan)),
            "ask": asked_for(box, pick.limit_minutes - p95(box.priced.start_up)),
        })  # fmt: skip
    late = [
        {"job": jobs[job].name, "would_end_minute": None if end is None else round(end, 2)}
        for job, end in plan.late
    ]
    over = request.budget is not None and (cost is None or cost > request.budget)
    return {
        "feasible": not late and not over,
        "slots": slots,
        "late": late,
        "ends_minute": max((slot["end_minute"] for slot in slots), default=0.0),
        "most_cost": None if cost is None else round(cost, 4),
        "over_budget": over,
        "how": HOW,
        "knowledge_revision": knowledge.revision,
    }
