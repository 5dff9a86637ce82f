"""Split by time: do folds validate as the test judges, and does what is submitted know the latest rows?"""

from __future__ import annotations

import itertools
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.domain.planning.fits import fits_of
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened
from tests.scripts.test_recipe import recipe, with_series

__all__ = ["opened"]

SERIES = "time-series-regression-lightgbm"


def by_time(workshop: Workshop, name: str) -> dict[str, Any]:
    return recipe(workshop, name, "lag-features", split="time", by=None)


def test_windows_are_as_long_as_the_test_and_cut_between_days(opened: Open, workshop: Workshop) -> None:
    """63 days are known and 7 asked; two shops have a row each a day."""
    told = by_time(workshop, "tabular-regression-lightgbm")
    script = opened("tabular-regression-lightgbm", with_series, recipe=told, folds=3, seeds=2)
    data = script.read_data()
    first = data.inputs["date"].min()
    found = [
        [(data.inputs["date"].iloc[rows] - first).unique().tolist() for rows in fold]
        for fold in script.split(data)
    ]
    assert found == [[list(range(end - 7)), list(range(end - 7, end))] for end in (63, 56, 49)], (
        "older folds are not repeated"
    )
    data.test_times = None
    lengths = {len(set(data.times[valid])) for _, valid in script.split(data)}
    assert lengths == {6}, "a tenth of the days"


def test_networks_repeat_the_latest_fold_alone(opened: Open, workshop: Workshop) -> None:
    told = by_time(workshop, "tabular-regression-network")
    script = opened("tabular-regression-network", with_series, recipe=told, folds=3, seeds=2)
    data = script.read_data()
    latest = [int(data.inputs["date"].iloc[valid].max()) for _, valid in script.split(data)]
    assert latest == [latest[0], latest[0], latest[0] - 7, latest[0] - 14]
    assert script.by_recency(data, ["1", "2", "3", "4"]) == [["1", "2"], ["3"], ["4"]]


def test_the_latest_good_fold_is_submitted(opened: Open, workshop: Workshop) -> None:
    """Answers of folds lie there: 1 is the latest, all_1 and all_2 were fitted to all rows."""
    told = by_time(workshop, "tabular-regression-lightgbm")
    script = opened("tabular-regression-lightgbm", with_series, recipe=told, folds=3)
    data = script.read_data()
    script.state.out_dir.mkdir()
    assert not script.HIGHER_IS_BETTER

    def put(name: int | str, answer: float, score: float) -> None:
        known = {"test": np.full((len(data.test_ids), 1), answer), "complete": True}
        script.save_result(name, {**known, "score": score, "constant": 1.0})
        (script.state.out_dir / script.CHECKPOINT.format(name)).touch()

    def submitted() -> set[float]:
        script.predict(data, None)
        return {float(row[1]) for row in rows_of(script.state.out_dir / "submission.csv")[1:]}

    put(3, 3.0, 0.1)
    assert submitted() == {3.0}
    put(2, 2.0, 0.5)
    assert submitted() == {2.0}
    put(1, 1.0, 2.0)  # worse than the constant: the older one learned no better for the latest rows
    assert script.predict(data, None) == 0
    put(1, 1.0, 0.9)
    assert submitted() == {1.0}
    put("all_1", 10.0, 0.9)
    put("all_2", 20.0, 0.9)
    assert submitted() == {15.0}


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_all_rows_are_fitted_with_the_rounds_of_the_folds(workshop: Workshop, library: str) -> None:
    name = f"tabular-regression-{library}"
    trial = workshop.trial(name, spoil=with_series, recipe=by_time(workshop, name), folds=3, seeds=2)
    ended = trial.train()
    assert ended.status == 0, ended.log
    known = {name: np.load(trial.out / f"answers_{name}.npz") for name in ("1", "2", "3", "all_1", "all_2")}
    assert len(trial.checkpoints()) == 5, ended.log
    rounds = int(np.median([known[fold]["rounds"][0] for fold in "123"]))
    assert f"All rows, seed 2 of 2: {rounds} rounds" in ended.log
    sent = [float(row[1]) for row in rows_of(trial.submission)[1:]]
    assert sent == pytest.approx(((known["all_1"]["test"] + known["all_2"]["test"]) / 2)[:, 0])
    blended = [float(row[1]) for row in rows_of(trial.out / "test_predictions.csv")[1:]]
    assert blended == pytest.approx(sent)
    assert len(rows_of(trial.out / "oof.csv")) == 1 + 2 * 3 * 7
    again = trial.train()
    assert "All rows" not in again.log, "it is done"


