"""Levels that an observation belongs to, and how many observations stand behind each."""

from collections.abc import Collection, Container, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.units import plural
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.learning.observation import BaselinePrediction, Observation, PredictionKey

OWN_LEVELS = ("case", "model", "here", "card family")
"""All that one network alone says anything of: whether the device or the network is odd, a second one must
tell. Without this rule a single row of a well-predicted card does its other rows 2 to 5 % more error."""


@dataclass(frozen=True, slots=True)
class MatchedObservation:
    """An observation that can be used, beside what was predicted for it."""

    observation: Observation
    key: PredictionKey
    baseline: BaselinePrediction


def is_own(o: Observation) -> bool:
    """Observed by a run here, not read in a table."""
    return o.run_id != "" or o.device != ""


def where(one: MatchedObservation) -> str:
    return one.key.device or one.key.gpu


def lone_devices(matched: Iterable[MatchedObservation]) -> set[str]:
    """Devices (of tables: cards) on which only one network was observed."""
    models: dict[str, set[str]] = {}
    for one in matched:
        models.setdefault(where(one), set()).add(one.key.model)
    return {where for where, names in models.items() if len(names) < 2}


def level_keys(s: PredictionKey, own: bool, config: StepConfig | None = None) -> dict[str, tuple[Any, ...]]:
    """Level -> key, most specific first; `own`: observed by a run here, not read in a table. config: in the
    place of the subject's, of what does not depend on its cores."""
    here = s.device or s.gpu
    c = config or s.config
    setting = (c.precision, c.layout, c.mode, c.compiled, c.stack)
    keys: dict[str, tuple[Any, ...]] = {
        "case": ("case", s.gpu, s.model, s.input_size, setting, None if config else s.cores, s.shape),
        "model": ("model", s.gpu, s.model, c.mode),
        "here": ("here", here, s.family, c.precision, c.mode, c.compiled),
        "card family": ("card family", s.gpu, s.family),
        "device": ("device", here),
        "setting": ("setting", s.gpu, setting),
        "card": ("card", s.gpu),
        "family": ("family", s.family),
        "all": ("all",),
    }
    if not own:
        del keys["here"], keys["device"]
    return keys


class Hierarchy:
    """How many observations stand behind each level, and how to say so."""

    def __init__(self, matched: Iterable[MatchedObservation], lone: Container[str] = ()) -> None:
        self._runs: dict[Hashable, set[Hashable]] = {}
        self._devices: dict[Hashable, set[str]] = {}
        known: dict[tuple[int, bool], tuple[PredictionKey, dict[str, tuple[Any, ...]]]] = {}
        for index, one in enumerate(matched):
            run = one.observation.run_id or index
            place = (id(one.key), is_own(one.observation))
            if place not in known:
                known[place] = one.key, level_keys(one.key, place[1])
            for level, key in known[place][1].items():
                if level in OWN_LEVELS or where(one) not in lone:
                    self._runs.setdefault(key, set()).add(run)
                    self._devices.setdefault(key, set()).add(one.key.device)

    @property
    def keys(self) -> Collection[Hashable]:
        """Keys of the levels that have observations."""
        return self._runs.keys()

    def bears_on(self, subject: PredictionKey) -> bool:
        """Whether anything was observed at any of the subject's levels."""
        return ("all",) in self._runs or self.closest(subject)[0] > 0

    def count(self, keys: Iterable[Hashable]) -> int:
        """Observations of the first of the keys that has any; 0 where none has."""
        return next((len(self._runs[key]) for key in keys if key in self._runs), 0)

    def closest(self, subject: PredictionKey) -> tuple[int, str, bool]:
        """(n, basis, exact) of the most specific level that has observations."""
        for level, key in level_keys(subject, True).items():
            n = len(self._runs.get(key, ()))
            if n:
                only = self._devices[key] == {subject.device}
                here = (subject.device or subject.gpu) if only else "this GPU model"
                runs = f"residual of {plural(n, 'run')}"
                return n, f"{runs} {_WORDS[level].format(s=subject, here=here)}", level == "case"
        return 0, "", False


_WORDS = shipped_table(__package__, "levels.toml")["words"]
