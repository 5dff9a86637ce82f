"""Are keypoints found in columns and lists, and is what is not seen left out?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train.answers import value_table
from memory_service.train.budget import plan
from memory_service.train.look import describe
from memory_service.train.metrics import score_rmse, score_rmse_columns
from memory_service.train.points import axes_of, of_seen, points_in_cells, read_keypoints, size_of
from memory_service.train.reading import read_tables
from tests.train.conftest import Prepare


@pytest.mark.parametrize(
    ("names", "axes"),
    [
        (["left_eye_x", "left_eye_y", "nose_x", "nose_y"], [0, 1, 0, 1]),
        (["x1", "x2", "y1", "y2"], [0, 0, 1, 1]),
        (["noseX", "noseY"], [0, 1]),
        (["kp_0_Y", "kp_0_X"], [1, 0]),
        (["x1", "y2"], []),
        (["price", "tax"], []),
        (["width", "height"], []),
        (["box", "fly"], []),
    ],
)
def test_pairs_are_known_by_their_names(names: list[str], axes: list[int]) -> None:
    assert axes_of(names) == axes


def test_lists_are_read_and_triples_say_what_is_seen() -> None:
    pairs = points_in_cells(pd.Series(["[1, 2, 3.5, nan]", None, "(5 6 7e1 -8)"]))
    assert pairs is not None
    np.testing.assert_equal(pairs, [[1, 2, 3.5, np.nan], [np.nan] * 4, [5, 6, 70, -8]])
    triples = points_in_cells(pd.Series(["[[1, 2, 2], [0, 0, 0]]", "[[3, 4, 1], [5, 6, 2]]"]))
    np.testing.assert_equal(triples, [[1, 2, np.nan, np.nan], [3, 4, 5, 6]])
    assert points_in_cells(pd.Series(["cat 1", "dog 2"])) is None
    assert points_in_cells(pd.Series(["[1, 2]", "[1, 2, 3, 4]"])) is None


def test_only_what_is_known_is_scored(prepared: Prepare) -> None:
    prepared("values", SCORE="rmse")
    truth = np.array([[0.0, 10.0], [0.0, np.nan], [0.0, np.nan]])
    found = np.array([[1.0, 14.0], [1.0, 99.0], [1.0, 99.0]])
    assert of_seen(score_rmse)(truth, found) == pytest.approx(np.sqrt((3 + 16) / 4))
    prepared("values", SCORE="rmse_columns")
    assert of_seen(score_rmse_columns)(truth, found) == pytest.approx((1 + 4) / 2)


def pictured(folder: Path, cells: dict[str, list[str]]) -> None:
    for part in ("train", "test"):
        (folder / part).mkdir()
        for number in range(12):
            Image.new("L", (20 + number, 16)).save(folder / part / f"{part}{number}.png")
    ids = [f"train{number}" for number in range(12)]
    pd.DataFrame({"id": ids, **cells}).to_csv(folder / "train.csv", index=False)
    shown = pd.DataFrame({"id": [name.replace("train", "test") for name in ids]})
    shown.assign(**dict.fromkeys(cells, 0)).to_csv(folder / "sample_submission.csv", index=False)


LISTS = {"points": [f"[{number}, 4, 7.5, 8]" for number in range(12)]}
PAIRS = {"eye_x": [str(number) for number in range(12)], "eye_y": ["3"] * 11 + [""]}


@pytest.mark.parametrize("cells", [LISTS, PAIRS])
def test_a_folder_of_pictures_and_points_is_known(tmp_path: Path, cells: dict[str, list[str]]) -> None:
    pictured(tmp_path, cells)
    found = describe(tmp_path)
    assert (found["task"], found["answer"]) == ("image-keypoints", "values")


def test_one_number_of_a_picture_is_a_value(tmp_path: Path) -> None:
    pictured(tmp_path, {"age": [f"{number}.5" for number in range(12)]})
    assert describe(tmp_path)["task"] == "image-regression"


def test_lists_are_submitted_as_lists(prepared: Prepare, tmp_path: Path) -> None:
    prepared("values", SCORE="rmse", submission_of=value_table, score_of=score_rmse)
    size_of.cache_clear()
    pictured(tmp_path / "data", LISTS)
    data = read_keypoints(*read_tables("test.csv or sample_submission.csv"))
    assert (plan.AXES, data.outputs[:2]) == ([0, 1, 0, 1], ["points_0_x", "points_0_y"])
    assert [size_of(path) for path in data.test_inputs[:2]] == [(20, 16), (21, 16)]
    told = plan.submission_of(data, np.tile([1.25, 2, 3, 4], (12, 1)))
    assert told["points"].tolist() == ["[1.25, 2, 3, 4]"] * 12


def test_small_networks_learn_shares_of_the_sides_and_pixels_are_submitted(
    prepared: Prepare, tmp_path: Path
) -> None:
    settings = {"submission_of": value_table, "score_of": score_rmse, "file_members": ("a network",)}
    prepared("values", SCORE="rmse", **settings)
    size_of.cache_clear()
    pictured(tmp_path / "data", PAIRS)
    data = read_keypoints(*read_tables("test.csv or sample_submission.csv"))
    assert data.targets[4] == pytest.approx([4 / 24, 3 / 16])
    assert data.targets[11] == pytest.approx([11 / 31, 3 / 16])  # not seen: as others are
    told = plan.submission_of(data, np.full((12, 2), 0.5))
    assert told.iloc[1, 1:].tolist() == [10.5, 8.0]


def test_coordinates_that_are_shares_need_no_size(prepared: Prepare, tmp_path: Path) -> None:
    prepared("values", SCORE="rmse", submission_of=value_table, score_of=score_rmse)
    size_of.cache_clear()
    halves = {name: [f"0.{number + 10}" for number in range(12)] for name in ("x", "y")}
    pictured(tmp_path / "data", halves)
    data = read_keypoints(*read_tables("test.csv or sample_submission.csv"))
    assert size_of(data.inputs[0]) == (1.0, 1.0)
    size_of.cache_clear()
