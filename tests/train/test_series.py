"""Forecasting members on series made here."""

import time
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from memory_service.train.problem import Problem
from memory_service.train.series import (
    SERIES_MEMBERS,
    BoostedLags,
    Past,
    SeasonalNaive,
    Smoothing,
    day_effects,
    grid_of,
    recognise,
    smooth,
)

Rows = np.ndarray


class Clock:
    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


def score(truth: Rows, predictions: Rows) -> float:
    return -float(np.abs(truth - predictions).mean())


def problem_of(table: pd.DataFrame, horizon_days: float, **kinds: str) -> tuple[Problem, Rows]:
    """The problem whose test set is the last days of `table` (date, y, others), and its truth."""
    table = table.sort_values("date", kind="stable")
    days = ((table["date"] - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)).to_numpy()
    known = days <= days.max() - horizon_days
    inputs = table.drop(columns="y").assign(date=table["date"].astype(str))
    problem = Problem(
        "values",
        inputs[known].reset_index(drop=True),
        inputs[~known].reset_index(drop=True),
        table["y"].to_numpy(np.float32)[known, None],
        ["y"],
        score,
        loss="absolute",
        times=days[known],
        test_times=days[~known],
        columns={"date": "date", **kinds},
    )
    return problem, table["y"].to_numpy()[~known, None]


def shops(days: int = 200, count: int = 6, seed: int = 0) -> pd.DataFrame:
    """Daily sales of shops of different sizes with a week."""
    rng = np.random.default_rng(seed)
    frames = []
    for shop in range(count):
        dates = pd.date_range("2024-01-01", periods=days)
        week = 1 + 0.5 * np.sin(2 * np.pi * dates.day_of_week.to_numpy() / 7 + shop)
        sold = rng.poisson((5 + 10 * shop) * week)
        frames.append(pd.DataFrame({"date": dates, "shop": f"s{shop}", "y": sold}))
    return pd.concat(frames, ignore_index=True)


def split(problem: Problem) -> tuple[Rows, Rows]:
    assert problem.times is not None
    assert problem.test_times is not None
    valid = problem.times > problem.times.max() - (problem.test_times.max() - problem.times.max())
    return np.flatnonzero(~valid), np.flatnonzero(valid)


def test_keys_are_the_columns_that_tell_the_rows_of_a_day_apart() -> None:
    table = shops()
    table["town"] = table["shop"].map({f"s{n}": "east" if n < 3 else "west" for n in range(6)})
    found = recognise(problem_of(table, 28, shop="category", town="category")[0])
    assert found is not None
    assert (found.keys, found.horizon, found.seasons) == (["shop"], 28, [7])


