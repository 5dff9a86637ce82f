"""Are answers read and written as the files have them: marks, units, decimals, headers, workbooks?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.cli.describe import question_of
from memory_service.train import reading, table_files
from memory_service.train.answers import class_table, value_table
from memory_service.train.budget import plan
from memory_service.train.columns import read_frames
from memory_service.train.look import describe
from memory_service.train.writing import sample_form, write_submission


@pytest.fixture(autouse=True)
def _plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    named = {"DATA_DIR": tmp_path, "ANSWER": "labels", "SPLIT": "random", "cells": None, "FORM": "classes"}
    for name, value in (named | {"MARK": " ", "LOGS": "", "METRIC": "", "SCORE": "accuracy"}).items():
        monkeypatch.setattr(plan, name, value, raising=False)
    sample_form.cache_clear()
    yield
    sample_form.cache_clear()


def lay(folder: Path, sample: str, **columns: Any) -> None:
    """train.csv of ids, a number and these columns, test.csv without them, and this sample."""
    rows = len(next(iter(columns.values())))
    train = pd.DataFrame({"key": [f"k{row}" for row in range(rows)], "size": np.arange(rows) % 7 + 0.5})
    train.assign(**columns).to_csv(folder / "train.csv", index=False)
    train.head(3).assign(key=["t1", "t2", "t3"]).to_csv(folder / "test.csv", index=False)
    (folder / "sample_submission.csv").write_text(sample)


def data_of() -> Any:
    return read_frames(*reading.read_tables("test.csv"))


@pytest.mark.parametrize("mark", ["|", ", ", ";", " "])
def test_labels_of_a_cell_are_submitted_with_the_mark_between_them(mark: str, tmp_path: Path) -> None:
    cells = ["calm", "calm+sad", "sad", "loud", "loud+sad", "calm+loud", "calm+loud+sad"] * 4
    lay(tmp_path, "key,moods\nt1,calm\nt2,sad\nt3,sad\n", moods=[each.replace("+", mark) for each in cells])
    assert describe(tmp_path)["n_classes"] == 3
    data = data_of()
    assert data.outputs == ["calm", "loud", "sad"]
    chances = np.array([[0.9, 0.1, 0.8], [0.2, 0.3, 0.1], [0.7, 0.7, 0.7]])
    moods = class_table(data, chances)["moods"].tolist()
    assert moods == [mark.join(names) for names in (["calm", "sad"], ["loud"], ["calm", "loud", "sad"])]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["12,5 km", "1.031,25 km", "7 km"], [12.5, 1031.25, 7]),
        (["3 votes", "1 vote", "1,204 votes"], [3, 1, 1204]),
        (["1 094,28 zł", "17,30 zł", "5,00 zł"], [1094.28, 17.3, 5]),
        (["4.5 out of 10", "3.0 out of 10", "9 out of 10"], [4.5, 3, 9]),
        (["12 km", "12 miles", "3 km"], None),
        (["2019-12-31", "2020-12-31", "2021-12-31"], None),
        (["A12", "B7", "C3"], None),
    ],
)
def test_numbers_with_one_unit_are_numbers(cells: list[str], numbers: list[float] | None) -> None:
    found = table_files.amounts_in(pd.Series([*cells, None]), any("," in cell[-6:] for cell in cells))
    assert (None if found is None else found.dropna().tolist()) == numbers


@pytest.mark.parametrize(
    ("column", "classes", "second"),
    [
        ("p_broken", ["broken", "whole"], "broken"),
        ("spam", ["spam", "wanted"], "spam"),
        ("left", ["ja", "nein"], "ja"),
        ("left", ["No", "Yes"], "Yes"),
        ("kind", ["cat", "dog"], "dog"),
    ],
)
def test_the_probability_is_of_the_class_that_is_asked_for(
    column: str, classes: list[str], second: str, tmp_path: Path
) -> None:
    lay(tmp_path, f"key,{column}\nt1,0.5\nt2,0.5\nt3,0.5\n", state=classes * 10)
    data = data_of()
    assert data.outputs[1] == second
    assert np.asarray(data.outputs)[data.targets].tolist() == classes * 10


@pytest.mark.parametrize(
    ("column", "form", "chances"),
    [
        ("SCORE", "", True),
        ("purchase_probability", "", True),
        ("SCORE", "classes", False),
        ("bought", "", False),
    ],
)
def test_a_sample_of_zeros_asks_for_chances_where_its_column_is_called_so(
    column: str, form: str, chances: bool, tmp_path: Path
) -> None:
    plan.FORM = form
    lay(tmp_path, f"key,{column}\nt1,0\nt2,0\nt3,0\n", bought=[0, 0, 0, 1] * 8)
    found = class_table(data_of(), np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]]))
    assert found[column].tolist() == ([0.1, 0.3, 0.8] if chances else [0, 0, 1])


def test_a_column_of_the_test_set_in_the_sample_is_no_target(tmp_path: Path) -> None:
    marks = [1, 2, 3, 2, 1] * 8
    lay(tmp_path, "key,size,final_mark\nt1,0.5,1\nt2,1.5,1\nt3,2.5,1\n", judge=marks, exam_mark=marks[::-1])
    assert describe(tmp_path)["target"] == ["final_mark"]
    assert question_of(tmp_path)["task"] == "tabular"  # the metric says whether marks are classes or values
    data = data_of()
    write_submission(data, class_table(data, np.eye(3)), tmp_path)
    assert (tmp_path / "submission.csv").read_text() == "key,size,final_mark\nt1,0.5,1\nt2,1.5,2\nt3,2.5,3\n"


def test_counts_are_values_where_the_sample_has_fractions(tmp_path: Path) -> None:
    lay(tmp_path, "key,visits\nt1,0.25\nt2,0.25\nt3,0.25\n", visits=[0, 0, 1, 2, 5] * 8)
    assert describe(tmp_path)["task"] == "tabular-regression"


@pytest.mark.parametrize(
    ("sample", "written"),
    [
        ("key;price\nt1;3,50\nt2;3,50\nt3;3,50\n", "key;price\nt1;1,5\nt2;2,5\nt3;3,5\n"),
        ("t1,3\nt2,3\nt3,3\n", "t1,1.5\nt2,2.5\nt3,3.5\n"),
        ("key\tprice\nt1\t3\nt2\t3\nt3\t3\n", "key\tprice\nt1\t1.5\nt2\t2.5\nt3\t3.5\n"),
    ],
)
def test_lines_are_written_as_those_of_the_sample(sample: str, written: str, tmp_path: Path) -> None:
    plan.ANSWER = "values"
    lay(tmp_path, sample, price=np.arange(30) / 4)
    data = data_of()
    write_submission(data, value_table(data, np.array([[1.5], [2.5], [3.5]])), tmp_path)
    assert (tmp_path / "submission.csv").read_text() == written


def test_answers_without_names_are_written_as_those_that_are_known(tmp_path: Path) -> None:
    values, kinds = np.random.default_rng(0).normal(size=(40, 3)), np.eye(3, dtype=int)[np.arange(40) % 3]
    np.savetxt(tmp_path / "wood_train.data", values)
    np.savetxt(tmp_path / "wood_test.data", values[:3])
    np.savetxt(tmp_path / "wood_train.solution", kinds, fmt="%d")
    data = data_of()
    write_submission(data, class_table(data, np.eye(3)[[2, 0, 1]]), tmp_path)
    assert np.loadtxt(tmp_path / "submission.csv").tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_a_workbook_is_submitted_where_the_sample_is_one(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    plan.ANSWER = "values"
    lay(tmp_path, "", price=np.arange(30) / 4)
    (tmp_path / "sample_submission.csv").unlink()
    for name in ("train", "test"):
        pd.read_csv(tmp_path / f"{name}.csv").drop(columns="key").to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    pd.DataFrame({"price": [3, 3, 3]}).to_excel(tmp_path / "sample_submission.xlsx", index=False)
    data = data_of()
    write_submission(data, value_table(data, np.array([[1.5], [2.5], [3.5]])), tmp_path)
    table = pd.read_excel(tmp_path / "submission.xlsx")
    assert table.to_dict("list") == {"price": [1.5, 2.5, 3.5]}


def test_without_a_shared_column_is_said_what_to_do(tmp_path: Path) -> None:
    train = pd.DataFrame({"user": ["a", "b"] * 20, "bought": np.arange(40)})
    train.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "sample_submission.csv").write_text("user,bought\na,1\nb,1\n")
    with pytest.raises(ValueError, match="no column to learn from"):
        describe(tmp_path)
