"""The time of an event when the sender's clock is wrong."""

from __future__ import annotations

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
