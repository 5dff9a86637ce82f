"""Are tables beside train.csv joined where their keys have other names?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memory_service.train import reading, side_tables
from memory_service.train.budget import plan, state


@pytest.fixture
def rides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pd.DataFrame, pd.DataFrame]:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    monkeypatch.setattr(state, "minutes", 1e6)  # since the process began
    rng = np.random.default_rng(0)
    quays = [f"Q{number:02d}" for number in range(30)]
    days = pd.date_range("2021-01-01", periods=90)
    rows = pd.DataFrame(
        {
            "id": [f"r{number}" for number in range(900)],
            "day": rng.choice(days, 900),
            "departure_time": 100 * rng.integers(5, 23, 900) + rng.integers(0, 60, 900),
            "start": rng.choice(quays, 900),
            "end": rng.choice(quays, 900),
        }
    )
    rows["day"] = rows.day.astype(str)
    pd.DataFrame({"code": quays, "depth": np.arange(30.0)}).to_csv(tmp_path / "quays.csv", index=False)
    train, test = rows.assign(late=0).iloc[:600], rows.iloc[600:].reset_index(drop=True)
    train.to_csv(tmp_path / "train.csv", index=False)
    test.to_csv(tmp_path / "test.csv", index=False)
    return train, test


def test_codes_of_another_name_are_joined_once_for_each_role(
    rides: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    train, test = side_tables.join_side_tables(*rides, ["late"])
    for table in (train, test):
        assert (table["quays of start: depth"] == table.start.str[1:].astype(int)).all()
        assert (table["quays of end: depth"] == table.end.str[1:].astype(int)).all()


@pytest.mark.parametrize("order", [["shop", "day"], ["day"]])
def test_of_a_long_table_the_latest_days_of_all_series_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setattr(plan, "SPLIT", "time")
    days = pd.date_range("2021-01-01", periods=200).astype(str)
    table = pd.DataFrame([(day, shop) for day in days for shop in "abcd"], columns=["day", "shop"])
    table = table.sort_values(order, ascending=order != ["day"]).assign(sold=1.0)
    table.insert(0, "id", [f"r{number}" for number in range(len(table))])
    table.to_csv(tmp_path / "train.csv", index=False)
    read = reading.sampled_table(tmp_path / "train.csv", {"dtype": {"id": str}}, 200, at_once=70)
    assert read.shop.nunique() == 4
    assert read.day.min() >= days[140]
    assert read.day.max() == days[-1]


def test_of_a_long_table_without_time_rows_are_drawn_from_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SPLIT", "random")
    pd.DataFrame({"id": range(5000), "x": range(5000)}).to_csv(tmp_path / "train.csv", index=False)
    read = reading.sampled_table(tmp_path / "train.csv", {}, 500, at_once=400)
    assert len(read) == pytest.approx(500, abs=10)
    assert read.x.is_unique
    assert read.x.mean() == pytest.approx(2500, rel=0.15)
