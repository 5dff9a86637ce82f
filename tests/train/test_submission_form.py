"""Do tables and submission get the form that the sample asks for?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import reading
from memory_service.train.budget import plan
from memory_service.train.columns import read_frames
from memory_service.train.look import describe, target_facts
from memory_service.train.submission_form import in_cells, known_ids, likeness
from memory_service.train.writing import write_submission

DRAWN = np.random.default_rng(3)
MONTHS = [f"2024-{month:02}-01" for month in range(1, 7)]
STORES = pd.MultiIndex.from_product([[1, 2, 11], [1, 12], MONTHS], names=["store", "item", "day"])
STORES = STORES.to_frame(index=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    for name, value in {
        "DATA_DIR": tmp_path,
        "ANSWER": "values",
        "SPLIT": "random",
        "cells": None,
        "ranks": None,
    }.items():
        monkeypatch.setattr(plan, name, value, raising=False)

    def lay(**tables: pd.DataFrame | None) -> Path:
        for name, table in tables.items():
            if table is not None:
                table.to_csv(tmp_path / f"{name}.csv", index=False)
        return tmp_path

    return lay


def submitted(folder: Path) -> pd.DataFrame:
    """What is written where each row's answer is its number."""
    data = read_frames(*reading.read_tables("test.csv"))
    answers = np.arange(len(data.test_ids), dtype=float)
    names = data.target_columns if data.sample is None else list(data.sample.columns[1:])
    table = pd.DataFrame({data.id_column: data.test_ids} | dict.fromkeys(names, answers))
    write_submission(data, table, folder)
    return pd.read_csv(folder / "submission.csv", dtype={0: str})


def joined_by(mark: str, *columns: str) -> list[str]:
    return list(STORES[list(columns)].astype(str).agg(mark.join, axis=1))


JOINED = {
    "of three columns": (joined_by("_", "store", "item", "day"), ["store", "item", "day"]),
    "with a word between": ([f"s{s} x {i}/{d}" for s, i, d in STORES.itertuples(index=False)], list(STORES)),
    "in another order": (joined_by("-", "day", "item", "store"), ["store", "item", "day"]),
}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("form", JOINED)
def test_ids_may_be_joined_of_columns_of_the_test_set(form: str, shuffled: bool, folder: Any) -> None:
    ids, columns = JOINED[form]
    sample = pd.DataFrame({"Id": ids, "sold": 0.0})
    asked = sample.sample(frac=1, random_state=1) if shuffled else sample
    train = STORES.assign(day=STORES["day"].str.replace("2024", "2023"), sold=DRAWN.normal(size=len(STORES)))
    place = folder(train=train, test=STORES[columns], sample_submission=asked)
    found = submitted(place)
    assert found["Id"].tolist() == asked["Id"].tolist()
    assert found["sold"].tolist() == asked.index.tolist()


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["7", "8", "9", "10"], ["0007", "0008", "0009", "0010"]),
        (["a-1", "b-2", "c-3", "d-4"], ["A1", "B2", "C3", "D4"]),
        (["7.0", "8.0", "9.0", "10.0"], ["7", "8", "9", "10"]),
    ],
)
def test_ids_may_be_spelled_otherwise(names: list[str], ids: list[str], folder: Any) -> None:
    train = pd.DataFrame({"id": range(40), "size": DRAWN.normal(size=40), "price": DRAWN.normal(size=40)})
    test = pd.DataFrame({"id": names, "size": range(4)})
    sample = pd.DataFrame({"id": ids[::-1], "price": 0.0})
    found = submitted(folder(train=train, test=test, sample_submission=sample))
    assert (found["id"].tolist(), found["price"].tolist()) == (ids[::-1], [3.0, 2.0, 1.0, 0.0])


