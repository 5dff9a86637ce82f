"""What is left of the minutes after some runs of a plan: nothing is stored, the plan is made again."""

from collections.abc import Sequence
from dataclasses import replace

from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.portfolio.portfolio_plan import done_runs
from memory_service.domain.quality.conditioning import points_of_metric
from memory_service.errors import Conflict, FieldError, wrong_value
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.noted_plan import plan_with_note


def left_of(knowledge: Knowledge, case: PlanningProblem) -> PlanningProblem:
    """The problem of the minutes that are left after `done`. Conflict where `after` is not what this question
    is answered with now; InvalidInput for runs that its portfolio has not, and where no minute is left."""
    question = case.question
    before = replace(case, question=replace(question, after=None, done=(), run=None))
    chosen_from, plan = plan_with_note(knowledge, before, price_candidates(before, knowledge))
    if plan.plan_id != question.after:
        message = f"is not the plan of this question: that is {plan.plan_id}"
        detail = f"after {question.after} {message}; repeat all its fields, or plan anew if knowledge changed"
        raise Conflict(detail, [FieldError("after", message, question.after, (plan.plan_id,))])
    left = question.minutes - sum(run.minutes for run in question.done)
    if left <= 0.0:
        message = f"took all of the {question.minutes:g} minutes: nothing is left to plan"
        raise wrong_value("done", message, question.minutes - left)
    done = done_runs(chosen_from, question.done)
    reached = _reached(case, [run.model for run in done])
    question = replace(question, minutes=left)
    return replace(case, question=question, done=done, results={**case.results, **reached})


def _reached(case: PlanningProblem, models: Sequence[str]) -> dict[str, float]:
    """Model -> points of the metric that its run reached; none where nobody knows which way that improves."""
    direction = case.metric.direction if case.metric is not None else None
    if direction is None:
        return {}
    found: dict[str, float] = {}
    for model, run in zip(models, case.question.done, strict=True):
        if run.metric is None:
            continue
        points = points_of_metric(run.metric, direction, case.data_kind.table)
        if points is not None:
            found[model] = max(points, found.get(model, points))
    return found