def test_a_linear_model_of_all_rows_is_sent(workshop: Workshop) -> None:
    name = "tabular-regression-linear"
    trial = workshop.trial(name, spoil=with_series, recipe=by_time(workshop, name), folds=3)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert len(trial.checkpoints()) == 4, ended.log
    whole = np.load(trial.out / "answers_all_1.npz")["test"]
    assert [float(row[1]) for row in rows_of(trial.submission)[1:]] == pytest.approx(whole[:, 0])


@pytest.mark.parametrize("kind", ["lightgbm", "network"])
@pytest.mark.parametrize(("folds", "seeds"), [(1, 1), (1, 3), (3, 1), (3, 2), (5, 3)])
def test_a_plan_prices_the_fits_that_its_script_runs(
    opened: Open, workshop: Workshop, kind: str, folds: int, seeds: int
) -> None:
    """63 days of two shops are known, 7 asked: as many fits, to as many rows, are counted."""
    name = f"tabular-regression-{kind}"
    script = opened(name, with_series, recipe=by_time(workshop, name), folds=folds, seeds=seeds, epochs=5)
    data, counted = script.read_data(), list[int]()

    def learns_from(rows: Any) -> dict[str, float]:
        counted.append(len(rows))
        return {"score": 1.0}

    if kind == "network":
        script.plan.train_fold = lambda fold, data, rows, *_: learns_from(rows)
        script.module.finish_fold = lambda *_: None
    else:
        fit = script.fit
        script.module.fit = lambda side, *more: (learns_from(side[1]), fit(side, *more))[1]
        script.module.is_worse = lambda _: False  # five rounds are worse than the baseline: no refit
    script.state.out_dir.mkdir()
    script.train_folds(data, None)
    n_train, n_test = len(data.targets), len(data.test_ids)
    priced = fits_of(n_train, n_test, folds, seeds=seeds, by_time=True, trees=kind != "network")
    assert len(counted) == priced.models
    assert sum(counted) == pytest.approx(priced.rows_read)


CUT = """
import lightgbm
boost, fits = lightgbm.train, []
def train(*given, **named):
    fits.append(1)
    if len(fits) == {fit}:
        import __main__
        __main__.state.stop = True
    return boost(*given, **named)
lightgbm.train = train
"""


def test_a_fit_to_all_rows_that_finds_no_more_splits_is_kept(opened: Open, workshop: Workshop) -> None:
    """Of a constant target: LightGBM grows fewer trees than it was asked for."""
    script = opened(SERIES, with_series, recipe=by_time(workshop, SERIES), folds=2, seeds=1)
    data, script.state.minutes = script.read_data(), 1e6
    data.targets = np.full_like(data.targets, 5.0)
    script.state.out_dir.mkdir()
    known = {"test": np.zeros((len(data.test_ids), 1)), "complete": True, "rounds": [9]}
    script.save_result(1, {**known, "score": 1.0, "constant": 1.0})
    script.refit(data, None)
    assert (script.state.out_dir / "fold_all_1.txt").exists()


