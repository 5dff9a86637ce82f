"""Split by time: do folds validate as the test judges, and does what is submitted know the latest rows?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.domain.planning.fits import fits_of
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened
from tests.scripts.test_recipe import recipe

__all__ = ["opened"]

NETWORK, TABLE = "text-regression", "tabular-regression-members"


def with_series(folder: Path) -> None:
    """Two shops whose sales repeat weekly but for noise, each at its level; a week of them is asked for."""
    rng = np.random.default_rng(2)
    rows = []
    for shop, level in (("north", 100.0), ("south", 500.0)):
        week = rng.uniform(0, 50, 7)
        for day in range(70):
            date = str(np.datetime64("2026-01-01") + day)
            rows.append([f"{shop}{day}", date, shop, f"{level + week[day % 7] + rng.normal(0, 40):.3f}"])
    learned, asked = ([row for row in rows if (row[1] >= "2026-03-05") == late] for late in (False, True))
    write_rows(folder / "train.csv", [["id", "date", "shop", "sales"], *learned])
    write_rows(folder / "test.csv", [["id", "date", "shop"], *(row[:-1] for row in asked)])
    write_rows(folder / "sample_submission.csv", [["id", "sales"], *([row[0], "0"] for row in asked)])


def by_time(workshop: Workshop, name: str) -> dict[str, Any]:
    return recipe(workshop, name, "lag-features", split="time", by=None)


def test_windows_are_as_long_as_the_test_and_cut_between_days(opened: Open, workshop: Workshop) -> None:
    """63 days are known and 7 asked; two shops have a row each a day."""
    told = by_time(workshop, NETWORK)
    script = opened(NETWORK, with_series, recipe=told, folds=3)
    data = script.read_data()
    days = data.times - data.times.min()
    found = [[np.unique(days[rows]).tolist() for rows in fold] for fold in script.split(data)]
    assert found == [[list(range(end - 7)), list(range(end - 7, end))] for end in (63, 56, 49)], (
        "older folds are not repeated"
    )
    data.test_times = None
    lengths = {len(set(data.times[valid])) for _, valid in script.split(data)}
    assert lengths == {6}, "a tenth of the days"


def test_networks_repeat_the_latest_fold_alone(opened: Open, workshop: Workshop) -> None:
    told = by_time(workshop, NETWORK)
    script = opened(NETWORK, with_series, recipe=told, folds=3, seeds=2)
    data = script.read_data()
    latest = [int(data.times[valid].max()) for _, valid in script.split(data)]
    assert latest == [latest[0], latest[0], latest[0] - 7, latest[0] - 14]
    assert script.by_recency(data, ["1", "2", "3", "4"]) == [["1", "2"], ["3"], ["4"]]


def test_the_latest_good_fold_is_submitted(opened: Open, workshop: Workshop) -> None:
    """Answers of folds lie there: 1 is the latest."""
    told = by_time(workshop, NETWORK)
    script = opened(NETWORK, with_series, recipe=told, folds=3)
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


@pytest.mark.parametrize(("folds", "seeds"), [(1, 1), (1, 3), (3, 1), (3, 2), (5, 3)])
def test_a_plan_prices_the_fits_that_its_script_runs(
    opened: Open, workshop: Workshop, folds: int, seeds: int
) -> None:
    """63 days of two shops are known, 7 asked: as many fits, to as many rows, are counted."""
    name = NETWORK
    script = opened(name, with_series, recipe=by_time(workshop, name), folds=folds, seeds=seeds, epochs=5)
    data, counted = script.read_data(), list[int]()

    def learns_from(rows: Any) -> dict[str, float]:
        counted.append(len(rows))
        return {"score": 1.0}

    script.plan.train_fold = lambda fold, data, rows, *_: learns_from(rows)
    script.module.finish_fold = lambda *_: None
    script.state.out_dir.mkdir()
    script.train_folds(data, None)
    n_train, n_test = len(data.targets), len(data.test_ids)
    priced = fits_of(n_train, n_test, folds, seeds=seeds, by_time=True, trees=False)
    assert len(counted) == priced.models
    assert sum(counted) == pytest.approx(priced.rows_read)


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

    script = opened(TABLE, dated, recipe=by_time(workshop, TABLE))
    data = script.read_data()
    name = "date " if first else "date"
    assert {name, "heat"} == set(data.inputs)
    assert data.test_inputs[name].tolist() == list(range(20_514, 20_521))
    (learned, held_out), *_ = script.split(data)
    assert held_out.tolist() == list(range(53, 60))
    assert len(learned) == 53
