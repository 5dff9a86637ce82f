"""Do tables beside train.csv and test.csv say what they know of a row, and nothing that lies behind it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import budget, reading
from memory_service.train.columns import read_frames
from tests.train.conftest import Prepare


def lay(folder: Path, **tables: Any) -> None:
    for name, columns in tables.items():
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)


@pytest.fixture
def shop(prepared: Prepare, tmp_path: Path) -> Path:
    """Sixty orders of twenty customers, three each; the last third is asked for."""
    prepared()
    rows = np.arange(60)
    orders = {
        "id": rows,
        "customer": rows % 20 + 500,
        "date": pd.date_range("2024-01-01", periods=60).astype(str),
    }
    train = {name: column[:40] for name, column in orders.items()}
    folder = tmp_path / "data"
    lay(folder, train=train | {"spent": rows[:40] / 7}, test={n: column[40:] for n, column in orders.items()})
    return folder


def both(data: reading.Data) -> pd.DataFrame:
    return pd.concat([data.inputs, data.test_inputs], ignore_index=True)


def read() -> reading.Data:
    return read_frames(*reading.read_tables("test.csv"))


def test_a_table_of_one_row_a_key_is_joined_and_one_of_its_own_by_that(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = np.arange(20) + 500.0  # as pandas writes keys where one is missing
    lay(
        shop,
        customers={"customer": names, "town": ["a", "b"] * 10, "age": 20 + np.arange(20) * 1.5},
        towns={"town": ["a", "b"], "people": [10.5, 20.5]},
        colours={"colour": ["red", "blue"], "number": [1, 2]},
    )
    found = both(read())
    assert found["customers: age"].tolist() == [20 + (row % 20) * 1.5 for row in range(60)]
    assert found["towns: people"].tolist() == [(10.5, 20.5)[row % 2] for row in range(60)]
    assert "colours.csv is not read" in capsys.readouterr().out


def test_of_several_rows_a_key_there_are_counts_means_and_shares(shop: Path) -> None:
    keys = np.repeat(np.arange(18), 2) + 500  # two customers have none
    lay(shop, calls={"customer": keys, "minutes": np.arange(36) * 1.0, "kind": ["in", "out"] * 18})
    found = both(read())
    assert found["calls: rows"].tolist() == [2.0 if row % 20 < 18 else 0.0 for row in range(60)]
    assert found["calls: minutes mean"][:18].tolist() == [2 * row + 0.5 for row in range(18)]
    assert found["calls: kind in mean"][:18].eq(0.5).all()
    assert found["calls: minutes mean"][[18, 19]].isna().all()


def test_dated_rows_count_for_later_rows_alone(shop: Path) -> None:
    """A visit a day of every customer, also behind the first orders: these must not see it."""
    days = pd.date_range("2023-12-20", "2024-03-01")
    visits = pd.MultiIndex.from_product([np.arange(20) + 500, days], names=["customer", "day"]).to_frame()
    lay(
        shop,
        visits=visits.assign(steps=np.tile(np.arange(len(days)), 20) * 1.0, day=visits["day"].astype(str)),
    )
    found = both(read())
    assert found["visits: rows"].tolist() == [12.0 + row for row in range(60)]
    assert found["visits: steps last"].tolist() == [11.0 + row for row in range(60)]
    assert found["visits: steps mean"].tolist() == [(11.0 + row) / 2 for row in range(60)]
    assert found["visits: since the last"].eq(1).all()


def test_a_key_that_test_rows_have_not_joins_nothing(shop: Path) -> None:
    """Such as the answers themselves, by the ids of train.csv."""
    lay(shop, checked={"id": np.arange(40), "checked": np.arange(40) * 2.5})
    assert not [name for name in read().columns if "checked" in name]


def test_targets_may_lie_in_a_table_of_their_own(shop: Path) -> None:
    train = pd.read_csv(shop / "train.csv")
    lay(
        shop, train=train.drop(columns="spent"), train_labels=train[["id", "spent"]].iloc[::-1],
        sample_submission={"id": np.arange(40, 60), "spent": [0.0] * 20},
    )  # fmt: skip
    data = read()
    assert data.targets[:, 0].tolist() == pytest.approx(train["spent"].tolist())
    assert data.target_columns == ["spent"]


def test_targets_are_taken_from_no_table(shop: Path) -> None:
    """Neither as they are nor as means of a key, and a table called train_... is none."""
    train = pd.read_csv(shop / "train.csv")
    lay(
        shop,
        scores=train[["customer", "spent"]].assign(mark=1.5 * np.arange(40)),
        train_folds=train.assign(fold=1),
        answers={"id": np.arange(60), "spent": np.arange(60) / 7},
    )
    names = [*read().columns]
    assert "scores: mark mean" in names
    assert not [name for name in names if "spent" in name or "fold" in name or "answers" in name]


def test_a_row_sees_no_later_row_however_few_rows_have_some(shop: Path) -> None:
    days = ["2023-12-31"] * 20 + ["2024-01-05", "2024-03-05"]
    lay(
        shop, returns={"customer": [*range(500, 520), 500, 501], "day": days, "cost": [1.0] * 20 + [9.0, 9.0]}
    )
    found = both(read())
    assert found["returns: rows"][[0, 20, 40]].tolist() == [1.0, 2.0, 2.0]
    assert found["returns: cost last"][[0, 20, 40]].tolist() == [1.0, 9.0, 9.0]


def test_what_is_known_of_training_rows_is_as_old_as_that_of_test_rows(shop: Path) -> None:
    """The table ends with the training rows: the test rows' last entry is 1 to 20 days old."""
    days = pd.date_range("2023-11-01", "2024-02-09")
    visits = pd.MultiIndex.from_product([np.arange(20) + 500, days], names=["customer", "day"]).to_frame()
    lay(shop, visits=visits.assign(steps=1.5, day=visits["day"].astype(str)))
    found = both(read())["visits: since the last"]
    assert found[40:].tolist() == [1.0 + n for n in range(20)]
    assert 5 < found[:40].mean() < 16


