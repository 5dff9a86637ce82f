"""The verdict: which group of rules answers, in their order.

`verdict` is a pure function of what the run reported (in any order), what was expected of it and what it
stated when it began. Rules are asked in the order of what is lost if nobody acts; the first that asks for
something is the answer, the others become notes. docs/methods/watching.md has the rules and their constants.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.monitoring.batch_change import accumulation_for, smaller_rung
from memory_service.domain.monitoring.deadline import early_stopping, keeps_deadline, time_answer
from memory_service.domain.monitoring.end_of_training import Projection, project
from memory_service.domain.monitoring.gpu_fill import (
    Fill,
    fill_answer,
    fill_of,
    memory_trend,
    monitoring_answer,
)
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.slowdown import loader_answer, slow_answer, stall_answer
from memory_service.domain.monitoring.state import State
from memory_service.domain.monitoring.verdict import Answer, Verdict, keep_going

LATEST_SETUP_S = 120.0
"""A run that shows no sign of training is not asked for readings before 120 s: imports, weights and the
data's index take up to 45 s at p90 on a good day."""

FIRST_CHECK_SHARE = 0.25
"""A run that is a quarter over, or whose budget is, is judged, however short it is: R20's 60 s are of runs of
many minutes."""

LOWER_LEARNING_RATE = 0.3

DIVERGED = 3.0
"""Times the training loss of a fold's first epoch: the run unlearned what it had."""

ENDED = {"stopped": "stopped early and on purpose, by its script or whoever reported its end"}


def verdict(state: State) -> Verdict:
    """The answer for this state. The same events in any order give the same answer; it reads no clock."""
    view = RunView(state)
    fill = fill_of(view)
    projection = project(view)
    answers = list(_answers(view, fill, projection))
    first = next((a for a in answers if a.action != "continue"), None) or answers[0]
    found = (a.observation or a.why for a in answers if a is not first)
    others = tuple(dict.fromkeys(each for each in found if each != first.why))
    budget = state.budget_seconds
    return Verdict(
        action=first.action, set=first.set, why=first.why, rule=first.rule, severity=first.severity,
        eta_minutes=_eta(view, projection),
        budget_used_percent=None if budget is None else 100.0 * view.used / budget,
        reading=None if fill is None else fill.kind, fill_percent=None if fill is None else fill.percent,
        model_class=state.model_class, at_seconds=view.now, next_check_seconds=_next_check(view, projection),
        next_time=next((a.next_time for a in answers if a.next_time), {}), others=others,
    )  # fmt: skip


def _answers(view: RunView, fill: Fill | None, projection: Projection | None) -> Iterator[Answer]:
    """The answers of the rules, the most urgent first; there is always one."""
    if view.state.facts.status != "running":
        yield _ended(view)
        return
    late = time_answer(view, projection)
    time_is_up = late is not None and late.action == "stop_and_predict" and _has_something(late)
    all_at_once = (late if time_is_up else None, _out_of_memory(view), _bad_loss(view), stall_answer(view))
    at_once = [answer for answer in all_at_once if answer is not None]
    yield from at_once
    left = None if projection is None else max(0.0, projection.end.value - view.used)
    if not _may_check(view, projection):
        if late is not None and late.action == "stop_and_predict" and not time_is_up:
            at_once.append(late)
            yield late
        if not at_once:
            yield _wait(view, projection)
        return
    patience = early_stopping(view, projection)
    enough = patience is not None and late is not None and keeps_deadline(view, projection)
    rules = (
        patience if enough else None,
        None if time_is_up else late,
        memory_trend(view),
        patience,
        monitoring_answer(view, fill),
        loader_answer(view, in_time=late is None, left_seconds=left),
        fill_answer(view, fill, left),
        slow_answer(view, None if fill is None else (fill.percent, fill.kind), left),
    )
    applied = [answer for answer in rules if answer is not None]
    yield from applied or ([] if at_once else [keep_going(sentence("nothing-stands-out"), "R21")])


def _has_something(stop: Answer) -> bool:
    """Whether there is a model to predict with, or no time for anything else: then training is over."""
    return stop.rule == "R14" or stop.set.get("predict_with_folds", 0) > 0


def _first_check(view: RunView, projection: Projection | None) -> float:
    """R20's 60 s; a quarter of the budget, and of a run whose measured epochs say that it is shorter."""
    first, budget = view.state.expected.first_check_seconds, view.state.budget_seconds
    if budget is not None:
        first = min(first, FIRST_CHECK_SHARE * budget)
    if projection is None or not projection.certain:
        return first
    return min(first, FIRST_CHECK_SHARE * projection.end.value)