def test_as_many_rows_without_ids_are_taken_in_their_order(folder: Any, capsys: Any) -> None:
    train = pd.DataFrame({"label": [0, 1, 2] * 20, "dot": range(60), "line": range(60)})
    place = folder(
        train=train,
        test=train[["dot", "line"]].head(5),
        sample_submission=pd.DataFrame({"ImageId": range(1, 6), "Label": 0}),
    )
    assert describe(place)["target"] == ["label"]
    data = read_frames(*reading.read_tables("test.csv"))
    assert data.test_ids == ["1", "2", "3", "4", "5"]
    assert (data.outputs, list(data.inputs)) == (["label"], ["dot", "line"])
    assert "WARNING" not in capsys.readouterr().out


def test_ids_of_other_rows_are_no_ids_of_these() -> None:
    assert known_ids(pd.Series(["a", "b", "x"]), pd.Series(["a", "b", "c", "d"]))
    assert not known_ids(pd.Series(["1", "2", "3"]), pd.Series([0, 1, 2]))


TARGETS: dict[str, tuple[dict[str, Any], str]] = {
    "in another case": ({"Label": range(60)}, "label"),
    "of several scores": ({"rater1_part1": range(60), "part1_score": range(60)}, "predicted_score"),
    "an event and its time": ({"event": [0, 1, 1] * 20, "event_time": range(1, 61)}, "prediction"),
}


@pytest.mark.parametrize("form", TARGETS)
def test_the_sample_may_call_a_target_otherwise(form: str, folder: Any) -> None:
    columns, name = TARGETS[form]
    train = pd.DataFrame({"id": range(60), "size": DRAWN.normal(size=60), **columns})
    sample = pd.DataFrame({"id": range(60, 70), name: 0.0})
    place = folder(train=train, test=sample[["id"]].assign(size=1.0), sample_submission=sample)
    assert describe(place)["answer"] == "values"
    assert submitted(place)[name].tolist() == list(range(10))


def test_an_earlier_event_is_a_larger_risk_and_a_censored_row_lies_between(folder: Any) -> None:
    train = pd.DataFrame({"id": range(5), "size": 1.5, "died": [1, 1, 0, 1, 1], "days": [1, 2, 3, 4, 5]})
    sample = pd.DataFrame({"id": [7, 8], "risk": 0.0})
    folder(train=train, test=sample[["id"]].assign(size=1.0), sample_submission=sample)
    risk = reading.read_tables("test.csv")[0]["risk"].round(3).tolist()  # type: ignore[index]
    assert risk == [0.8, 0.6, 0.3, 0.3, 0.0]


def test_names_without_a_word_in_common_are_not_alike() -> None:
    assert likeness("rater1_domain1", "predicted_score") == 0
    assert likeness("domain1_score", "predicted_score") > 1