@pytest.mark.parametrize("fit", [4, 5])
def test_cut_short_the_latest_fold_alone_is_submitted(workshop: Workshop, fit: int) -> None:
    """In the second fold, or in the fit to all rows; the first two fits try how long predicting takes."""
    trial = workshop.trial(SERIES)
    ended = trial.train(before=CUT.format(fit=fit))
    assert ended.status == 0, ended.log
    assert not list(trial.out.glob("*all_1*"))
    assert ("cut short" in ended.log) == (fit == 5), ended.log
    sent = [float(row[1]) for row in rows_of(trial.submission)[1:]]
    assert sorted(sent) == pytest.approx(np.sort(np.load(trial.out / "answers_1.npz")["test"][:, 0]))
    assert gain(trial.data, trial.cells()) > 0, ended.log
    again = trial.train()
    assert re.search("Fold 1 is done already[^$]*All rows", again.log), again.log
    assert (trial.out / "fold_all_1.txt").exists()


@pytest.mark.parametrize(("left", "older", "count"), [(51.0, 20.0, 1), (62.0, 5.0, 5)])
def test_a_fold_begins_only_if_a_fit_to_all_rows_fits_behind_it(
    opened: Open, workshop: Workshop, left: float, older: float, count: int
) -> None:
    """The latest fold takes 20 s, and so does a fit to all rows, also behind older folds of fewer rows."""
    told = by_time(workshop, "tabular-regression-lightgbm")
    script = opened("tabular-regression-lightgbm", with_series, recipe=told, folds=8)
    clock = {"now": 0.0}
    done: list[int | str] = []
    module, state = script.module, script.state
    module.START, state.minutes = 0.0, left / 60 / 0.85
    state.reserve_minutes, state.train_minutes = 0.15 * state.minutes, 0.7 * state.minutes
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock["now"])})

    def fold(number: int, *_: object) -> dict[str, float]:
        clock["now"] += older if done else 20.0
        done.append(number)
        return {"score": 1.0}

    script.plan.train_fold, module.finish_fold = fold, lambda *_: None
    module.refit = lambda *_: done.append("all")
    state.out_dir.mkdir()
    script.train_folds(script.read_data(), None)
    assert done == [*range(1, count + 1), "all"]


def stores(folder: Path, *, words: bool, twice: bool = False) -> None:
    """Two stores of three items over 40 days and 5 to forecast, with a holiday in every sixth day and, new
    each day, a price; `twice`: item 1 of store 0 has two rows a day."""
    rng = np.random.default_rng(3)
    rows: list[list[str]] = []
    for day, store, item in itertools.product(range(45), range(2), [0, 1, 2, *[1] * twice]):
        date = str(np.datetime64("2026-01-01") + day)
        names = [f"S{store}", f"I{item}"] if words else [str(store), str(item)]
        holiday = ("yes" if day % 6 == 0 else "no") if words else str(int(day % 6 == 0))
        price = str(rng.integers(1, 60))
        rows.append([str(len(rows)), date, price, holiday, *names, str(100 * store + 10 * item + day)])
    head = ["id", "date", "price", "holiday", "store", "item", "sales"]
    known, asked = ([row for row in rows if (row[1] >= "2026-02-10") == late] for late in (False, True))
    write_rows(folder / "train.csv", [head, *known])
    write_rows(folder / "test.csv", [head[:-1], *(row[:-1] for row in asked)])
    write_rows(folder / "sample_submission.csv", [["id", "sales"], *([row[0], "0"] for row in asked)])