def test_keys_are_the_same_with_zeros_and_fractions_and_none_is_none(shop: Path) -> None:
    train = pd.read_csv(shop / "train.csv")
    train.loc[0, "customer"] = np.nan
    train.to_csv(shop / "train.csv", index=False)
    names = [f"{n:05d}" for n in range(500, 520)]
    lay(shop, customers={"customer": [*names, None], "age": [*(n + 0.5 for n in range(20)), 999.0]})
    found = both(read())["customers: age"]
    assert np.isnan(found[0])
    assert found[1:].tolist() == [row % 20 + 0.5 for row in range(1, 60)]


def test_a_tables_own_id_names_no_row(shop: Path) -> None:
    lay(
        shop,
        calls={"id": np.arange(60), "customer": 519 - np.arange(60) % 20, "minutes": np.arange(60) * 1.0},
    )
    columns = both(read())
    assert columns["calls: rows"].tolist() == [3.0] * 60
    assert "calls: minutes" not in columns


def test_train_s_own_column_goes_before_a_joined_one(shop: Path) -> None:
    for name in ("train", "test"):
        table = pd.read_csv(shop / f"{name}.csv")
        table.assign(town=["a", "b"] * (len(table) // 2)).to_csv(shop / f"{name}.csv", index=False)
    lay(
        shop,
        customers={"customer": np.arange(20) + 500, "town": ["b", "a"] * 10, "age": np.arange(20) * 1.5},
        towns={"town": ["a", "b"], "people": [10.5, 20.5]},
    )
    assert both(read())["towns: people"].tolist() == [10.5, 20.5] * 30


def test_a_file_that_is_no_table_costs_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "empty.csv").write_text("")
    (shop / "quote.csv").write_text('customer,note\n500,"never closed\n')
    (shop / "folder.csv").mkdir()
    lay(shop, twice={"customer": ["500", "500.0"], "x": [1.5, 2.5]})
    assert read().columns["customer"]
    assert "empty.csv cannot be read" in capsys.readouterr().out


def test_old_submissions_are_no_answers(shop: Path) -> None:
    train = pd.read_csv(shop / "train.csv")
    few = pd.DataFrame({"id": np.arange(30), "spent": 7.5})
    lay(shop, train=train.drop(columns="spent"), baseline=few, labels=train[["id", "spent"]], old=few,
        sample_submission={"id": np.arange(40, 60), "spent": [0.0] * 20})  # fmt: skip
    assert read().targets[:, 0].tolist() == pytest.approx(train["spent"].tolist())


def test_labels_between_spaces_are_taken_from_no_table(shop: Path) -> None:
    budget.plan.ANSWER = "labels"
    train = pd.read_csv(shop / "train.csv").drop(columns="spent")
    labels = (["red", "blue", "green", "red blue", "red green", "blue green", "red blue green"] * 6)[:40]
    people = {"customer": np.arange(20) + 500, "labels": labels[:20], "age": np.arange(20) * 1.5}
    lay(shop, train=train.assign(labels=labels), people=people)
    data = read()
    assert data.outputs == ["blue", "green", "red"]
    assert [name for name in data.columns if name.startswith("people")] == ["people: age"]
