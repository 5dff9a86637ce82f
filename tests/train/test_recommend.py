"""Recommendation: what a user takes next, by sources and a ranker, written before the time is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import metrics, recommend
from memory_service.train.budget import state
from memory_service.train.reading import three_tables
from tests.scripts.harness.data import Size, items_of_users
from tests.train.conftest import Prepare


def share_taken(folder: Path, truth: dict[str, set[str]]) -> float:
    table = pd.read_csv(folder / "submission.csv", dtype=str, index_col=0).iloc[:, 0]
    return float(np.mean([len(truth[user] & {*items.split()}) / 5 for user, items in table.items()]))


def test_users_are_told_items_of_their_own_half(tmp_path: Path, prepared: Prepare):
    asked = items_of_users(tmp_path / "data", Size(train=80, test=0))
    plan = prepared("items", score_of=metrics.score_recall_items, K=0, MINUTES=5.0, HIGHER_IS_BETTER=True)
    data = recommend.read_interactions(*three_tables())
    assert plan.K == 5, "as many as the sample shows"
    assert data.outputs[data.inputs["item"][3]] == pd.read_csv(tmp_path / "data" / "train.csv")["item"][3]
    [score] = recommend.train_recommender(data, None)
    assert 0 < score <= 1
    assert share_taken(state.out_dir, asked.truth) > 0.7
    (state.out_dir / "submission.csv").unlink()
    state.stop = True
    assert recommend.train_recommender(data, None) == [score]
    assert share_taken(state.out_dir, asked.truth) > 0.7, "an earlier start's items are submitted again"


def test_a_user_of_whom_nothing_is_known_is_told_what_is_popular(tmp_path: Path, prepared: Prepare):
    items_of_users(tmp_path / "data", Size(train=20, test=0))
    path = tmp_path / "data" / "sample_submission.csv"
    path.write_text(path.read_text() + "nobody,i00 i01 i02 i03 i04\n")
    prepared("items", score_of=metrics.score_map_items, K=5, HIGHER_IS_BETTER=True)
    data = recommend.read_interactions(*three_tables())
    recommend.train_recommender(data, None)
    table = pd.read_csv(state.out_dir / "submission.csv", index_col=0).iloc[:, 0]
    assert len(set(table["nobody"].split())) == 5


def test_too_few_candidates_are_filled_up_with_what_is_popular(prepared: Prepare):
    plan = prepared("items")
    table = pd.DataFrame({"user": [0, 0, 1, 2], "item": [3, 1, 3, 0], "time": [0.0, 1, 2, 3]})
    history = recommend.History(table, 3, 5)
    plan.K = 3
    found = history.best(np.array([1]), np.array([2]), np.array([1.0]), 2)
    assert found[0].tolist() == history.kept[:3].tolist()
    assert found[1].tolist() == [history.kept[2], *history.kept[:2]]


def test_scores_of_items():
    truth, found = [{1, 2}, {7}], np.array([[1, 9, 2], [5, 6, 4]])
    assert metrics.score_map_items(truth, found) == pytest.approx((1 + 2 / 3) / 2 / 2)
    assert metrics.score_recall_items(truth, found) == 0.5


def bought(folder: Path, **columns: Any) -> None:
    """60 rows of 6 users and 5 items with zeros in front."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"day": range(60), "user": [f"u{n % 6}" for n in range(60)]})
    table["price"], table["article"] = 1.5, [f"00{n}" for n in rng.integers(0, 5, 60)]
    table.assign(**columns).to_csv(folder / "train.csv", index=False)
    shown = pd.DataFrame({"user": [f"u{n}" for n in range(6)], "articles": "001 004"})
    shown.to_csv(folder / "sample_submission.csv", index=False)


def test_items_keep_the_zeros_in_front(tmp_path: Path, prepared: Prepare):
    prepared("items", score_of=metrics.score_map_items, K=0, HIGHER_IS_BETTER=True)
    bought(tmp_path / "data")
    data = recommend.read_interactions(*three_tables())
    assert sorted(data.outputs) == ["000", "001", "002", "003", "004"]
    assert data.inputs["time"].tolist() == [*range(60)]


def test_rows_without_user_item_or_date_cost_only_themselves(
    tmp_path: Path, prepared: Prepare, capsys: pytest.CaptureFixture[str]
):
    prepared("items", score_of=metrics.score_map_items, K=0, HIGHER_IS_BETTER=True)
    missing = {"day": [None, *range(1, 60)], "user": [*["u0"] * 58, "u1", None], "week": None}
    bought(tmp_path / "data", article=[7] * 30 + [None] + [8] * 29, **missing)
    data = recommend.read_interactions(*three_tables())
    assert (len(data.inputs), sorted(data.outputs)) == (58, ["7", "8"])
    assert data.inputs["time"].tolist() == [1, *range(1, 30), *range(31, 59)]
    assert "by day" in capsys.readouterr().out


@pytest.mark.parametrize("days", [[0] * 60, [0] * 10 + [1] * 50, [0] * 30 + [1] * 30])
def test_rows_of_one_date_validate_all_the_same(days: list[int], tmp_path: Path, prepared: Prepare):
    prepared("items", score_of=metrics.score_map_items, K=0, MINUTES=5.0, HIGHER_IS_BETTER=True)
    bought(tmp_path / "data", day=days)
    [score] = recommend.train_recommender(recommend.read_interactions(*three_tables()), None)
    assert 0 <= score <= 1
