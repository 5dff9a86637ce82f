"""Errors of predictions: what counts, what does not, and what a naive guess would have had."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.scoring import pairs_of, score


def number(value: float, spread: float = 1.2) -> dict[str, Any]:
    return {
        "value": value,
        "low": value / spread,
        "high": value * spread,
        "grade": "estimated",
        "n": 0,
        "basis": "b",
    }


def observation(**figures: Any) -> dict[str, Any]:
    one = Observation("a100", "resnet50", "resnet", 224, "fp16", 128, **figures)
    return one.as_dict()


def run(**figures: Any) -> dict[str, Any]:
    return {"batch_size": 128, "excluded": None, **figures}


def test_only_what_was_both_predicted_and_observed_is_a_pair():
    prediction = {"samples_per_second": number(1100.0), "epoch_seconds": None, "peak_memory_gib": number(8.0)}
    told = run(samples_per_second=1000.0, epoch_seconds=30.0, total_minutes=5.0)
    found = pairs_of(told, prediction, [observation(peak_driver_gib=10.0, peak_allocated_gib=7.0)])
    assert [(p.quantity, round(p.error, 3), p.inside) for p in found] == [
        ("samples_per_second", 0.1, True),
        ("peak_memory_gib", -0.2, False),
    ]
    assert pairs_of(told, {}, []) == []


def test_memory_is_compared_kind_by_kind_at_the_runs_own_batch():
    prediction = {
        f"peak_{kind}_gib": number(value)
        for kind, value in (("memory", 9), ("allocated", 6), ("reserved", 7))
    }
    other = observation(peak_driver_gib=99.0) | {"batch_size": 64}
    found = pairs_of(run(), prediction, [other, observation(peak_allocated_gib=6.0, peak_reserved_gib=7.7)])
    assert {p.quantity: p.actual for p in found} == {"peak_allocated_gib": 6.0, "peak_reserved_gib": 7.7}


@pytest.mark.parametrize(
    ("excluded", "scored"),
    [
        ("contended", {"peak_allocated_gib"}),
        ("throttled", {"peak_allocated_gib"}),
        ("loader_bound", {"peak_allocated_gib", "epoch_seconds", "total_minutes"}),
    ],
)
def test_a_speed_that_says_nothing_of_the_device_is_shown_and_not_scored(excluded: str, scored: set[str]):
    names = ("samples_per_second", "epoch_seconds", "total_minutes")
    prediction = {name: number(10.0) for name in (*names, "peak_allocated_gib")}
    told = run(**dict.fromkeys(names, 20.0)) | {"excluded": excluded}
    found = pairs_of(told, prediction, [observation(peak_allocated_gib=5.0)])
    assert len(found) == 4
    assert {each.quantity for each in score(found)} == scored


def test_a_score_tells_errors_bias_coverage_and_the_naive_guess():
    pairs = []
    for gflops, actual, predicted in ((1.0, 1000.0, 1100.0), (2.0, 500.0, 450.0), (4.0, 100.0, 120.0)):
        prediction = {
            "samples_per_second": number(predicted, 1.15),
            "peak_memory_gib": number(8.0),
            "naive": {"gflops_per_sample": gflops, "traced_gib": 5.0},
        }
        pairs += pairs_of(run(samples_per_second=actual), prediction, [observation(peak_driver_gib=8.0)])
    speed, memory = score(pairs)
    assert (speed.n, speed.median_percent, speed.bias_percent) == (3, 10.0, 10.0)
    assert speed.p90_percent == pytest.approx(18.0)
    assert speed.inside_percent == pytest.approx(66.67)
    assert speed.naive is not None
    # Fitted on these: 1 ms per GFLOP; the third takes 10 ms for 4 GFLOP, so 2.5 times its speed is guessed.
    assert (speed.naive["median_percent"], speed.naive["p90_percent"]) == (0.0, pytest.approx(120.0))
    assert memory.median_percent == 0.0
    assert memory.naive is not None
    assert memory.naive["median_percent"] == pytest.approx(
        100 * (1 - (1976 / 1024 + 1.108 * 5) / 8), abs=0.01
    )


def test_nothing_has_no_score():
    assert score([]) == []
