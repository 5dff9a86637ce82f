"""Which time of an event counts, when the clock of whoever tells it is wrong?"""

from __future__ import annotations

__all__ = ["AHEAD_SECONDS", "latest_moment"]

AHEAD_SECONDS = 60.0
"""How far a run's clock may gain on the service's while it runs: a second a minute is a bad clock."""


def latest_moment(started: float, begun: float, now: float) -> float:
    """The latest time that an event can have, in seconds since 1970 by the run's clock.

    started   of the run, by its own clock; begun, now: when it was begun and the present, by the service's

    A run whose clock was ahead when it began stays ahead as much: no time of its own can be longer than what
    has passed since. One that began long ago (a replay, a spool sent late) may tell up to the present.
    """
    return now + max(0.0, started - begun) + AHEAD_SECONDS
