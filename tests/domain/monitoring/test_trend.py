"""Do the change-point rule, the latch and the growth rule say what R25 says?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.monitoring.trend import change_point, growth_per_step, latched, spread_of

levels = st.floats(0.0, 100.0)
noise = st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=30)


@given(levels, noise)
def test_within_two_points_is_stable(level: float, wobble: list[float]) -> None:
    assert change_point([level + w for w in wobble]) is None


@given(levels, st.integers(2, 60), st.floats(-60.0, 60.0))
def test_a_slow_drift_is_no_change(level: float, n: int, drift: float) -> None:
    if abs(drift) / (n - 1) < 10.0:
        assert change_point([level + drift * i / (n - 1) for i in range(n)]) is None


@given(levels, st.integers(1, 20), st.integers(1, 20), st.floats(10.1, 60.0), st.sampled_from((-1, 1)), noise)
def test_a_jump_is_found_where_it_is(
    level: float, before: int, after: int, size: float, way: int, wobble: list[float]
) -> None:
    values = [level] * before + [level + way * size] * after
    values = [v + w / 100.0 for v, w in zip(values, wobble * 20, strict=False)]
    change = change_point(values)
    assert change is not None
    assert change.index == before
    assert change.after - change.before == pytest.approx(way * size, abs=0.2)


def test_one_value_on_the_new_level_is_enough_unless_more_are_asked_for() -> None:
    values = [50.0, 51.0, 49.0, 90.0]
    assert change_point(values) is not None
    assert change_point(values, confirm=2) is None
    assert change_point([*values, 91.0], confirm=2) is not None


def test_what_jumps_about_all_the_time_has_no_change_point() -> None:
    assert change_point([20.0, 60.0, 25.0, 70.0, 30.0, 65.0, 22.0, 61.0]) is None


@given(st.lists(levels, max_size=50), levels, st.floats(0.0, 20.0))
def test_a_latch_falls_only_below_its_lower_edge(values: list[float], on: float, width: float) -> None:
    off = on - width
    if latched(values, on, off):
        assert max(values) > on
        assert values[-1] >= off
    elif values:
        assert values[-1] <= on


def test_a_latch_does_not_chatter_between_its_edges() -> None:
    assert [latched([19.0, 21.0, 19.0, 21.0, 19.0][:n], 20.0, 15.0) for n in range(1, 6)] == [False] + [
        True
    ] * 4


def test_growth_must_be_steady() -> None:
    assert growth_per_step([60.0 + 2.0 * i for i in range(8)]) == pytest.approx(2.0)
    assert growth_per_step([60.0, 62.0, 61.0, 64.0, 63.0, 66.0, 65.0, 68.0]) is None
    assert growth_per_step([60.0, 60.0, 60.0, 60.0, 60.0, 80.0, 80.0]) is None
    assert growth_per_step([60.0, 62.0, 64.0]) is None


def test_one_slow_epoch_does_not_widen_the_spread() -> None:
    assert spread_of([50.0, 51.0, 49.0, 50.0, 120.0], 0.03) == 0.03
    assert spread_of([50.0, 70.0, 30.0, 60.0, 40.0], 0.03) > 0.2
