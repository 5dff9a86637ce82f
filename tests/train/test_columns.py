"""Are tables read as they are meant: kinds of columns, what is predicted, and what helps nobody?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import columns, engine, folds, reading, runtime
from memory_service.train.columns import column_kind, read_frames, typed
from memory_service.train.features import Choice, choices, features_of
from tests.train.conftest import Prepare

ROWS = 120


def lay(folder: Path, train: dict[str, Any], asked: dict[str, Any], **sample: Any) -> None:
    pd.DataFrame(train).to_csv(folder / "train.csv", index=False)
    pd.DataFrame(asked).to_csv(folder / "test.csv", index=False)
    if sample:
        pd.DataFrame(sample).to_csv(folder / "sample_submission.csv", index=False)


def read() -> reading.Data:
    return read_frames(*reading.read_tables("test.csv"))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.5, 1.25, 7.0], "number"),
        ([3, 5, 9, 11], "code"),
        (range(100_000), "number"),
        ([0, 1], "number"),
        (["1.5", "none", *["2.5"] * 30], "number"),
        (["2026-01-31", "2026-02-01 12:00", None], "date"),
        (["31.1.2026", "1.2.2026"], "date"),
        (["oak", "elm", "oak"], "category"),
        ([f"the {n} was very good" for n in range(50)], "text"),
        (["the first of three"] * 50, "category"),
    ],
)
def test_a_column_is_of_the_kind_that_its_values_show(values: Any, kind: str) -> None:
    assert column_kind(pd.Series(list(values) * (30 if len(values) < 10 else 1))) == kind


def test_whole_numbers_of_an_id_that_repeats_may_be_names() -> None:
    values = [7 * (n % 1_200) for n in range(3_000)]
    assert column_kind(pd.Series(values, name="movie_id")) == "code"
    assert column_kind(pd.Series(values, name="humid")) == "number"
    assert column_kind(pd.Series(range(3_000), name="movie_id")) == "number"


def test_many_whole_numbers_that_leave_none_out_may_be_names() -> None:
    numbers = [n % 1_500 for n in range(6_000)]
    assert column_kind(pd.Series(numbers, name="student")) == "code"
    assert column_kind(pd.Series(numbers, name="day")) == "number"
    amounts = [round(1.005**n) for n in numbers]
    assert column_kind(pd.Series(amounts, name="price")) == "number"


def test_a_category_of_numbers_is_the_same_where_one_is_missing() -> None:
    whole, gaps = pd.Series([5, 6, 7]), pd.Series([5, None, 7])
    assert typed(whole, "category").tolist() == ["5", "6", "7"]
    assert typed(gaps, "category").dropna().tolist() == ["5", "7"]


def test_infinity_and_words_among_numbers_are_missing() -> None:
    assert typed(pd.Series(["inf", "-inf", "1.5", "about 80"]), "number").dropna().tolist() == [1.5]


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y %H:%M"])
@pytest.mark.parametrize("first", [False, True])
def test_dates_may_be_written_otherwise_come_first_and_be_missing(
    prepared: Prepare, form: str, first: bool, tmp_path: Path
) -> None:
    """The first column is no id where it has dates, and a row without one is of no late day."""
    prepared(SPLIT="time", FOLDS=1)
    dates = pd.date_range("2026-01-01", periods=67).strftime(form).tolist()
    table = {"date": dates, "heat": [40.5 + n for n in range(67)], "sold": [n * 1.5 for n in range(67)]}
    if not first:
        table = {"id": [f"r{n}" for n in range(67)], **table}
        table["date"][5] = ""
    whole = pd.DataFrame(table)
    lay(tmp_path / "data", dict(whole[:60]), dict(whole[60:].drop(columns="sold")))
    data = read()
    name = "date " if first else "date"
    assert data.columns == {name: "date", "heat": "number"}
    assert data.test_inputs[name].tolist() == list(range(20_514, 20_521))
    ((learned, held_out),) = folds.split(data)
    assert held_out.tolist() == list(range(53, 60))
    assert len(learned) == 53


def test_words_where_the_plan_expects_values_are_classes(
    prepared: Prepare, tmp_path: Path, capsys: Any
) -> None:
    plan = prepared("values")
    numbers = [n / 7 for n in range(ROWS)]
    lay(tmp_path / "data", {"id": range(ROWS), "x": numbers, "y": ["a", "b"] * 60}, {"id": [1], "x": [0.5]})
    data = read()
    assert data.outputs == ["a", "b"]
    assert data.targets.tolist() == [0, 1] * 60
    assert (plan.ANSWER, plan.METRIC) == ("labels", "log loss")
    assert "WARNING: the plan was made for values" in capsys.readouterr().out


def test_many_fractions_where_the_plan_expects_classes_are_values(prepared: Prepare, tmp_path: Path) -> None:
    plan = prepared("labels")
    numbers = [n / 7 for n in range(ROWS)]
    lay(tmp_path / "data", {"id": range(ROWS), "x": numbers, "y": numbers}, {"id": [1], "x": [0.5]})
    assert read().targets.shape == (ROWS, 1)
    assert (plan.ANSWER, plan.SCORE) == ("values", "rmse")


@pytest.mark.parametrize("new", [True, False])
def test_the_column_of_groups_is_an_input_only_where_the_test_shares_them(
    prepared: Prepare, tmp_path: Path, new: bool, capsys: Any
) -> None:
    prepared(SPLIT="group", GROUP_BY="patient")
    table = {
        "id": range(ROWS),
        "patient": [f"p{n % 9}" for n in range(ROWS)],
        "x": [n / 7 for n in range(ROWS)],
    }
    asked = {"id": [1, 2], "patient": ["q1", "q2"] if new else ["p1", "p2"], "x": [0.5, 0.7]}
    lay(tmp_path / "data", table | {"y": table["x"]}, asked)
    data = read()
    assert data.columns["patient"] == ("group" if new else "category")
    assert data.groups is not None
    assert len(set(data.groups)) == 9
    assert ("is no input" in capsys.readouterr().out) is new


def test_numbers_that_all_come_later_are_a_time(prepared: Prepare, tmp_path: Path, capsys: Any) -> None:
    """Of seasons that only go on, the last ones of training validate."""
    plan = prepared(SPLIT="random")
    table = {
        "id": range(ROWS),
        "season": [1990 + n % 8 for n in range(ROWS)],
        "x": [n / 7 for n in range(ROWS)],
    }
    lay(tmp_path / "data", table | {"y": table["x"]}, {"id": [1, 2], "season": [1998, 1999], "x": [0.5, 0.7]})
    data = read()
    assert (plan.SPLIT, plan.GROUP_BY) == ("time", "season")
    assert data.columns == {"season": "group", "x": "number"}
    assert data.times is not None
    assert sorted(set(data.times)) == list(range(1990, 1998))
    assert "later by season" in capsys.readouterr().out


def test_the_number_of_new_groups_is_tried_and_no_input_before(prepared: Prepare, tmp_path: Path) -> None:
    prepared(SPLIT="group", GROUP_BY="patient")
    patient = [10 + n // 4 for n in range(ROWS)]
    table = {"id": range(ROWS), "patient": patient, "x": [n % 7 / 7 for n in range(ROWS)]}
    lay(tmp_path / "data", table | {"y": table["x"]}, {"id": [1, 2], "patient": [1, 99], "x": [0.5, 0.7]})
    data = read()
    assert data.columns == {"patient": "group", "x": "number"}
    problem = engine.problem_of(data)
    rows = np.arange(ROWS)
    assert [*features_of(problem, Choice(), rows, 0)[0]] == ["x"]
    (change,) = (change for what, change in choices(problem, Choice(), {}) if what == "the group's number")
    assert "patient" in features_of(problem, Choice().changed(change), rows, 0)[0]


def test_names_that_hardly_repeat_are_texts(prepared: Prepare, tmp_path: Path) -> None:
    prepared("labels")
    names = [f"{first}{second}" for first in ("An", "Bo", "Cy", "Du") for second in ("ka", "li", "mo")]
    table = {
        "id": range(24),
        "name": names * 2,
        "who": [f"{name}{chr(97 + n)}" for n, name in enumerate(names * 2)],
    }
    lay(tmp_path / "data", table | {"y": [0, 1] * 12}, {"id": [1], "name": ["Anka"], "who": ["Bok"]})
    assert read().columns == {"name": "category", "who": "text"}


def test_a_table_where_the_plan_expected_pictures_is_learned(
    prepared: Prepare, tmp_path: Path, capsys: Any
) -> None:
    def pictures() -> reading.Data:
        raise FileNotFoundError("no folder train")

    plan = prepared("labels", read_data=pictures)
    lay(tmp_path / "data", {"id": range(9), "x": range(9), "y": [0, 1, 2] * 3}, {"id": [1], "x": [4]})
    data = runtime.read_or_other()
    assert list(data.inputs) == ["x"]
    assert plan.train is engine.train_members
    assert "WARNING: the plan was made for other data" in capsys.readouterr().out


@pytest.mark.parametrize("left", [["train"], ["columns"]])
def test_other_data_that_cannot_be_learned_from_say_what_is_missing(
    prepared: Prepare, tmp_path: Path, left: list[str]
) -> None:
    """Files that only lie elsewhere, and a table that shares no column with the test's."""

    def pictures() -> reading.Data:
        raise FileNotFoundError("no folder test")

    prepared("labels", read_data=pictures)
    lay(tmp_path / "data", {"id": range(9), "x": range(9), "y": [0, 1, 2] * 3}, {"id": [1], "z": [4]})
    if left == ["train"]:
        lay(tmp_path / "data", {"id": range(9), "x": range(9), "y": [0, 1, 2] * 3}, {"id": [1], "x": [4]})
        (tmp_path / "data" / "train").mkdir()
    with pytest.raises(FileNotFoundError, match="no folder test"):
        runtime.read_or_other()
    assert columns.other_data() is None


