"""What runs on other competitions move: towards what they showed, less than it, and surer with each one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.quality.conditioning import Surprise, surprises_of, taught
from memory_service.domain.quality.quality_model import QualityModel, quality_kind
from memory_service.domain.quality.ranking import Candidate
from memory_service.services.knowledge.snapshot import shipped_quality

MODEL: QualityModel = shipped_quality()
TABLE = quality_kind("tabular-classification")
AUDIO = quality_kind("audio-classification")
RUNS = [Candidate("lightgbm", "gbdt", 79.0, 1.0), Candidate("mlp", "mlp", 76.0, 1.0)]


def expected(model: QualityModel, kind=TABLE, name: str = "mlp") -> tuple[float, float]:
    found = model.expected(kind, [name], np.array([75.0]))
    return float(found.points[0]), float(found.sd[0])


def of(competitions: int, points: tuple[float, float]) -> list[Surprise]:
    return [s for i in range(competitions) for s in surprises_of(f"c{i}", "tabular", RUNS, points)]


def test_one_model_alone_surprises_nobody() -> None:
    assert surprises_of("c", "tabular", RUNS[:1], [99.0]) == []


@given(st.integers(1, 30), st.floats(-20.0, 20.0))
def test_more_competitions_move_further_and_never_past_what_they_showed(n: int, ahead: float) -> None:
    """`ahead`: points by which the network was better than expected beside the trees."""
    points = (0.0, ahead - 3.0)
    shown = float(np.clip(ahead / 2, -10.0, 10.0))
    before, sd = expected(MODEL)
    after, narrower = expected(taught(MODEL, of(n, points)))
    further, narrowest = expected(taught(MODEL, of(n + 1, points)))
    assert abs(after - before) <= abs(further - before) + 1e-9
    assert abs(further - before) <= abs(shown) + 1e-9
    assert (after - before) * shown >= 0.0
    assert narrowest < narrower < sd


def test_runs_of_the_competition_that_is_asked_about_are_left_out() -> None:
    surprised = of(2, (0.0, 5.0))
    alone = taught(MODEL, [one for one in surprised if one.competition == "c1"])
    assert expected(taught(MODEL, surprised, without="c0")) == expected(alone)
    assert expected(taught(MODEL, surprised[:2], without="c0")) == expected(MODEL)


def test_a_kind_without_public_results_learns_too_and_others_do_not() -> None:
    heard = surprises_of(
        "c", "audio", [Candidate("a", "x", 80.0, 2.5), Candidate("b", "y", 80.0, 2.5)], (6, 0)
    )
    model = taught(MODEL, heard)
    assert expected(model, AUDIO, "a")[0] > 75.0 > expected(model, AUDIO, "b")[0]
    assert expected(model, TABLE) == expected(MODEL, TABLE)


def test_a_failed_run_counts_for_ten_points_at_most() -> None:
    (_, bad) = surprises_of("c", "tabular", RUNS, (0.0, -500.0))
    assert bad.points == pytest.approx(-10.0)