def test_two_columns_can_name_a_series() -> None:
    table = shops()
    table["size"] = table["shop"].map({f"s{n}": str(n % 2) for n in range(6)})
    table["town"] = table["shop"].map({f"s{n}": str(n // 2) for n in range(6)})
    found = recognise(problem_of(table.drop(columns="shop"), 14, size="category", town="category")[0])
    assert found is not None
    assert sorted(found.keys) == ["size", "town"]


@pytest.mark.parametrize(
    ("frequency", "periods", "ahead", "seasons"),
    [
        ("h", 24 * 30, 2, [24, 168]),
        ("MS", 60, 365, [12]),
        ("7D", 160, 56, [52]),
        ("YS", 40, 1200, []),
        ("QS", 40, 300, [4]),
    ],
)
def test_periods_of_every_length_are_counted(
    frequency: str, periods: int, ahead: float, seasons: list[int]
) -> None:
    dates = pd.date_range("1980-01-01", periods=periods, freq=frequency)
    found = recognise(problem_of(pd.DataFrame({"date": dates, "y": np.arange(periods)}), ahead)[0])
    assert found is not None
    assert found.seasons == seasons
    assert all(after - before == 1 for before, after in pairwise(found.period.tolist()))


def test_bookings_of_a_day_are_no_series() -> None:
    rng = np.random.default_rng(0)
    rows = 3000
    table = pd.DataFrame(
        {
            "date": pd.Timestamp(2024, 1, 1) + pd.to_timedelta(rng.integers(0, 300, rows), unit="D"),
            "room": rng.choice(list("abcdef"), rows),
            "country": rng.choice([f"c{n}" for n in range(60)], rows),
            "y": rng.normal(100, 20, rows),
        }
    )
    assert recognise(problem_of(table, 30, room="category", country="category")[0]) is None


def test_rows_of_the_same_days_are_no_forecast() -> None:
    problem, _ = problem_of(shops(), 28, shop="category")
    assert problem.times is not None
    assert problem.test_times is not None
    problem.test_times = problem.test_times - 60
    assert recognise(problem) is None


def test_absent_days_are_zero_where_the_test_set_asks_for_every_day() -> None:
    table = shops(120, 3).query("y > 0")
    last = table["date"].max() - pd.Timedelta(days=14)
    gaps = table[(table["date"] > last) | (np.random.default_rng(0).random(len(table)) > 0.3)]
    problem, _ = problem_of(gaps, 14, shop="category")
    series = recognise(problem)
    assert series is not None
    rows = np.arange(len(problem.inputs))
    grid = grid_of(series, rows, problem.targets[:, 0].astype(float), len(problem.test_inputs))
    some = np.isfinite(grid[5:100]).any(axis=1)  # a day without any row is closed
    assert np.isfinite(grid[5:100][some]).all()
    assert (grid[5:100] == 0).mean() > 0.2


def test_nothing_after_the_origin_is_read() -> None:
    grid = np.arange(100.0)[:, None]
    past, number = Past(grid), np.zeros(20, int)
    period, origin = np.arange(60, 80), np.full(20, 59)
    assert np.nanmax(past.seasonal(period, origin, number, 7, 4)) <= 59
    assert np.nanmax(past.mean(origin - 10, origin, number)) <= 59
    assert (past.seasonal(period, origin, number, 7, 1)[:, 0] % 7 == period % 7).all()


def test_every_member_beats_the_mean_of_each_shop() -> None:
    problem, truth = problem_of(shops(), 28, shop="category")
    train, valid = split(problem)
    means = problem.inputs.assign(y=problem.targets[:, 0]).groupby("shop")["y"].mean()
    constant = score(truth, problem.test_inputs["shop"].map(means).to_numpy()[:, None])
    for member in SERIES_MEMBERS:
        assert member.applies(problem)
        found = member.fit(problem, train, valid, 0, Clock(30), {})
        assert found.valid.shape == (len(valid), 1)
        assert score(truth, found.test) > constant, member.name
        whole = member.fit(problem, np.arange(len(problem.inputs)), np.arange(0), 0, Clock(30), found.memo)
        assert whole.valid.shape == (0, 1)
        assert score(truth, whole.test) > constant, member.name


def test_validation_does_not_know_its_own_targets() -> None:
    problem, _ = problem_of(shops(), 28, shop="category")
    train, valid = split(problem)
    changed = problem.targets.copy()
    changed[valid] = changed[valid][::-1]
    for member in (SeasonalNaive(), BoostedLags("boosting", relative=True)):
        memo = {"rounds": 30}
        first = member.fit(problem, train, np.arange(0), 0, Clock(30), memo).test
        problem.targets, kept = changed, problem.targets
        again = member.fit(problem, train, np.arange(0), 0, Clock(30), memo).test
        problem.targets = kept
        assert np.array_equal(first, again)


def test_a_new_series_gets_a_forecast() -> None:
    table = shops()
    new = table[table["shop"] == "s3"].assign(shop="new")
    table = pd.concat([table, new[new["date"] > table["date"].max() - pd.Timedelta(days=28)]])
    problem, _ = problem_of(table, 28, shop="category")
    train, valid = split(problem)
    for member in SERIES_MEMBERS:
        assert np.isfinite(member.fit(problem, train, valid, 0, Clock(30), {}).test).all(), member.name


def test_ratios_to_the_level_follow_a_trend_that_trees_cannot() -> None:
    rng = np.random.default_rng(1)
    months = pd.date_range("2010-01-01", periods=120, freq="MS")
    frames = [
        pd.DataFrame(
            {
                "date": months,
                "place": f"p{n}",
                "y": 10.0**n * 1.02 ** np.arange(120) * rng.normal(1, 0.02, 120),
            }
        )
        for n in range(1, 6)
    ]
    problem, truth = problem_of(pd.concat(frames), 365, place="category")
    train, valid = split(problem)
    plain, ratios = (
        BoostedLags(name, relative=name == "ratios").fit(problem, train, valid, 0, Clock(30), {})
        for name in ("plain", "ratios")
    )
    assert score(truth, ratios.test) > score(truth, plain.test)


def test_smoothing_continues_a_season_and_a_trend() -> None:
    weeks = np.tile([0.0, 1, 2, 3, 2, 1, 0], 30)[:, None]
    assert np.abs(smooth(weeks + 50, 14, 7) - weeks[:14] - 50).max() < 0.3
    line = np.arange(100.0)[:, None]
    assert smooth(line, 5, 1)[0, 0] > 98
    assert smooth(line, 5, 1)[4, 0] > smooth(line, 5, 1)[0, 0]


def test_smoothing_bridges_gaps() -> None:
    known = np.full((80, 2), 7.0)
    known[10:30, 0] = np.nan
    known[:, 1] = np.nan
    found = Smoothing().fit(*series_of(known), Clock(10), {}).test
    assert np.allclose(found[: len(found) // 2], 7, atol=0.1)


def series_of(known: Rows) -> tuple[Problem, Rows, Rows, int]:
    dates = pd.date_range("2024-01-01", periods=len(known))
    table = pd.DataFrame({"date": dates, "y": known[:, 0]}).dropna()
    problem, _ = problem_of(table, 10)
    return problem, np.arange(len(problem.inputs)), np.arange(0), 0


def test_a_holiday_is_learned_from_the_years_before() -> None:
    dates = pd.date_range("2018-01-01", "2022-12-31")
    values = np.random.default_rng(0).normal(100, 3, len(dates))
    values[(dates.month == 7) & (dates.day == 4)] -= 60
    easter = pd.to_datetime(["2018-04-01", "2019-04-21", "2020-04-12", "2021-04-04", "2022-04-17"])
    values[dates.isin(easter)] -= 40
    effects = day_effects(values[:, None], dates, 1.0, 1500)
    assert effects is not None
    asked = np.flatnonzero((dates == "2022-07-04") | dates.isin(easter[4:]))
    found = effects(asked, asked - 20)
    assert found["effect by easter"].iloc[0] < -0.2
    assert found["effect by date"].iloc[1] < -0.3
    early = effects(asked[1:] - 3 * 365, asked[1:] - 3 * 365 - 20)
    assert early["effect by date"].notna().all()


def test_day_effects_read_nothing_after_the_origin() -> None:
    dates = pd.date_range("2020-01-01", "2022-12-31")
    values = np.random.default_rng(0).normal(100, 3, len(dates))[:, None]
    asked, origin = np.arange(1000, 1090), np.full(90, 999)
    changed = values.copy()
    changed[1000:] = 500.0
    first = day_effects(values, dates, 1.0, 999)
    again = day_effects(changed, dates, 1.0, 999)
    assert first is not None
    assert again is not None
    pd.testing.assert_frame_equal(first(asked, origin), again(asked, origin))
