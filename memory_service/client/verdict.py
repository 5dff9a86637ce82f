"""The latest verdict of the service for this run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from memory_service.client.delivery.http import one_line


@dataclass(frozen=True, slots=True)
class Verdict:
    """One action with concrete numbers, as of the events that had arrived when it was made.

    action      continue | raise_batch | relaunch | lower_batch | reduce_folds | reduce_epochs |
                stop_and_predict | add_monitoring | investigate
    set         settings to change, by the names of a plan, e.g. {"batch_size": 256}
    why, rule   the reason in a sentence, and the rule behind it
    severity    info | warning | critical
    eta_minutes   to the end of training: {"value", "low", "high", ...}; None = not known yet
    known       False until the service has answered once: then it says continue
    raw         the whole answer
    """

    action: str = "continue"
    set: Mapping[str, Any] = field(default_factory=dict)
    why: str = "No verdict has come from the service yet."
    rule: str = ""
    severity: str = "info"
    eta_minutes: Mapping[str, Any] | None = None
    budget_used_percent: float | None = None
    known: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_answer(cls, answer: Any) -> Verdict | None:
        """The verdict in an answer of the service; None where there is none."""
        if not isinstance(answer, Mapping) or not isinstance(answer.get("action"), str):
            return None
        changes = answer.get("set")
        return cls(
            action=one_line(answer["action"]),
            set=MappingProxyType(_settings(changes) if isinstance(changes, Mapping) else {}),
            why=one_line(str(answer.get("why", "")), 2_000),
            rule=one_line(str(answer.get("rule", ""))),
            severity=one_line(str(answer.get("severity", "info"))),
            eta_minutes=answer.get("eta_minutes"),
            budget_used_percent=answer.get("budget_used_percent"),
            known=True,
            raw=MappingProxyType(dict(answer)),
        )

    def __str__(self) -> str:
        changes = ", ".join(f"{name}={value}" for name, value in self.set.items())
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.action}{f' {changes}' if changes else ''}: {self.why}{rule}"


_COUNTS = frozenset({"batch_size", "grad_accumulation", "epochs", "folds", "seeds", "image_size", "seq_len"})


def _settings(changes: Mapping[Any, Any]) -> dict[str, Any]:
    """What of it a training can be set to: words, finite numbers, and of counts whole ones from one on."""
    return {
        one_line(name, 60): one_line(value) if isinstance(value, str) else value
        for name, value in changes.items()
        if isinstance(name, str) and (_is_count(value) if name in _COUNTS else _is_plain(value))
    }


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


NOT_YET = Verdict()
NOT_A_NUMBER = Verdict(
    action="investigate",
    why="The training loss is not a number (NaN or infinite): nothing more is learned from here on.",
    rule="not-a-number",
    severity="critical",
)
"""What the client says by itself, before the service has answered."""