@pytest.mark.parametrize("words", [True, False])
def test_a_series_is_what_tells_rows_of_a_day_apart(
    opened: Open, workshop: Workshop, words: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words or numbers, without what changes from day to day."""
    name = "tabular-regression-lightgbm"
    spoil = partial(stores, words=words)
    data = opened(name, spoil, recipe=by_time(workshop, name)).read_data()
    told = capsys.readouterr().out
    assert "series: store, item (6)" in told
    assert "WARNING" not in told
    for column in ("store", "item"):
        assert data.inputs[column].map(type).eq(str).all(), "a category"
        assert set(data.test_inputs[column]) == set(data.inputs[column])
    table = data.inputs.assign(sales=data.targets[:, 0])
    for _, series in table.groupby(["store", "item"]):
        assert series["lag 5"].iloc[5:].tolist() == series["sales"].iloc[:-5].tolist()


def test_rows_that_share_day_and_series_are_warned_of(
    opened: Open, workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "tabular-regression-lightgbm"
    opened(name, partial(stores, words=False, twice=True), recipe=by_time(workshop, name)).read_data()
    told = capsys.readouterr().out
    assert "series: store, item (6)" in told, told
    assert "WARNING: 80 rows share date and series" in told


def test_of_series_the_value_one_season_ago_is_a_baseline(
    opened: Open, workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    """63 days of two shops are known, 7 asked; no fold that is worse is submitted."""
    told = by_time(workshop, SERIES)
    script = opened(SERIES, with_series, recipe=told, folds=2)
    data = script.read_data()
    sales = dict(
        zip(zip(data.inputs["shop"], data.inputs["date"], strict=True), data.targets[:, 0], strict=True)
    )
    train_rows, valid_rows = script.split(data)[1]
    known = data.inputs.iloc[train_rows]["date"].max()
    asked = data.inputs.iloc[valid_rows]
    naive = script.one_season_ago(data, train_rows, valid_rows)[:, 0]
    assert naive.tolist() == [
        sales[shop, date - 7] for shop, date in zip(asked["shop"], asked["date"], strict=True)
    ]
    assert asked["date"].max() == known + 7
    three_weeks = script.one_season_ago(data, train_rows, np.arange(len(data.targets), len(data.series)))[
        :, 0
    ]
    asked = data.test_inputs
    assert three_weeks.tolist() == [
        sales[shop, date - 21] for shop, date in zip(asked["shop"], asked["date"], strict=True)
    ]
    script.state.out_dir.mkdir()
    script.write_baseline(data)
    sent = {row[0]: float(row[1]) for row in rows_of(script.state.out_dir / "submission.csv")[1:]}
    for name, shop, date in zip(data.test_ids, asked["shop"], asked["date"], strict=True):
        assert sent[name] == pytest.approx(sales[shop, date - 7])
    assert "one season ago" in capsys.readouterr().out
    latest = script.split(data)[0]
    best, score = script.best_baseline(data, *latest)
    assert best == "one season ago"
    known = {"test": np.zeros((len(data.test_ids), 1)), "complete": True}
    script.save_result(1, {**known, "score": 1.01 * score, "constant": script.baseline_score(data, *latest)})
    (script.state.out_dir / script.CHECKPOINT.format(1)).touch()
    assert script.predict(data, None) == 0
    assert sent == {row[0]: float(row[1]) for row in rows_of(script.state.out_dir / "submission.csv")[1:]}


@pytest.mark.parametrize(
    ("every", "season"), [("h", 24), ("D", 7), ("W", 52), ("MS", 12), ("QS", 4), ("YS", 1)]
)
def test_a_season_is_read_from_the_dates(opened: Open, workshop: Workshop, every: str, season: int) -> None:
    """Months count as equally long: the value one season ago is of the same month. Of ten periods ahead the
    values of the same season are columns, the newest that is known first."""
    import pandas as pd  # type: ignore[import-untyped]

    script = opened(SERIES, lambda folder: None, recipe=by_time(workshop, SERIES))
    dates = pd.date_range("1990-01-01", periods=60, freq=every)
    table = pd.DataFrame({"day": script.as_days(pd.Series(dates.astype(str)))})
    known, asked = table[:50].copy(), table[50:].copy()
    names, series = script.add_lags(known, asked, np.arange(50.0), "day", [])
    assert set(series["season"]) == {season}
    assert series["period"].tolist() == list(range(60))
    newest = -(-10 // season) * season
    assert {f"lag {newest + n * season}" for n in range(script.SEASONS)} < set(names)
    expected = [period - newest if period >= newest else np.nan for period in range(50, 60)]
    assert asked[f"lag {newest}"].tolist() == pytest.approx(expected, nan_ok=True)
    if newest + 3 * season < 50:
        mean = [period - newest - 1.5 * season for period in range(50, 60)]
        assert asked["mean of seasons"].tolist() == mean


def test_irregular_moments_are_counted_in_days(opened: Open, workshop: Workshop) -> None:
    """Events of three days to the second are of three periods, not of 259200."""
    import pandas as pd

    script = opened(SERIES, lambda folder: None, recipe=by_time(workshop, SERIES))
    seconds = np.sort(np.random.default_rng(0).choice(259_200, 20_000, replace=False)) / 86_400
    table = pd.DataFrame({"day": 20_000 + seconds})
    _, series = script.add_lags(table[:19_000].copy(), table[19_000:].copy(), np.arange(19_000.0), "day", [])
    assert series["period"].max() == 3
    assert set(series["season"]) == {7}


def test_series_that_training_has_not_seen_get_no_lags(
    opened: Open, workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight sensors are known and two others asked, of the same days: no baseline of the past either."""

    def sensors(folder: Path) -> None:
        rows = [
            [f"{day}-{k}", str(np.datetime64("2026-01-01") + day), f"s{k}"]
            for day in range(60)
            for k in range(10)
        ]
        write_rows(
            folder / "train.csv",
            [["id", "date", "sensor", "heat"], *([*row, row[0][0]] for row in rows if row[2] < "s8")],
        )
        write_rows(folder / "test.csv", [["id", "date", "sensor"], *(row for row in rows if row[2] >= "s8")])
        (folder / "sample_submission.csv").unlink()

    data = opened(SERIES, sensors, recipe=by_time(workshop, SERIES)).read_data()
    assert not [name for name in data.inputs if name.startswith(("lag", "mean"))]
    assert data.series is None
    assert "NOTE: no lags" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y %H:%M"])
@pytest.mark.parametrize("first", [False, True])
def test_dates_may_be_written_otherwise_come_first_and_be_missing(
    opened: Open, workshop: Workshop, form: str, first: bool
) -> None:
    """The first column is no id where it has dates, and a row without one is of no late day."""
    import pandas as pd

    def dated(folder: Path) -> None:
        for part, days in (("train", range(60)), ("test", range(60, 67))):
            dates = [(pd.Timestamp("2026-01-01") + pd.Timedelta(days=day)).strftime(form) for day in days]
            rows = [
                [date, str(40 + number), "1"][: 3 - (part == "test")] for number, date in enumerate(dates)
            ]
            head = ["date", "heat", "sold"][: 3 - (part == "test")]
            if not first:
                rows = [[str(n), *row] for n, row in enumerate(rows)]
                rows[5][1] = "" if part == "train" else rows[5][1]
                head.insert(0, "id")
            write_rows(folder / f"{part}.csv", [head, *rows])
        (folder / "sample_submission.csv").unlink()

    script = opened(SERIES, dated, recipe=by_time(workshop, SERIES), folds=1)
    data = script.read_data()
    name = "date " if first else "date"
    assert {name, f"{name} weekday", "heat"} < set(data.inputs)
    assert {"lag 7"} < set(data.inputs)
    assert data.test_inputs[name].tolist() == list(range(20_514, 20_521))
    ((learned, held_out),) = script.split(data)
    assert held_out.tolist() == list(range(53, 60))
    assert len(learned) == 53


def test_the_time_of_day_is_a_column(opened: Open, workshop: Workshop) -> None:
    import pandas as pd

    def hourly(folder: Path) -> None:
        dates = [str(pd.Timestamp("2026-01-01") + pd.Timedelta(hours=hour)) for hour in range(96)]
        rows = [[str(hour), date, str(hour % 24)] for hour, date in enumerate(dates)]
        write_rows(folder / "train.csv", [["id", "date", "sold"], *rows[:90]])
        write_rows(folder / "test.csv", [["id", "date"], *(row[:2] for row in rows[90:])])
        (folder / "sample_submission.csv").unlink()

    data = opened(SERIES, hourly, recipe=by_time(workshop, SERIES)).read_data()
    assert (24 * data.inputs["date time of day"]).tolist() == pytest.approx(
        data.targets[:, 0].tolist(), abs=1e-6
    )
