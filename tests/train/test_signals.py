"""Signals: where they lie, and whether their features tell what is in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memory_service.train import media
from memory_service.train.budget import state
from memory_service.train.kernels import linear_regression
from memory_service.train.problem import Fit, Problem
from tests.train.conftest import Prepare
from tests.train.test_media import Readings

IDS = [f"s{n}" for n in range(6)]
WIDE = np.random.default_rng(0).normal(size=(6, 2, 20)).round(3).astype(np.float32)
ROWS = pd.DataFrame({"id": IDS, "age": range(6), "label": list("abcabc")})


def wide(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    columns = {f"{name}_{n}": WIDE[:, c, n] for c, name in enumerate("xy") for n in reversed(range(20))}
    table = pd.concat([ROWS, pd.DataFrame(columns)], axis=1)
    return table[:4], table[4:].drop(columns="label").reset_index(drop=True)


def long(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    steps = {"row": range(120), "id": np.repeat(IDS, 20), "step": list(range(20)) * 6}
    steps |= {name: WIDE[:, c].ravel() for c, name in enumerate("xy")}
    pd.DataFrame(steps).to_csv(folder / "steps.csv", index=False)
    return ROWS[:4], ROWS[4:].drop(columns="label").reset_index(drop=True)


def in_the_table(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = ROWS.loc[np.repeat(range(6), 20)].reset_index(drop=True)
    table[["x", "y"]] = WIDE.transpose(0, 2, 1).reshape(-1, 2)
    return table[:80], table[80:].drop(columns="label").reset_index(drop=True)


def in_files(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    for n, name in enumerate(IDS):
        path = folder / ("train" if n < 4 else "test") / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame(WIDE[n].T, columns=["x", "y"]).to_csv(path, index=False)
    return ROWS[:4], ROWS[4:].drop(columns="label").reset_index(drop=True)


@pytest.mark.parametrize("layout", [wide, long, in_the_table, in_files])
def test_signals_are_the_same_wherever_they_lie(layout, tmp_path: Path, prepared: Prepare):
    prepared("labels", TASK="time-series-classification")
    found = media.find_signals(*layout(tmp_path / "data"))
    assert found is not None
    train, test, given = found
    read = media.read_signals(given)
    assert [one.shape for one in read] == [(2, 20)] * 6
    assert np.stack(read) == pytest.approx(WIDE, abs=1e-5)
    assert train["id"].tolist() + test["id"].tolist() == IDS
    assert [*train.columns] == ["id", "age", "label"]


def numbered_anew(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    train, test = in_the_table(folder)
    for table in (train, test):
        table["id"] = pd.factorize(table["id"])[0].astype(str)
    return train, test


def beside_numbered_anew(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = numbered_anew(folder)
    for name, table in zip(("train_steps", "test_steps"), parts, strict=True):
        table[["id", "x", "y"]].to_csv(folder / f"{name}.csv", index=False)
    train, test = (table.drop(columns=["x", "y"]).drop_duplicates("id") for table in parts)
    return train.reset_index(drop=True), test.reset_index(drop=True)


@pytest.mark.parametrize("layout", [numbered_anew, beside_numbered_anew])
def test_ids_that_start_again_in_the_test_set_are_other_signals(layout, tmp_path: Path, prepared: Prepare):
    prepared("labels", TASK="time-series-classification")
    found = media.find_signals(*layout(tmp_path / "data"))
    assert found is not None
    assert np.stack(media.read_signals(found[2])) == pytest.approx(WIDE, abs=1e-5)


def test_an_id_without_rows_or_with_one_costs_only_itself(
    tmp_path: Path, prepared: Prepare, capsys: pytest.CaptureFixture[str]
):
    prepared("labels", TASK="time-series-classification")
    tables, path = long(tmp_path / "data"), tmp_path / "data" / "steps.csv"
    steps = pd.read_csv(path).query("id != 's5' and (id != 's1' or step == 0)")
    more = pd.concat([steps, steps.query("id == 's0'").assign(id="s6")])  # as many as 16 of each
    more.assign(level=more["id"].str[1:]).to_csv(path, index=False)
    found = media.find_signals(*tables)
    assert found is not None
    shapes = [one.shape for one in found[2]]
    assert shapes == [(3, 20), (3, 1), (3, 20), (3, 20), (3, 20), (3, 16)]
    assert [one[2, 0] for one in found[2]] == [0, 1, 2, 3, 4, 0], "a level of each id is no counter"
    assert "1 ids have no steps, as s5" in capsys.readouterr().out


def test_a_first_file_that_is_missing_costs_only_itself(tmp_path: Path, prepared: Prepare):
    prepared("labels", TASK="time-series-classification")
    tables = in_files(tmp_path / "data")
    (tmp_path / "data" / "train" / "s0.csv").unlink()
    found = media.find_signals(*tables)
    assert found is not None
    assert np.stack(media.read_signals(found[2])[1:]) == pytest.approx(WIDE[1:], abs=1e-5)


def test_a_table_without_signals_has_none(tmp_path: Path, prepared: Prepare):
    prepared("labels", TASK="time-series-classification")
    assert media.find_signals(ROWS[:4], ROWS[4:].drop(columns="label")) is None


def test_convolutions_tell_patterns_that_lie_anywhere():
    """A wave or its reverse at a random place in noise: means, spreads and spectra are alike."""
    rng, rows = np.random.default_rng(1), 160
    kinds, x = rng.integers(0, 2, rows), rng.normal(0, 0.3, (rows, 1, 60)).astype(np.float32)
    shape = np.array([3.0, 2, 1, 0.5, 0.2, 0, 0, 0])
    for row, (kind, start) in enumerate(zip(kinds, rng.integers(2, 50, rows), strict=True)):
        x[row, 0, start : start + 8] += shape[::-1] if kind else shape
    block = media.convolved(x, np.arange(100), 0)
    problem = Problem("classes", list(range(100)), list(range(60)), kinds[:100], [0, 1], lambda *_: 0.0)
    found = linear_regression(Fit(problem, np.arange(80), np.arange(80, 100), 0, Readings(99), {}), [block])
    assert (found.test.argmax(1) == kinds[100:]).mean() > 0.85
    assert media.convolved(x, np.arange(100), 0, seconds=0.0).shape[1] < block.shape[1]


def test_flat_short_and_broken_signals_have_finite_features(tmp_path: Path, prepared: Prepare):
    prepared("labels", TASK="time-series-classification")
    (tmp_path / "bad.csv").write_text("")
    given = [np.zeros((1, 30)), np.full((1, 3), np.nan), tmp_path / "bad.csv", np.arange(500.0)[None]]
    state.minutes = 10.0
    statistics, shares = media.signal_features(given, np.arange(3))
    assert len(statistics) == len(shares) == 4
    assert np.isfinite(statistics).all()
    assert np.isfinite(shares).all()
    with pytest.raises(ValueError, match="no signal can be read"):
        media.read_signals([tmp_path / "bad.csv"])