ANIMALS = pd.DataFrame({"id": ["a7", "b8", "c9"], "size": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("mark", ["_", " X ", "-"])
@pytest.mark.parametrize("form", ["targets", "classes", "a look-up table"])
def test_a_row_for_each_id_and_target_is_filled(form: str, mark: str, folder: Any) -> None:
    kinds, rows = ["cat", "dog"], [(one, kind) for one in ANIMALS["id"] for kind in ("dog", "cat")]
    train = pd.DataFrame({"id": [f"t{n}" for n in range(40)], "size": DRAWN.normal(size=40)})
    train = train.assign(kind=kinds * 20) if form == "classes" else train.assign(cat=1.5, dog=range(40))
    ids, table = [f"{one}{mark}{kind}" for one, kind in rows], None
    if form == "a look-up table":
        table = pd.DataFrame(
            {"RowId": range(1, 7), "id": [r[0] for r in rows], "Feature": [r[1] for r in rows]}
        )
        ids = [str(n) for n in range(1, 7)]
    sample = pd.DataFrame({"Row": ids, "value": 0.0})
    place = folder(train=train, test=ANIMALS, sample_submission=sample, lookup=table)
    found = describe(place)
    assert (found["n_test"], found["answer"]) == (3, "classes" if form == "classes" else "values")
    answers = pd.DataFrame({"id": ANIMALS["id"], "cat": [1, 2, 3], "dog": [4, 5, 6]})
    assert in_cells(answers)["value"].tolist() == [4, 1, 5, 2, 6, 3]


def test_a_row_for_each_id_and_place_of_a_text_is_learned_by_the_letters(folder: Any) -> None:
    train = pd.DataFrame({"id": ["a", "b"], "letters": ["UGGA", "CAUC"], "noise": [0.125, 0.375]})
    train = train.assign(**{f"decay.{n}": [n, n + 10.0] for n in range(3)})
    test = pd.DataFrame({"id": ["x_1", "y_2"], "letters": ["AAG", "GGCCA"], "noise": [0.625, 0.875]})
    ids = [f"{name}_{place}" for name, long in (("x_1", 3), ("y_2", 5)) for place in range(long)]
    folder(train=train, test=test, sample_submission=pd.DataFrame({"id_place": ids, "decay": 0.0}))
    known, asked, _ = reading.read_tables("test.csv")
    assert known is not None
    assert asked is not None
    assert known["decay"].tolist() == [0, 1, 2, 10, 11, 12]
    assert in_cells(asked[["row"]].assign(decay=range(8)))["id_place"].tolist() == ids
    assert asked[["id", "place"]].agg(lambda row: f"{row.iloc[0]}_{row.iloc[1]}", axis=1).tolist() == ids
    assert asked["letters +0"].tolist() == list("AAGGGCCA")
    assert asked["letters -1"].tolist() == list("_AA_GGCC")
    assert asked["noise"].tolist() == [0.625] * 3 + [0.875] * 5


DAYS = pd.date_range("2024-03-01", periods=40).strftime("%Y-%m-%d")


@pytest.mark.parametrize("form", ["days", "a key table", "numbered"])
def test_a_column_for_each_day_is_read_as_rows(form: str, folder: Any) -> None:
    pages = [f"page_{n}" for n in range(6)]
    periods = [f"d_{n}" for n in range(1, 31)] if form == "numbered" else DAYS[:30]
    train = pd.DataFrame(DRAWN.integers(0, 99, (6, 30)), columns=periods)
    train.insert(0, "page", pages)
    rows, key, calendar = [(page, day) for page in pages for day in DAYS[30:33]], None, None
    sample = pd.DataFrame({"id": [f"{page}_{day}" for page, day in rows], "visits": 0.0})
    if form == "a key table":
        key = pd.DataFrame({"page": sample["id"], "id": [f"x{n:03}" for n in range(18)]})
        sample = sample.assign(id=key["id"])
    if form == "numbered":
        calendar = pd.DataFrame({"when": DAYS, "d": [f"d_{n}" for n in range(1, 41)]})
        sample = pd.DataFrame({"page": pages, "F1": 0, "F2": 0, "F3": 0})
    place = folder(train=train, sample_submission=sample, key=key, calendar=calendar)
    found = describe(place)
    assert (found["task"], found["n_train"], found["n_test"]) == ("time-series-regression", 180, 18)
    _, test, _ = reading.read_tables("test.csv")
    asked = test.set_index("row")[["page", test.columns[2]]]  # type: ignore[union-attr]
    written = in_cells(pd.DataFrame({"row": asked.index, name_of_answers(): range(18)}))
    told = dict(zip(asked.itertuples(index=False, name=None), range(18), strict=True))
    if form == "numbered":
        expected = [[told[page, day] for day in DAYS[30:33]] for page in pages]
        assert written.iloc[:, 1:].to_numpy().tolist() == expected
    else:
        assert written["visits"].tolist() == [told[row] for row in rows]


def test_one_number_of_each_series_is_no_further_day_of_it(folder: Any) -> None:
    train = pd.DataFrame(DRAWN.integers(0, 99, (6, 30)), columns=[f"d_{n}" for n in range(1, 31)])
    train.insert(0, "page", [f"page_{n}" for n in range(6)])
    place = folder(train=train, sample_submission=train[["page"]].assign(total=0))
    with pytest.raises(ValueError, match="no column to learn from"):
        describe(place)


def name_of_answers() -> str:
    """What the answers are called in the rows of a day."""
    return str(next(iter(plan.cells[1].values()))[1])


def test_texts_of_numbers_are_columns(folder: Any) -> None:
    pixels = [" ".join(map(str, row)) for row in DRAWN.integers(0, 255, (30, 9))]
    train = pd.DataFrame({"id": range(30), "pixels": pixels, "smile": [0, 1] * 15})
    folder(train=train, test=train[["id", "pixels"]].assign(id=range(90, 120)))
    known, test, _ = reading.read_tables("test.csv")
    names = [f"pixels {n}" for n in range(9)]
    assert known is not None
    assert test is not None
    assert list(test.columns) == ["id", *names]
    assert known.loc[0, names].tolist() == [float(each) for each in pixels[0].split()]


@pytest.mark.parametrize(
    ("cells", "shown", "answer"),
    [
        ([*range(20)] * 3, "0 10 2 3 4", {"answer": "classes", "n_classes": 20, "rarest_class": 0.05}),
        ([*range(20)] * 3, "0", {"answer": "values"}),
        (["a b", "b", "c a", "a", "b c", "c", "a b c"] * 3, "a", {"answer": "labels", "n_classes": 3}),
    ],
)
def test_the_sample_tells_lists_of_classes_from_values(
    cells: list[Any], shown: str, answer: dict[str, Any]
) -> None:
    sample = pd.DataFrame({"id": ["1", "2"], "kind": shown})
    assert target_facts(pd.DataFrame({"kind": cells}), ["kind"], sample) == answer


def test_a_folder_without_a_target_is_told_of_and_the_target_may_be_named(folder: Any) -> None:
    train = pd.DataFrame({"id": range(30), "size": range(30), "price": DRAWN.normal(size=30)})
    place = folder(train=train, test=train.assign(id=range(50, 80)))
    with pytest.raises(ValueError, match="name it by --target"):
        describe(place)
    assert describe(place, "price")["target"] == ["price"]


def test_ranks_in_each_group_are_of_the_highest_first_unless_ranks_are_learned(folder: Any) -> None:
    """Each viewer's films are numbered from 1: the film whose answer is the highest is 1."""
    test = pd.DataFrame(
        {"Id": range(12), "viewer": [4, 4, 4, 9, 9, 9] * 2, "film": DRAWN.integers(0, 40, 12)}
    )
    sample = pd.DataFrame({"Id": test["Id"], "Rank": test.groupby("viewer").cumcount() + 1})
    train = pd.DataFrame({"viewer": [4, 9] * 30, "film": DRAWN.integers(0, 40, 60), "stars": [1.5, 4.0] * 30})
    train["stars"] += DRAWN.normal(size=60)
    found = submitted(folder(train=train, test=test, sample_submission=sample))
    learned = read_frames(*reading.read_tables("test.csv")).targets[:, 0]
    assert abs(learned[::2].mean()) < 1e-6 < learned[::2].std()  # only the order counts that a viewer has
    assert found["Rank"].tolist() == [6, 5, 4, 6, 5, 4, 3, 2, 1, 3, 2, 1]
    found = submitted(folder(train=train.rename(columns={"stars": "Rank"})))
    assert found["Rank"].tolist() == list(range(12))


def test_wide_series_may_be_named_by_two_columns_and_have_a_year_written_twice(folder: Any) -> None:
    """One column a year, "2000 [YR2000]"; ids such as "FRA|births" are joined of columns of training rows."""
    names = pd.DataFrame([(place, kind) for place in ("FRA", "ESP") for kind in ("births", "deaths")])
    names.columns = ["country", "kind"]
    years = {f"{year} [YR{year}]": DRAWN.normal(size=4) for year in range(2000, 2014)}
    sample = pd.DataFrame({"Id": names["country"] + "|" + names["kind"], "F1": 0.0, "F2": 0.0})
    place = folder(train=names.assign(**years), sample_submission=sample[::-1])
    data = read_frames(*reading.read_tables("sample_submission.csv"))
    assert len(data.ids) == 4 * 14
    assert len(data.test_ids) == 8
    table = pd.DataFrame({data.id_column: data.test_ids, "value": np.arange(8.0)})
    write_submission(data, table, place)
    found = pd.read_csv(place / "submission.csv")
    assert found["Id"].tolist() == sample["Id"].tolist()[::-1]
    assert sorted(found[["F1", "F2"]].to_numpy().ravel()) == list(range(8))
    assert describe(place)["n_test"] == 8


@pytest.mark.parametrize("score", ["rmse", "quantile"])
def test_several_columns_of_one_target_are_its_quantiles(
    score: str, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SCORE": score, "METRIC": "RMSE", "K": 0, "LEVELS": (), "score_of": None}.items():
        monkeypatch.setattr(plan, name, value, raising=False)
    train = pd.DataFrame({"day": range(60), "heat": DRAWN.normal(size=60), "load": DRAWN.normal(size=60)})
    sample = pd.DataFrame({"day": range(60, 70), "q0.1": 0.0, "q0.5": 0.0, "q0.9": 0.0})
    folder(train=train, test=train[["day", "heat"]][:10].assign(day=range(60, 70)), sample_submission=sample)
    data = read_frames(*reading.read_tables("test.csv"))
    assert data.targets.shape == (60, 3)
    assert data.outputs == ["q0.1", "q0.5", "q0.9"]
    assert (plan.SCORE, plan.LEVELS) == ("quantile", [0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("told", "written"),
    [
        (("file,angle",), "file,angle\nx_7.png,0\nx_8.png,1\n"),
        (("angle",), "angle\n0\n1\n"),
        (("file;angle", "a_1;3.5"), "file;angle\nx_7;0\nx_8;1\n"),
        (("", "a_1.png\t3.5"), "x_7.png\t0\nx_8.png\t1\n"),
        (("site,angle",), "site,angle\nnorth,0\nsouth,1\n"),
    ],
)
def test_without_a_sample_the_page_says_what_columns_are_submitted(
    folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, told: tuple[str, ...], written: str
) -> None:
    monkeypatch.setattr(plan, "PAGE_FORM", told)
    known = pd.DataFrame(
        {"name": ["x_1.png", "x_2.png"], "site": ["east", "west"], "size": 3, "turn": [1.5, 2]}
    )
    asked = pd.DataFrame({"name": ["x_7.png", "x_8.png"], "site": ["north", "south"], "size": [2, 3]})
    place = folder(train=known, test=asked)
    submitted(place)
    assert (place / "submission.csv").read_text().replace(".0\n", "\n") == written


def test_a_sample_counts_more_than_the_page(
    folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "PAGE_FORM", ("file,angle",))
    asked = pd.DataFrame({"name": ["c", "d"], "size": [2, 3]})
    place = folder(train=pd.DataFrame({"name": ["a", "b"], "size": 3, "turn": [1.5, 2]}), test=asked,
                   sample_submission=pd.DataFrame({"name": ["c", "d"], "turn": 0.5}))  # fmt: skip
    assert [*submitted(place).columns] == ["name", "turn"]
    assert "the page asks for file, angle: the sample counts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sample", "written"),
    [
        (pd.DataFrame({"who": [3, 4]}), [[7], [6]]),
        (pd.DataFrame({"rank": [1, 2, 3], "who": [3, 4, 5]}), [[1, 7], [2, 6], [3, 5]]),
    ],
)
def test_a_sample_of_ids_alone_asks_for_those_of_the_highest_answers(
    folder: Callable[..., Path], sample: pd.DataFrame, written: list[list[int]]
) -> None:
    known = pd.DataFrame({"who": [1, 2], "age": [20, 30], "bought": [0.5, 1.5]})
    asked = pd.DataFrame({"who": [3, 4, 5, 6, 7], "age": [20, 30, 40, 50, 60]})
    place = folder(train=known, test=asked, sample_submission=sample)
    assert submitted(place).astype(int).to_numpy().tolist() == written