def _may_check(view: RunView, projection: Projection | None) -> bool:
    """The time of the first check, by the clock or by what the epochs took, and enough steps
    (`not_before_steps`): cuDNN has chosen its kernels."""
    expected, first = view.state.expected, _first_check(view, projection)
    if view.now < first and sum(e.seconds or 0.0 for e in view.epochs) < first:
        return False
    if view.epochs:
        return True
    if view.steps_seen is not None:
        return view.steps_seen >= expected.not_before_steps
    return view.summary.reading_us is not None or view.now >= LATEST_SETUP_S


def _wait(view: RunView, projection: Projection | None) -> Answer:
    first, steps = _first_check(view, projection), view.state.expected.not_before_steps
    if view.now < first:
        return keep_going(sentence("too-early", seconds=first), "R20")
    own, budget = view.state.facts.reserve_minutes, view.state.budget_seconds
    if own is not None and budget is not None and view.steps_seen is None:
        return keep_going(sentence("fits-itself", end=budget / 60.0 - own), "R20")
    return keep_going(sentence("few-steps", made=view.steps_seen or 0, steps=steps), "R20")


def _next_check(view: RunView, projection: Projection | None) -> float:
    """The first, then every 150 s (R21 says 120-180), in the run's own time."""
    first, every = _first_check(view, projection), view.state.expected.every_seconds
    if view.now < first:
        return first
    return first + every * ceil((view.now - first + 1e-9) / every) if every > 0 else view.now


def _eta(view: RunView, projection: Projection | None) -> Estimate | None:
    if projection is None:
        return None
    end = projection.end
    value, low, high = (max(0.0, t - view.used) / 60.0 for t in (end.value, end.low, end.high))
    return Estimate(value, min(low, value), max(high, value), end.grade, end.n, end.basis)


def _out_of_memory(view: RunView) -> Answer | None:
    """R02: halve the batch and keep the effective one."""
    when = view.summary.out_of_memory_us
    if when is None or when < view.state.since_us or _moved_on(view, when):
        return None
    batch = view.state.batch_size
    if not batch or batch < 2:
        why = sentence("out-of-memory-at-one")
        return Answer("investigate", why, "R02", {"gradient_checkpointing": True}, "critical")
    why = sentence("out-of-memory", batch=batch)
    return Answer("lower_batch", why, "R02", _halved(view, batch), "critical")


def _halved(view: RunView, batch: int) -> dict[str, Any]:
    half = smaller_rung(batch)
    return {"batch_size": half, **accumulation_for(view, half)}


def _moved_on(view: RunView, when_us: int) -> bool:
    """Whether steps went on for a minute after: the script caught it by itself."""
    return view.summary.step_us is not None and view.summary.step_us > when_us + 60_000_000


def _bad_loss(view: RunView) -> Answer | None:
    """The training loss became NaN or infinite and stayed so, or left its fold's first epoch far behind."""
    bad, good = view.summary.bad_loss_us, view.summary.good_loss_us
    if bad is not None and bad >= view.state.since_us and (good is None or good <= bad):
        return _slower_learning(view, sentence("loss-not-a-number"), "not-a-number")
    first, last = view.train_losses
    if 0.0 < DIVERGED * first < last and not view.state.facts.is_trees:
        return _slower_learning(view, sentence("loss-rose", first=first, last=last), "diverged")
    return None


def _slower_learning(view: RunView, finding: Sentence, rule: str) -> Answer:
    reported = view.summary.setting("learning_rate")
    rate = reported if isinstance(reported, float) else view.state.facts.learning_rate
    precision = view.summary.setting("precision") or view.state.facts.precision
    if rate:
        lower = float(f"{LOWER_LEARNING_RATE * rate:.2g}")
        changes = {"learning_rate": lower} | ({"grad_scaler": True} if precision == "fp16" else {})
        slower = sentence("learn-slower", finding=finding, lower=lower, rate=rate)
        return Answer("relaunch", slower, rule, changes, "critical")
    checks = {"check": ["learning rate", "loss scaling", "inputs"]}
    slower = sentence("learn-three-times-slower", finding=finding)
    return Answer("investigate", slower, rule, checks, "critical")


def _ended(view: RunView) -> Answer:
    status = view.state.facts.status
    batch = view.state.batch_size
    if status == "out_of_memory" and batch and batch > 1:
        changes = _halved(view, batch)
        why = sentence("out-of-memory-next-time", batch=batch)
        return Answer("lower_batch", why, "R02", changes, "warning", changes)
    how = ENDED.get(status, status.replace("_", " "))
    if status == "timed_out":
        how = "at the deadline, with a submission written" if view.state.facts.submission else "out of time"
    if not view.summary.events:
        return keep_going(sentence("run-ended", how=how), "R21")
    return keep_going(sentence("run-ended-at", how=how, minute=view.now / 60.0), "R21")
