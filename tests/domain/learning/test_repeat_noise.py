"""How much runs of one case differ is learned from repeats: of the device, then of the case."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from tests.domain.learning.test_corrections import BOX, moved, ran, step, taught

QUIET, NOISY = (1.201, 1.199, 1.2, 1.202, 1.198), (1.05, 1.32, 1.2, 1.1, 1.36)


def repeats(times: tuple[float, ...], model: str = "resnet50", **more: Any) -> list[Observation]:
    return [ran(model, each, f"{model} {n}", **more) for n, each in enumerate(times)]


def width(seen: list[Observation], model: str = "resnet50") -> float:
    """Of the interval of its time, as a log."""
    told = step(model, taught(seen)).step_seconds(64)
    return log(told.high / told.low)


def test_repeats_that_agree_narrow_the_interval_and_those_that_differ_widen_it() -> None:
    usual = width(repeats((1.2,)))
    assert width(repeats(QUIET)) < 0.7 * usual
    assert width(repeats(NOISY)) > 1.5 * width(repeats(QUIET))
    assert width(repeats(NOISY)) > usual


def test_a_case_without_repeats_takes_the_noise_of_its_device() -> None:
    once = repeats((1.2,), "resnet18")
    quiet, noisy = (width([*repeats(of), *once], "resnet18") for of in (QUIET, NOISY))
    assert quiet < noisy
    case = width([*repeats(QUIET), *repeats(NOISY, "resnet18")])
    assert case < width([*repeats(QUIET), *repeats(NOISY, "resnet18")], "resnet18")


def test_an_outlier_among_repeats_is_not_their_noise() -> None:
    seen = [*repeats(QUIET), ran(times=1.9, run="odd")]
    assert width(seen) < 1.2 * width(repeats(QUIET))
    assert moved("resnet50", taught(seen)) == pytest.approx(1.2, rel=0.01)


def test_what_is_set_aside_says_nothing_of_noise() -> None:
    known = repeats(QUIET, reporter="key b")
    flood = [ran(times=6.0, run=f"far {n}", reporter="key a") for n in range(2)]
    assert width([*known, *flood]) == pytest.approx(width(known))
    assert moved("resnet50", taught([*known, *flood], BOX)) == pytest.approx(moved("resnet50", taught(known)))
