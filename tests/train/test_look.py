"""What does a folder of data say of its problem?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train.budget import plan
from memory_service.train.inputs import read_masks
from memory_service.train.look import describe
from memory_service.train.media_files import read_mask


def written(folder: Path, **tables: pd.DataFrame) -> Path:
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_run_lengths_beside_pictures_are_masks(tmp_path: Path) -> None:
    for part, count in (("train", 12), ("test", 4)):
        (tmp_path / part).mkdir()
        for number in range(count):
            Image.new("L", (16, 16), number).save(tmp_path / part / f"{part}{number}.png")
    runs = [f"1 {number + 2} 40 5 90 7" for number in range(12)]
    train = pd.DataFrame({"id": [f"train{number}" for number in range(12)], "land": runs})
    test = pd.DataFrame({"id": [f"test{number}" for number in range(4)]})
    found = describe(written(tmp_path, train=train, test=test, sample_submission=test.assign(land="1 1")))
    assert (found["task"], found["image_size"]) == ("image-segmentation", 16)


def test_counts_that_are_missing_here_and_there_are_values(tmp_path: Path) -> None:
    months = pd.period_range("2015-01", periods=60, freq="M").astype(str)
    rows = pd.DataFrame([(town, month) for town in "abcdefgh" for month in months], columns=["town", "month"])
    sold = np.random.default_rng(0).integers(5, 900, len(rows)).astype(float)
    sold[::12] = np.nan
    test = pd.DataFrame([(town, "2020-01") for town in "abcdefgh"], columns=["town", "month"])
    test.insert(0, "row", test.town + "_2020-01")
    found = describe(written(tmp_path, train=rows.assign(sold=sold), test=test))
    assert (found["task"], found["answer"]) == ("time-series-regression", "values")


def test_titles_that_are_numbers_are_no_dates_beyond_the_calendar(tmp_path: Path) -> None:
    titles = ["7337", "Rain", "1984", "The 13th", "12345", "Fog"] * 20
    train = pd.DataFrame({"id": range(120), "title": titles, "liked": [0, 1] * 60})
    found = describe(
        written(tmp_path, train=train, test=train.drop(columns="liked").assign(id=range(200, 320)))
    )
    assert found["n_classes"] == 2


def test_masks_in_run_lengths_are_read_down_the_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for number in range(3):
            Image.new("L", (4, 3), number).save(tmp_path / part / f"{part}{number}.png")
    train = pd.DataFrame({"id": [f"train{number}" for number in range(3)], "sea": ["2 2 7 1", "", "1 12"]})
    test = pd.DataFrame({"id": [f"test{number}" for number in range(3)]})
    data = read_masks(train, test, test.assign(sea="1 1"))
    found = [np.asarray(read_mask(mask, (4, 3))) // 255 for mask in data.targets]
    assert found[0].tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert [mask.sum() for mask in found] == [3, 0, 12]