def test_rows_without_a_target_are_left_out(prepared: Prepare, tmp_path: Path, capsys: Any) -> None:
    prepared("values")
    lay(
        tmp_path / "data",
        {"id": range(6), "x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "y": [1.5, None, 2.5, np.inf, 4.5, 5.5]},
        {"id": [1], "x": [0.5]},
    )
    data = read()
    assert data.ids == ["0", "2", "4", "5"]
    assert len(data.inputs) == 4
    assert "2 rows without y are left out" in capsys.readouterr().out


def test_one_class_alone_still_gives_a_submission_by_balanced_accuracy() -> None:
    from memory_service.train.answers import cut_classes

    assert cut_classes(np.ones((3, 1)), []).tolist() == [0, 0, 0]


def test_new_groups_of_new_groups_are_what_is_split_by(
    prepared: Prepare, tmp_path: Path, capsys: Any
) -> None:
    """Pupils of schools: the test set has other schools, so whole schools validate; no pupil is an input."""
    plan = prepared(SPLIT="group", GROUP_BY="pupil")
    pupil = [n // 2 for n in range(ROWS)]
    school, x = [f"s{each // 6}" for each in pupil], [n % 7 / 7 for n in range(ROWS)]
    table = {"id": range(ROWS), "pupil": pupil, "school": school, "x": x}
    asked = {"id": [1, 2], "pupil": [901, 902], "school": ["new", "other"], "x": [0.5, 0.7]}
    lay(tmp_path / "data", table | {"y": table["x"]}, asked)
    data = read()
    assert plan.GROUP_BY == "school"
    assert data.groups is not None
    assert len(set(data.groups)) == 10
    assert data.columns == {"pupil": "group", "school": "group", "x": "number"}
    assert "each of whole pupils" in capsys.readouterr().out


def test_large_numbers_that_all_come_later_are_a_time_too(prepared: Prepare, tmp_path: Path) -> None:
    plan = prepared(SPLIT="random")
    rows = 4_000
    moments = [1_700_000_000 + 3600 * (n // 3) for n in range(rows)]
    table = {"id": range(rows), "timestamp": moments, "x": [n % 7 / 7 for n in range(rows)]}
    later = [1_800_000_000 + 3600 * n for n in range(20)]
    lay(tmp_path / "data", table | {"y": table["x"]}, {"id": range(20), "timestamp": later, "x": [0.5] * 20})
    data = read()
    assert (plan.SPLIT, plan.GROUP_BY) == ("time", "timestamp")
    assert data.times is not None


@pytest.mark.parametrize(
    ("names", "levels"),
    [
        (["quantile_0.1", "quantile_0.9"], [0.1, 0.9]),
        (["q_0.05", "q_0.95"], [0.05, 0.95]),
        (["p2.5", "p97.5"], [0.025, 0.975]),
        (["p_5", "p_50", "p_95"], [0.05, 0.5, 0.95]),
        (["q025", "q975"], [0.025, 0.975]),
        (["sales2024_p10", "sales2024_p90"], [0.1, 0.9]),
        (["low", "middle", "high"], [0.25, 0.5, 0.75]),
    ],
)
def test_a_column_for_each_quantile_names_it(
    prepared: Prepare, names: list[str], levels: list[float]
) -> None:
    prepared(K=0)
    assert reading.levels_of(names, several=True) == levels


@pytest.mark.parametrize("mark", ["", " 13:30"])
def test_days_come_before_months_where_no_month_is_above_twelve(mark: str) -> None:
    months_first = reading.as_days(pd.Series([f"{date}{mark}" for date in ("1/31/2026", "2/1/2026")]))
    days_first = reading.as_days(pd.Series([f"{date}{mark}" for date in ("31/1/2026", "1/2/2026")]))
    assert days_first.tolist() == months_first.tolist()
    assert np.diff(days_first).tolist() == [1.0]


def test_all_tables_of_a_folder_have_one_order_of_days_and_months(prepared: Prepare, tmp_path: Path) -> None:
    folder, first_days = tmp_path / "data", [f"0{day}-0{month}-2026" for month in (1, 2) for day in (3, 4, 5)]
    columns = {"id": range(6), "bought": first_days, "seen": first_days}
    pd.DataFrame(columns | {"target": range(6)}).to_csv(folder / "train.csv", index=False)
    pd.DataFrame(columns | {"bought": "25-03-2026"}).to_csv(folder / "test.csv", index=False)
    visits = {"id": range(6), "visit": "28/02/2026", "paid": "3/28/2026"}
    pd.DataFrame(visits).to_csv(folder / "visits.csv", index=False)
    prepared()
    train, test, _ = reading.three_tables()
    days = {name: reading.as_days(train[name]) for name in ("bought", "seen")}
    assert np.diff(days["bought"]).tolist() == [1, 1, 29, 1, 1]  # as test.csv shows
    assert reading.as_days(test["bought"]).min() > days["bought"].max()
    assert np.diff(days["seen"]).tolist() == [31, 30, -60, 31, 30]  # tables do not agree: months first
    visits["paid"] = "28/3/2026"
    pd.DataFrame(visits).to_csv(folder / "visits.csv", index=False)
    reading.day_orders.cache_clear()
    assert reading.as_days(train["seen"]).tolist() == days["bought"].tolist()  # as all others
