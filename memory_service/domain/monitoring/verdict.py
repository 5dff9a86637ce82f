"""The verdict value: one action with numbers, the rule behind it, and the state of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence

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
