"""Do inputs know nothing of the rows that they are to predict, and are they kept only where they gain?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import engine, folds, reading
from memory_service.train.features import Choice, choices, features_of, matrices_of
from memory_service.train.problem import Prediction, Problem
from tests.train.conftest import Prepare

COLUMNS = {"kind": "category", "size": "number", "place": "code", "day": "date"}


def problem(targets: np.ndarray, rows: int = 120, **more: Any) -> Problem:
    def table(count: int) -> pd.DataFrame:
        numbers = np.arange(count)
        kinds = np.array(["oak", "elm"], dtype=object)[numbers % 2]
        return pd.DataFrame(
            {"kind": kinds, "size": numbers % 7.0, "place": numbers % 5.0, "day": 20_000.0 + numbers}
        )

    asked = table(4)
    asked["kind"] = ["oak", "elm", "larch", None]
    return Problem("values", table(rows), asked, targets, ["y"], lambda *_: 0.0, columns=COLUMNS, **more)


MEANS = Choice(means=True)


def means_of(given: Problem, train_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table, test, _ = features_of(given, MEANS, train_rows, 0)
    return table["kind: mean 0"].to_numpy(), test["kind: mean 0"].to_numpy()


def three_kinds(given: Problem) -> Problem:
    given.inputs["kind"] = np.array(["oak", "elm", "ash"], dtype=object)[np.arange(len(given.inputs)) % 3]
    return given


def test_a_rows_own_target_is_not_in_its_mean() -> None:
    targets = np.zeros((120, 1))
    targets[0] = 1000.0
    known, asked = means_of(three_kinds(problem(targets)), np.arange(100))
    assert known[0] == 0.0 or known[0] == pytest.approx(known[1]), "of its kind it is the only one"
    assert (known[3:100:3] > known[1]).any(), "others of its kind know it"
    assert known[102] > known[101] < 20, "and so does a row that validates"
    assert asked[0] > asked[1]
    assert asked[2] == asked[3] == pytest.approx(10.0), "of a kind that nobody knows it is the mean of all"


def test_a_mean_knows_no_row_of_its_group() -> None:
    targets, groups = np.zeros((120, 1)), np.random.default_rng(0).permutation(120) // 6
    before, _ = means_of(three_kinds(problem(targets, groups=groups)), np.arange(120))
    targets = np.where(groups == 7, 1000.0, 0.0)[:, None]
    after, _ = means_of(three_kinds(problem(targets, groups=groups)), np.arange(120))
    assert np.abs(after - before).max() > 1
    assert after[groups == 7].tolist() == before[groups == 7].tolist()


@pytest.mark.parametrize("make", [features_of, matrices_of])
def test_targets_of_rows_that_validate_are_in_no_input(make: Any) -> None:
    rows = np.arange(80)
    targets = np.random.default_rng(1).normal(size=(120, 1))
    found = []
    for _ in range(2):
        table, test, *_ = make(three_kinds(problem(targets.copy())), MEANS, rows, 0)
        found.append((np.asarray(table), np.asarray(test)))
        targets[80:] = 1e6
    for one, other in zip(*found, strict=True):
        assert pd.DataFrame(one).equals(pd.DataFrame(other))


def test_inputs_of_networks_are_finite_and_not_far_from_zero() -> None:
    given = problem(np.zeros((120, 1)))
    given.inputs.loc[[0, 5], "size"] = [np.nan, 1e12]
    table, test = matrices_of(given, Choice(codes=True, counts=True), np.arange(100), 0)
    assert table.shape[1] == test.shape[1]
    assert np.isfinite(table).all()
    assert np.isfinite(test).all()
    assert np.abs(table).max() <= 3.0


def test_each_kind_of_column_can_be_tried_another_way() -> None:
    found = choices(problem(np.zeros((120, 1))), Choice(), {"size": 2.0, "place": 1.0})
    assert [name for name, _ in found] == [
        "targets of rows next in time", "neighbouring rows", "mean targets", "codes as categories",
        "mean targets of codes", "dates as days", "parts of dates", "counts of categories",
        "ratios of the strongest numbers",
    ]  # fmt: skip
    assert found[-1][1] == {"ratios": (("size", "place"),)}


def test_targets_of_rows_next_in_time_are_tried_only_where_test_rows_lie_between_training_rows() -> None:
    hours = np.arange(600.0)
    blocks, by_chance = hours % 60 >= 40, np.random.default_rng(0).random(600) < 0.3
    for asked, tried in ((blocks, False), (hours >= 400, False), (by_chance, True), (hours % 3 == 1, True)):
        known, test = (pd.DataFrame({"day": hours[rows] / 24}) for rows in (~asked, asked))
        targets, columns = np.zeros((len(known), 1)), {"day": "date"}
        given = Problem("values", known, test, targets, ["y"], lambda *_: 0.0, columns=columns)
        assert ("targets of rows next in time" in dict(choices(given, Choice(), {}))) == tried


def test_changes_of_a_choice_add_up() -> None:
    given = problem(np.zeros((120, 1)))
    gains = {"size": 2.0, "place": 1.0, "kind": 0.5}
    changes = dict(choices(given, Choice(), gains))
    found = Choice()
    for what in ("codes as categories", "means by kind", "ratios of the strongest numbers"):
        found = found.changed(changes[what])
    assert found.codes
    assert found.ratios
    assert found.group_means == (("kind", "size"), ("kind", "place"))
    twice = found.changed({"group_means": (("day", "size"),)})
    assert twice.group_means == (*found.group_means, ("day", "size"))


def test_a_number_beside_the_mean_of_its_kind() -> None:
    given = problem(np.zeros((120, 1)))
    table, test, _ = features_of(given, Choice(group_means=(("kind", "size"),)), np.arange(100), 0)
    oaks = [*given.inputs["size"][::2], given.test_inputs["size"][0]]
    assert table["size: mean of kind"][0] == pytest.approx(np.mean(oaks))
    assert table["size: off kind"][2] == pytest.approx(2.0 - np.mean(oaks))
    assert test["size: mean of kind"][2] == 2.0, "the only larch"


def test_the_rows_before_and_behind_are_of_the_same_series() -> None:
    """Two kinds have the same days; the test set lies between days of training."""
    day = np.repeat(np.arange(10.0), 2)
    both = pd.DataFrame({"kind": ["oak", "elm"] * 10, "size": np.arange(20.0) ** 2, "day": day})
    asked = both.index.isin([6, 7])
    columns = {"kind": "category", "size": "number", "day": "date"}
    inputs, test_inputs = (both[~asked].reset_index(drop=True), both[asked].reset_index(drop=True))
    given = Problem("values", inputs, test_inputs, np.zeros((18, 1)), ["y"], lambda *_: 0.0, columns=columns)
    table, test, _ = features_of(given, Choice(neighbors=("size",)), np.arange(18), 0)
    assert test["size: 1 before"].tolist() == [4.0**2 - 6.0**2, 5.0**2 - 7.0**2]
    assert test["size: 1 behind"].tolist() == [8.0**2 - 6.0**2, 9.0**2 - 7.0**2]
    assert table["size: 1 before"].isna().tolist()[:3] == [True, True, False], "none before the first"
    given.targets = np.arange(18.0)[:, None]
    table, test, _ = features_of(given, Choice(around=True), np.arange(4, 18), 0)
    oak, elm = (np.arange(first, 18, 2.0) for first in (4, 5))
    assert test["3 around: mean 0"].tolist() == [np.mean([4, 6, 8, 10]), np.mean([5, 7, 9, 11])]
    assert table["15 around: mean 0"][4] == oak[1:].mean(), "not its own"
    assert table["15 around: mean 0"][1] == elm.mean(), "no target of a row that validates"
    given.inputs["day"] = given.test_inputs["day"] = 1.0
    table, _, _ = features_of(given, Choice(neighbors=("size",)), np.arange(18), 0)
    assert "size: 1 before" not in table, "no order is known"


@pytest.mark.parametrize(
    ("helped", "groups", "chosen"),
    [(900, None, True), (0, None, False), (900, 8, True), (113, 8, False), (225, 8, False)],
)
def test_an_input_is_turned_on_only_where_held_out_rows_or_groups_gain(
    prepared: Prepare, monkeypatch: pytest.MonkeyPatch, helped: int, groups: int | None, chosen: bool
) -> None:
    """The trial model errs by less with codes as categories in the first `helped` rows; one group of eight,
    or both of one fold, say nothing of the others."""
    prepared(FOLDS=4, SPLIT="group" if groups else "random")

    class Trial:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def applies(self, _: Problem) -> bool:
            return True

        def price(self, _: Problem) -> float:
            return 0.0

        def fit(self, given: Problem, _: Any, rows: np.ndarray, *__: Any) -> Prediction:
            gains = given.shared["choice"].codes & (rows < helped)
            errors = np.random.default_rng(0).normal(size=len(rows))
            valid = given.targets[rows] + (np.where(gains, 0.1, 1.0) * errors)[:, None]
            return Prediction(valid, np.zeros((1, 1)))

    monkeypatch.setattr(engine, "LightGBM", Trial)
    inputs = pd.DataFrame({"place": np.arange(900) % 60.0})
    data = reading.Data(
        "id", [str(n) for n in range(900)], ["y"], inputs, np.zeros((900, 1)), ["y"], ["t"],
        inputs[:1].copy(), columns={"place": "code"},
        groups=None if groups is None else np.arange(900) * groups // 900,
    )  # fmt: skip
    loop = engine.Loop(data, engine.problem_of(data), folds.split(data), None)
    engine.choose_features(loop)
    assert loop.problem.shared["choice"] == Choice(codes=chosen)


def test_earlier_targets_are_those_of_the_same_category_and_know_no_later_one() -> None:
    """Two players, ten seasons; the test set's season is one behind the last."""
    season = np.repeat(np.arange(10.0), 2)
    player = np.array(["ann", "bob"] * 10, dtype=object)
    inputs = pd.DataFrame({"player": player, "games": 10.0, "season": season})
    asked = pd.DataFrame({"player": ["ann", "bob", "cy"], "games": [10.0, 20.0, 10.0], "season": 10.0})
    targets = np.where(player == "ann", season, 100.0 + season)[:, None]
    given = Problem(
        "values", inputs, asked, targets, ["y"], lambda *_: 0.0, times=season, test_times=np.full(3, 10.0),
        columns={"player": "category", "games": "number", "season": "group"},
    )  # fmt: skip
    choice = Choice(history=("player",), rate="games")
    table, test, _ = features_of(given, choice, np.arange(16), 0)  # the last two seasons validate
    assert table["player: last 0"].tolist()[2:16:2] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert table["player: last 0"].isna().tolist()[:2] == [True, True]
    assert table["player: last 0"].tolist()[16:] == [7.0, 107.0, 7.0, 107.0], "no row that validates is known"
    assert test["player: last 0"].tolist()[:2] == [7.0, 107.0]
    assert test["player: earlier rows"].tolist() == [8.0, 8.0, 0.0]
    assert test["player: by games 0"][1] > 1.9 * test["player: earlier mean 0"][1], "twice the games"
    shown, *_ = features_of(given, choice, np.arange(20), 0)
    targets[18:] = 1e6
    hidden, *_ = features_of(given, choice, np.arange(20), 0)
    names = [name for name in shown if "mean" not in name and "three" not in name and "by" not in name]
    assert shown[[n for n in names if "lately" not in n]].equals(
        hidden[[n for n in names if "lately" not in n]]
    )
