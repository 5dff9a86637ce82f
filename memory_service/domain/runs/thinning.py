"""Thins raw samples of old runs to one device event and one step event per epoch.

Between two epochs the samples of the device become one, with the most memory of each kind, the highest
temperature, the median of utilisation and power; the batch events become one with the steps, seconds, samples
and waiting of all. Both stand at the last one's place, so that they belong to the epoch in which they were
reported. Thinning what was thinned changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from memory_service.domain.monitoring.event import MEMORY_FIELDS, number_of

RAW = ("gpu", "batch")

_SUMS = ("steps", "seconds", "samples", "loader_wait_seconds")
_MOST = (*MEMORY_FIELDS, "memory_percent", "temperature_c", "host_gib")
_MEDIANS = ("utilization_percent", "power_w", "clock_mhz", "cpu_percent")


@dataclass(frozen=True, slots=True)
class Thinned:
    """What becomes of a stretch of events: seq -> new body of those that stay, seqs of those that go."""

    merged: Mapping[int, Mapping[str, Any]]
    gone: tuple[int, ...]


def thinned(events: Iterable[tuple[int, str, Mapping[str, Any]]]) -> Iterator[Thinned]:
    """One for each stretch between epochs in which something goes. events: (seq, kind, body) by seq."""
    interval: dict[str, list[tuple[int, Mapping[str, Any]]]] = {kind: [] for kind in RAW}
    for seq, kind, body in events:
        if kind in RAW:
            interval[kind].append((seq, body))
        elif kind == "epoch":
            yield from _closed(interval)
    yield from _closed(interval)


def _closed(interval: dict[str, list[tuple[int, Mapping[str, Any]]]]) -> Iterator[Thinned]:
    merged: dict[int, Mapping[str, Any]] = {}
    gone: list[int] = []
    for kind, rows in interval.items():
        if len(rows) > 1:
            bodies = [body for _, body in rows]
            merged[rows[-1][0]] = _one_of(bodies) if kind == "gpu" else _step_sum(bodies)
            gone += [seq for seq, _ in rows[:-1]]
        rows.clear()
    if gone:
        yield Thinned(merged, tuple(sorted(gone)))


def _one_of(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    out = _latest(samples) | _over(samples, _MOST, max) | _over(samples, _MEDIANS, median)
    slowed = [bool(s["throttled"]) for s in samples if s.get("throttled") is not None]
    if slowed:
        out["throttled"] = 2 * sum(slowed) > len(slowed)
    others = _numbers(samples, "other_processes")
    if others:  # most of the time, as a sample is read: one visitor does not make an epoch contended
        out["other_processes"] = int(median(others))
    return out


def _step_sum(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums; waiting reported as a share becomes seconds first."""
    plain = []
    for one in events:
        percent, seconds = number_of(one.get("loader_wait_percent")), number_of(one.get("seconds"))
        waited = {}
        if one.get("loader_wait_seconds") is None and percent is not None and seconds is not None:
            waited = {"loader_wait_seconds": seconds * percent / 100.0}
        plain.append({name: value for name, value in one.items() if name != "loader_wait_percent"} | waited)
    return _latest(plain) | _over(plain, _SUMS, sum)


def _over(
    bodies: Sequence[Mapping[str, Any]], names: Iterable[str], reduce: Callable[[list[float]], float]
) -> dict[str, float]:
    """Name -> one figure for all bodies, of the names that any of them has."""
    found = {name: _numbers(bodies, name) for name in names}
    return {name: reduce(values) for name, values in found.items() if values}


def _latest(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of every field what was said last: settings, positions, the moment."""
    out: dict[str, Any] = {}
    for body in bodies:
        out |= body
    return out


def _numbers(bodies: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [value for body in bodies if (value := number_of(body.get(name))) is not None]
