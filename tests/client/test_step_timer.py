"""Are steps, waiting for the loader and epochs measured as they are?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.client import step_timer as meters
from memory_service.client.step_timer import Loader, StepTimer


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(meters, "perf_counter", made)
    return made


def slow(clock: Clock, batches: int, seconds: float) -> Iterator[list[int]]:
    for _ in range(batches):
        clock.now += seconds
        yield [0] * 4


def totals(reports: list[dict[str, Any]]) -> dict[str, float]:
    names = ("steps", "seconds", "samples", "loader_wait_seconds")
    return {name: round(sum(report.get(name, 0.0) for report in reports), 6) for name in names}


def test_waiting_for_the_loader_is_told_apart_from_the_step(clock: Clock):
    reports: list[dict[str, Any]] = []
    timer = StepTimer(32, reports.append)
    for _ in Loader(_lazy(clock, 100, 0.03), timer):
        clock.now += 0.07
    times = timer.end_epoch()
    assert totals(reports) == {"steps": 100, "seconds": 10.0, "samples": 3200, "loader_wait_seconds": 3.0}
    assert times.wait_percent == pytest.approx(30.0)
    assert times.samples == 3200
    assert times.seconds == pytest.approx(10.0)


class _lazy:  # noqa: N801
    def __init__(self, clock: Clock, batches: int, seconds: float) -> None:
        self.given = (clock, batches, seconds)

    def __len__(self) -> int:
        return self.given[1]

    def __iter__(self) -> Iterator[list[int]]:
        return slow(*self.given)


def test_a_script_that_tells_its_steps_is_not_counted_twice(clock: Clock):
    reports: list[dict[str, Any]] = []
    timer = StepTimer(None, reports.append)
    for batch in Loader(_lazy(clock, 10, 0.1), timer):
        clock.now += 0.1
        timer.step(len(batch))
        clock.now += 0.05
    timer.end_epoch()
    assert totals(reports)["steps"] == 10
    assert totals(reports)["samples"] == 40


def test_a_script_that_tells_nothing_has_its_steps_and_samples_counted(clock: Clock):
    reports: list[dict[str, Any]] = []
    timer = StepTimer(None, reports.append)
    for _ in Loader(_lazy(clock, 10, 0.1), timer):
        clock.now += 0.1
    timer.end_epoch()
    assert totals(reports)["steps"] == 10
    assert totals(reports)["samples"] == 40


def test_validation_counts_in_the_epoch_but_in_no_step(clock: Clock):
    reports: list[dict[str, Any]] = []
    timer = StepTimer(8, reports.append)
    for epoch in range(3):
        for _ in range(50):
            clock.now += 0.1
            timer.step()
        clock.now += 2.0
        times = timer.end_epoch()
        assert times.valid_seconds == pytest.approx(2.0)
        assert times.seconds == pytest.approx(7.0 if epoch == 0 else 6.9, abs=0.11)
    # Without a loader the first step of an epoch has no beginning that could be known.
    assert totals(reports)["steps"] == 3 * 49
    assert totals(reports)["seconds"] == pytest.approx(3 * 4.9)


def test_reports_come_every_two_seconds_not_every_step(clock: Clock):
    reports: list[dict[str, Any]] = []
    timer = StepTimer(8, reports.append)
    for _ in range(10_000):
        clock.now += 0.001
        timer.step()
    assert 4 <= len(reports) <= 7


def test_the_loader_that_is_watched_is_still_the_loader(clock: Clock):
    inner = _lazy(clock, 7, 0.0)
    watched: Any = Loader(inner, StepTimer(8, lambda _: None))
    assert len(watched) == 7
    assert watched.given == inner.given
    assert list(watched) == list(inner)


def test_an_error_of_the_loader_reaches_the_script():
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("worker died")

    with pytest.raises(OSError, match="worker died"):
        list(Loader(broken(), StepTimer(8, lambda _: None)))
