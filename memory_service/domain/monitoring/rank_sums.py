"""What `batch` events say, as whole sums; and those of each process of a distributed training."""

from collections.abc import Iterable, Mapping
from typing import Any

from memory_service.domain.monitoring.event import number_of
from memory_service.domain.monitoring.summary import KIB_PER_GIB, US, RankSums

NO_RANK_SUMS: RankSums = (0,) * 6


def batch_sums(body: Mapping[str, Any], steps: float) -> tuple[int, int, int, int, int]:
    """(steps, busy us, of these us whose waiting is known, us waited for the loader, samples) of an event
    about so many steps."""
    seconds = number_of(body.get("seconds"), most=1e7) or 0.0
    waited = number_of(body.get("loader_wait_seconds"), most=1e7)
    percent = number_of(body.get("loader_wait_percent"), most=100.0)
    if waited is None and percent is not None:
        waited = seconds * percent / 100.0
    busy_us = round(seconds * US)
    known_us, waited_us = (0, 0) if waited is None else (busy_us, min(busy_us, round(waited * US)))
    return int(steps), busy_us, known_us, waited_us, int(number_of(body.get("samples"), most=1e12) or 0.0)


def with_event(
    sums: RankSums, kind: str, body: Mapping[str, Any], memory: Iterable[tuple[str, str]]
) -> RankSums:
    """The sums of a process with one event more of it. memory: (name, kind) of the fields that say some."""
    *counted, peak = sums
    gib = [number_of(body[name], most=1e6) for name, _ in memory]
    peak = max([peak, *(round(each * KIB_PER_GIB) for each in gib if each is not None)])
    if kind == "batch":
        more = batch_sums(body, number_of(body.get("steps"), most=1e9) or 0.0)
        counted = [a + b for a, b in zip(counted, more, strict=True)]
    steps, busy, known, waited, samples = counted
    return steps, busy, known, waited, samples, peak
