"""Runs to judge: events in the run's own time, the state after them, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory_service.domain.logs.parser import Context, read_log
from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.event import Event
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.monitoring.verdict import Verdict

Said = tuple[str, float, Mapping[str, Any]]
"""kind, seconds since the run's start, fields"""


def events(said: Iterable[Said]) -> list[Event]:
    return [Event(seq, kind, at, fields) for seq, (kind, at, fields) in enumerate(said)]


def judged(facts: RunFacts, said: Iterable[Said], expected: Expectation | None = None) -> Verdict:
    return verdict(State(facts, add_events(Summary(), events(said)), expected or Expectation()))


def from_log(lines: Iterable[tuple[float, str]]) -> list[Said]:
    """Log lines with the second at which each appeared."""
    context: Context | None = None
    said: list[Said] = []
    for at, line in lines:
        reading = read_log(line + "\n", context)
        context = reading.context
        said.extend((told.kind, at, told.fields) for told in reading.events)
    return said
