"""Which parts of a summary an event can add to, by the names of its fields."""

from functools import lru_cache
from typing import NamedTuple

from memory_service.domain.monitoring.event import MEMORY_FIELDS, SETTING_FIELDS
from memory_service.domain.monitoring.plausibility import SET_ASIDE

SETTINGS = frozenset(SETTING_FIELDS)
_FLAGS = frozenset(("out_of_memory", "error", "throttled", "other_processes"))


class SummaryParts(NamedTuple):
    """What an event with these fields may add to. A run has few kinds of them: each is looked at once."""

    settings: bool
    memory: tuple[tuple[str, str], ...]
    percent: bool
    sample: bool
    loss: bool
    flags: bool
    aside: bool
    rank: bool


@lru_cache(1_000)
def parts_of(*names: str) -> SummaryParts:
    """The parts that an event with these fields can add to."""
    known = frozenset(names)
    return SummaryParts(
        settings=not known.isdisjoint(SETTINGS),
        memory=tuple((name, kind) for name, kind in MEMORY_FIELDS.items() if name in known),
        percent="memory_percent" in known,
        sample="utilization_percent" in known or "temperature_c" in known,
        loss="train_loss" in known or "loss" in known,
        flags=not known.isdisjoint(_FLAGS),
        aside=SET_ASIDE in known,
        rank="rank" in known,
    )
