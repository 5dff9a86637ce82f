"""The answer: one explicit plan, every count a single integer and every figure with its interval; or a
refusal with the smallest change that would fit."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence
from memory_service.domain.description.known_facts import Fact
from memory_service.domain.description.metric_resolution import ResolvedMetric
from memory_service.domain.prediction.device import TargetDevice


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the timetable in minutes from the start; it is over by its deadline nine times in ten."""

    stage: str
    start_minute: float
    deadline_minute: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "start_minute": round(self.start_minute, 2),
            "deadline_minute": round(self.deadline_minute, 2),
        }


@dataclass(frozen=True, slots=True)
class Expected:
    """What the run should show. peak_memory_gib is what the driver reports; bound: gpu | loader | host.

    host_memory_gib is said where the processor does the work (boosted trees); best_epoch: the epoch, of
    trees the round, of best validation"""

    peak_memory_gib: Estimate
    memory_percent: Estimate
    samples_per_second: Estimate
    epoch_seconds: Estimate
    total_minutes: Estimate
    inference_minutes: Estimate
    quality_index: Estimate
    bound: str
    host_memory_gib: Estimate | None = None
    best_epoch: Estimate | None = None

    def as_dict(self) -> dict[str, Any]:
        figures = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: _wire(value) for name, value in figures if value is not None}


def _wire(part: Any) -> Any:
    """A part of an answer as JSON has it."""
    if isinstance(part, Mapping):
        return dict(part)
    if isinstance(part, tuple):
        return [_wire(each) for each in part]
    return part.as_dict() if hasattr(part, "as_dict") else part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a plan and a refusal begin with; their fields are those of the answer, in its order."""

    plan_id: str
    feasible: bool
    task: str
    size: str
    gpu: Mapping[str, Any]
    minutes: float
    metric: ResolvedMetric | None

    def as_dict(self) -> dict[str, Any]:
        return {each.name: _wire(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(_Answer):
    """A promise with a deadline, field by field as /recommend answers it (docs/http.md).

    settings   the part to copy into a training script: model, batch, precision, folds, epochs, loader ...
    split, group_by   how rows are split, and what the groups are or how time is cut
    recipe     what won similar competitions, its wire form; targets: scores of the very competition
    facts      what it rests on, each with where that came from
    portfolio, blend, used_percent   what all of the minutes are for (`domain.portfolio`); the settings and
               figures here are those of one of its runs, the main one where `run` is None
    """

    feasible: bool = True
    run: int | None = None
    settings: Mapping[str, Any]
    split: str
    group_by: str | None
    expected: Expected
    timetable: tuple[Stage, ...]
    reserve_minutes: float
    checks: Mapping[str, Any]
    on_trouble: tuple[Mapping[str, Any], ...]
    alternatives: tuple[Mapping[str, Any], ...]
    parallel: tuple[Mapping[str, Any], ...] = ()
    portfolio: tuple[Mapping[str, Any], ...] = ()
    blend: Mapping[str, Any] = field(default_factory=lambda: {"method": "none", "runs": []})
    used_percent: float = 0.0
    recipe: Mapping[str, Any] | None = None
    targets: Mapping[str, Any] | None = None
    similar: tuple[Mapping[str, Any], ...]
    rationale: tuple[Sentence, ...]
    runner_up: Mapping[str, Any] | None = None
    warnings: tuple[Sentence, ...]
    evidence: tuple[Mapping[str, Any], ...]
    facts: tuple[Fact, ...]

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, part in _Answer.as_dict(self).items():
            out |= part if name == "settings" else {name: part}
        out |= {"reasons": out["rationale"], "rationale": [each["text"] for each in out["rationale"]]}
        return out | {"reserve_minutes": round(self.reserve_minutes, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(_Answer):
    """Nothing keeps the promises. closest: `{"set", "why", "plan"}` of changes, the smallest first."""

    feasible: bool = False
    why: Sentence
    closest: tuple[Mapping[str, Any], ...]
    recipe: Mapping[str, Any] | None = None
    targets: Mapping[str, Any] | None = None
    similar: tuple[Mapping[str, Any], ...]
    warnings: tuple[Sentence, ...]
    evidence: tuple[Mapping[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        first = {**self.closest[0]} if self.closest else None
        if first is not None and len(self.closest) > 1:
            first["or"] = list(self.closest[1:])
        told = {"why": str(self.why), "reasons": [self.why.as_dict()]}
        return _Answer.as_dict(self) | told | {"closest": first}


def gpu_facts(
    cards: tuple[TargetDevice, ...], visible: tuple[TargetDevice, ...], usable_gib: float
) -> dict[str, Any]:
    """The `gpu` part of an answer: the card the memory is planned for, the calibration its figures stand on,
    and the others it must fit."""
    tightest = min(cards, key=lambda card: card.usable_gib)
    facts: dict[str, Any] = {
        "slug": tightest.slug,
        "name": tightest.name,
        "kind": tightest.kind,
        "memory_gib": round(tightest.memory_gib, 2),
        "usable_gib": round(usable_gib, 2),
    }
    if tightest.device:
        facts["device"] = tightest.device
    if tightest.provenance is not None:
        facts["calibration"] = tightest.provenance.as_dict()
    if len(cards) > 1:
        facts["fits_all"] = [card.key for card in cards]
        others = {c.key: c.provenance.as_dict() for c in cards if c.provenance and c is not tightest}
        facts |= {"calibrations_of_others": others} if others else {}
    if visible:
        facts["visible"] = [card.key for card in visible]
    return facts


def plan_id_of(question: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """A stable name: the same question answered with the same settings has the same id (16 hex digits)."""
    text = json.dumps([question, settings], sort_keys=True, separators=(",", ":"), default=str)
    return "plan-" + hashlib.sha256(text.encode()).hexdigest()[:16]
