"""The verdict value: one action with numbers, the rule behind it, and the state of the run; and whether
advice was followed, judged by what the run or a later one reported."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, get_args

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence
from memory_service.domain.monitoring.event import MEMORY_KINDS
from memory_service.domain.monitoring.state import State

Action = Literal[
    "continue", "raise_batch", "relaunch", "lower_batch", "reduce_folds", "reduce_epochs",
    "stop_and_predict", "add_monitoring", "investigate",
]  # fmt: skip

ACTIONS: tuple[Action, ...] = get_args(Action)

Severity = Literal["info", "warning", "critical"]
"""info: nothing has to be done; warning: the run gets better by it; critical: without it the run is lost."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one rule.

    set        settings to change, by the names of a plan
    rule       R.. of the rules, or the name of a rule that stands in docs/methods/watching.md
    next_time  settings for the next run, when changing this one would cost more than it brings
    observation   the finding alone, for the notes of another answer; None = `why`
    """

    action: Action
    why: Sentence
    rule: str
    set: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "warning"
    next_time: Mapping[str, Any] = field(default_factory=dict)
    observation: Sentence | None = None


def advise(
    action: Action, why: Sentence, rule: str, changes: Mapping[str, Any],
    severity: Severity = "warning", next_time: Mapping[str, Any] | None = None,
) -> Answer:  # fmt: skip
    """What to do about what was found (`finding` of the sentence), which the notes of another answer have
    alone."""
    return Answer(action, why, rule, changes, severity, next_time or {}, why.values["finding"])


def keep_going(why: Sentence, rule: str, next_time: Mapping[str, Any] | None = None) -> Answer:
    """Nothing to change in this run; `next_time` is for the next one."""
    return Answer("continue", why, rule, severity="info", next_time=next_time or {})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a run at one moment of its own time.

    eta_minutes            from now to the end of training, as measured epochs project it; None = not known
    budget_used_percent    None when the run has no budget
    reading                kind of memory figure that the fill was read from; None = no figure
    fill_percent           of the card's memory; a lower bound when `reading` is "allocated_now"
    at_seconds             the moment, in the run's own time; next_check_seconds: when to look again
    others                 other findings; none of them asks for anything
    """

    action: Action
    set: Mapping[str, Any]
    why: Sentence
    rule: str
    severity: Severity
    eta_minutes: Estimate | None
    budget_used_percent: float | None
    reading: str | None
    fill_percent: float | None
    model_class: str
    at_seconds: float
    next_check_seconds: float
    next_time: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Sentence, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The other findings as whole sentences."""
        return tuple(each if each.endswith(".") else f"{each}." for each in self.others)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form of GET /runs/{id}/verdict."""
        used, fill = self.budget_used_percent, self.fill_percent
        return {
            "action": self.action,
            "set": dict(self.set),
            "why": self.why,
            "rule": self.rule,
            "severity": self.severity,
            "eta_minutes": None if self.eta_minutes is None else self.eta_minutes.as_dict(),
            "budget_used_percent": None if used is None else round(used, 1),
            "memory": {
                "reading": self.reading,
                "fill_percent": None if fill is None else round(fill, 1),
                "model_class": self.model_class,
            },
            "at_seconds": round(self.at_seconds, 3),
            "next_check_seconds": round(self.next_check_seconds, 3),
            "next_time": dict(self.next_time),
            "notes": list(self.notes),
            "reasons": [each.as_dict() for each in (self.why, *self.others)],
        }


Followed = Literal["yes", "no", "open"]
"""open: the run still goes on and may take it."""

STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE = 120.0, 0.1
"""Advice to stop was followed if no epoch but the one under way ended after it, and the run sent nothing new
after 2 minutes or a tenth of its time, and an epoch's time."""

SAME_VALUE = 1e-6


def followed(
    at_seconds: float, advice: Mapping[str, Any], state: State, later: Iterable[Mapping[str, Any]] = ()
) -> Followed | None:
    """Whether `advice` (a verdict's JSON form), given at a moment of the run's own time, was taken; None
    where it cannot be known (a continue, a check of something by hand).

    later   what runs of the same model and place that began after this one stated
    """
    action, changes = str(advice["action"]), dict(advice.get("set") or {})
    ended = state.facts.status != "running"
    if action == "stop_and_predict":
        within = max(STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE * at_seconds) + _epoch_seconds(state)
        later_epochs = sum(epoch["done"][0] > at_seconds * 1e6 for epoch in state.summary.epochs.values())
        taken = ended and later_epochs <= 1 and state.now_seconds - at_seconds <= within
    elif action == "add_monitoring":
        taken = _reads_after(state, at_seconds)
    elif action in ("continue", "investigate"):
        return None
    else:
        wanted = {name: value for name, value in changes.items() if name in _STATED}
        if not wanted:
            return None
        taken = all(_stated_since(state, name, value, at_seconds) for name, value in wanted.items())
        taken = taken or any(_began_with(run, wanted) for run in later)
        if not taken and ended and action in ("reduce_epochs", "reduce_folds"):
            taken = _did_no_more(state, wanted)
    if taken:
        return "yes"
    return "no" if ended else "open"


_STATED = ("batch_size", "epochs", "folds", "learning_rate", "num_workers", "grad_accumulation")


def _stated_since(state: State, name: str, value: Any, at_seconds: float) -> bool:
    reported = state.summary.settings.get(name)
    return reported is not None and bool(reported[0] >= at_seconds * 1e6) and _same(reported[2], value)


def _began_with(run: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a later run began with what was advised, as far as runs say such things when they begin."""
    known = {name: value for name, value in wanted.items() if run.get(name) is not None}
    return bool(known) and all(_same(run[name], value) for name, value in known.items())


def _same(a: Any, b: Any) -> bool:
    try:
        return abs(float(a) - float(b)) <= SAME_VALUE * max(abs(float(b)), 1e-12)
    except (TypeError, ValueError):
        return bool(a == b)


def _epoch_seconds(state: State) -> float:
    """Of the latest epochs, as reported."""
    seconds = [record["seconds"][2] for record in state.summary.epochs.values() if "seconds" in record]
    return float(median(seconds)) if seconds else 0.0


def _reads_after(state: State, at_seconds: float) -> bool:
    """A figure that says something of a step's peak came later."""
    later = (state.summary.reading_us or 0) > at_seconds * 1e6
    return later and any(kind in state.summary.peaks for kind in MEMORY_KINDS if kind != "allocated_now")


def _did_no_more(state: State, wanted: Mapping[str, Any]) -> bool:
    """Whether a run ended with at most the advised epochs and folds."""
    folds = [fold for fold in state.summary.folds.values() if fold.last_epoch is not None]
    if not folds:
        return False
    epochs = max((fold.last_epoch or 0) - (fold.first_epoch or 0) + 1 for fold in folds)
    return bool(epochs <= wanted.get("epochs", epochs) and len(folds) <= wanted.get("folds", len(folds)))
