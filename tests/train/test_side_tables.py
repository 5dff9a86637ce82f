"""Do tables beside train.csv and test.csv say what they know of a row, and nothing that lies behind it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import reading
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
