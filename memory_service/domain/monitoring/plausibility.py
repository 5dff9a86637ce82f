"""What no run can mean: readings that no card gives and epochs beyond the plan, set aside when they
arrive, and times of a clock that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.monitoring.event import MEMORY_FIELDS, number_of

SAME_CARD = 1.15
"""A printed total within 15 % of the data sheet's is the same card, as its driver counts it; GB for GiB is
7 %. A reading over that is none."""

FAR_BEYOND = 2
"""An epoch number over twice the announced count is a slip; a run that merely goes on stays below."""

SET_ASIDE = "set_aside"
"""Field of a stored event: its fields that were set aside, as they were reported."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a run said of itself; None = not known. epochs: of a fold; folds: in all, seeds included."""

    card_gib: float | None = None
    epochs: int | None = None
    folds: int | None = None

    def at_least(self, settings: Mapping[str, Any]) -> Announced:
        """With what was stated since, where that allows more."""
        total = number_of(settings.get("total_gib"), most=1e6)
        epochs, folds = (number_of(settings.get(name), most=1e9) for name in ("epochs", "folds"))
        return replace(
            self,
            card_gib=self.card_gib and max(self.card_gib, total or 0.0),
            epochs=self.epochs and max(self.epochs, int(epochs or 0)),
            folds=max(self.folds or 0, int(folds or 0)) or None,
        )


def implausible(kind: str, fields: Mapping[str, Any], announced: Announced) -> dict[str, str]:
    """Field of an event that cannot be meant -> why, in words.

    An epoch that states no fold may count on through all folds.
    """
    found = {}
    for name, value in fields.items() if announced.card_gib else ():
        gib = number_of(value, most=1e9) if name in MEMORY_FIELDS else None
        if gib is not None and gib > SAME_CARD * (announced.card_gib or 0.0):
            over = f"is over the card's {announced.card_gib:.4g} GiB: no reading, and not counted"
            found[name] = f"{over}; report `total_gib` first where the card is a larger one"
    epoch = number_of(fields.get("epoch")) if kind == "epoch" else None
    if epoch is not None and announced.epochs:
        most = announced.epochs * (1 if fields.get("fold") else max(1, announced.folds or 1))
        if epoch > FAR_BEYOND * most:
            beyond = f"is far beyond the {most} announced: not counted"
            found["epoch"] = f"{beyond}; report `epochs` first where there are more"
    return found


AHEAD_SECONDS = 60.0
"""How far a run's clock may gain on the service's while it runs: a second a minute is a bad clock."""

LIVE_SECONDS = 3_600.0
"""A run that reported something within the last hour may go on; reports of an older one are a replay, in
which silence means nothing."""


def latest_moment(started: float, begun: float, now: float) -> float:
    """The latest time that an event can have, in seconds since 1970 by the run's clock.

    started   of the run, by its own clock; begun, now: when it was begun and the present, by the service's

    A run whose clock was ahead when it began stays ahead as much: no time of its own can be longer than what
    has passed since. One that began long ago (a replay, a spool sent late) may report up to the present.
    """
    return now + max(0.0, started - begun) + AHEAD_SECONDS


def earliest_moment(started: float) -> float:
    """The earliest time that an event can have: a clock in another zone, or never set, shows by it."""
    return started - AHEAD_SECONDS


def silent_seconds(last_event: float, started: float, begun: float, now: float) -> float:
    """Seconds since the latest event, all in seconds since 1970 and as `latest_moment`; last_event by the
    run's clock."""
    return now + max(0.0, started - begun) - last_event


def requested_seconds(
    last_event: float, started: float, begun: float, now: float, since_last_event: float | None
) -> float | None:
    """When a verdict is requested, in the run's own time; None where the run is not going on just now.

    last_event         own time of the latest event, seconds; started, begun, now: as `latest_moment`
    since_last_event   seconds by the service's clock since that event came, where this process saw it come: a
                  run whose clock is behind must not seem silent
    """
    silent = silent_seconds(started + last_event, started, begun, now)
    if not 0.0 < silent <= LIVE_SECONDS:
        return None
    return last_event + (silent if since_last_event is None else max(0.0, min(silent, since_last_event)))
