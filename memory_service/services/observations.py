"""What was observed of runs that ended, and how does a run become observations?"""

from __future__ import annotations

from memory_service.domain.observation import Observation
from memory_service.services.unit import ReadUnit
from memory_service.store import runs

__all__ = ["fingerprint", "observed"]


def observed(unit: ReadUnit) -> list[Observation]:
    """Every observation of every run that ended, oldest first."""
    return [Observation.from_dict(wire) for wire in runs.observations(unit.session)]


def fingerprint(unit: ReadUnit) -> tuple[int, str]:
    """Differs after any change of what was observed; one cheap aggregate."""
    return runs.fingerprint(unit.session)
