"""A memory is judged by comparable runs with and without it, and only where the counts leave no doubt."""

from __future__ import annotations

import random
from typing import Any

import pytest

from memory_service.domain.runs.advice_outcome import advice_of, brief_of, outcome_of_run
from memory_service.domain.runs.pattern_effect import MOST_SUBJECTS, Tally, compare, subjects_of

TIP = "pattern:tip"


def run(metric: float | None, followed: bool | str | None = False, **changed: Any) -> dict[str, Any]:
    """An outcome as it is kept; followed="unserved": its plan did not tell of the tip."""
    served = {} if followed == "unserved" else {TIP: followed}
    plain = {"succeeded": True, "metric": metric, "test_metric": None, "direction": "min", "gpu": "a100"}
    return plain | {"budget_minutes": 30.0, "served": served} | changed


def tally(*runs: dict[str, Any], metrics: bool = True) -> Tally:
    return compare(runs, [TIP], metrics=metrics)[TIP]


def test_every_run_with_it_meets_every_comparable_run_without_it() -> None:
    found = tally(run(0.5, True), run(0.4, True), run(0.45), run(0.45, "unserved"), run(0.4))
    assert (found.compared, found.without) == (2, 3)
    assert (found.better, found.same, found.worse) == (2, 1, 3)
    chance = found.chance_better()
    assert chance is not None
    assert chance.value == pytest.approx(2.5 / 6)
    assert chance.low < chance.value < chance.high
    assert not found.demoted


def test_following_that_lost_each_of_many_comparisons_is_demoted_and_of_few_is_not() -> None:
    bad, good = run(0.5, True), run(0.4)
    assert not tally(*[bad] * 2, *[good] * 2).demoted
    assert not tally(*[bad] * 40, good).demoted, "one run without it may have been lucky"
    found = tally(*[bad] * 6, *[good] * 6)
    assert found.demoted
    assert "better than 6 runs without it in 0 % of comparisons" in found.sentence()


def test_pure_chance_is_hardly_ever_demoted() -> None:
    draw = random.Random(7)
    demoted = 0
    for _ in range(400):
        runs = [run(draw.gauss(0.0, 1.0) + 5.0, n < 10) for n in range(20)]
        demoted += tally(*runs).demoted
    assert demoted <= 8, "99 % two-sided: two in 400 are expected"


def by(key: str, bad: int, good: int, **changed: Any) -> list[dict[str, Any]]:
    """Runs that a key told: with the tip, which lose, and without it."""
    said = {"reporter": f"key {key}", **changed}
    return [run(0.5, True, **said)] * bad + [run(0.4, **said)] * good


class TestOneKeyDecidesNothing:
    def test_however_many_runs_cards_and_places_it_tells_of(self) -> None:
        flood = [one for gpu in "abcdef" for one in by("eve", 15, 15, gpu=gpu)]
        places = [tally(*flood), tally(*flood), tally(*flood)]
        assert not any(place.demoted for place in places)
        assert not sum(places, Tally()).demoted
        assert places[0].chance_better() is not None

    def test_beside_runs_of_another_key_or_of_nobodys(self) -> None:
        flood = by("eve", 15, 15)
        assert not tally(*flood, *by("ada", 0, 1)).demoted
        assert not tally(*flood, *by("ada", 2, 2), *by("bob", 2, 2)).demoted
        assert not tally(*flood, *[run(0.4)] * 15).demoted
        assert not tally(*flood, *[run(0.4)] * 15, *[run(0.4, True)] * 9).demoted

    def test_nor_saves_what_loses_with_everybody_else(self) -> None:
        lost = [run(0.5, True)] * 20 + [run(0.4)] * 20
        assert tally(*lost).demoted
        praise = [run(0.3, True, reporter="key eve")] * 60
        assert tally(*lost, *by("eve", 0, 60), *praise).demoted

    def test_and_several_do(self) -> None:
        each = [one for key in "abcdefgh" for one in by(key, 1, 1)]
        found = tally(*each)
        assert found.demoted
        assert found.chance() == (8.0, 0.0)
        assert tally(*by("a", 9, 9), *by("b", 9, 9), *by("c", 9, 9)).demoted
        assert not tally(*by("a", 9, 9), *by("b", 9, 9)).demoted


class TestReportersCount:
    """Three keys measured that the tip is worse; one more tells of the opposite, a hundred times."""

    honest = (*by("ada", 8, 8), *by("bob", 8, 8), *by("cyd", 8, 8))
    flood = (*[run(0.2, True, reporter="key eve")] * 60, *[run(0.9, reporter="key eve")] * 60)

    def test_of_however_many_runs_one_key_outweighs_no_other(self) -> None:
        alone, beside = tally(*self.honest), tally(*self.honest, *self.flood)
        assert alone.demoted
        assert beside.demoted, "what one key alone says saves nothing"
        (weight, won), (before, _) = beside.chance("key reader"), alone.chance("key reader")
        assert won / weight == pytest.approx(0.25), "one of four"
        assert weight == pytest.approx(before * 4 / 3)
        assert tally(*self.honest, *self.flood[50:70]).chance("key reader") == pytest.approx((weight, won))
        places = [tally(*self.flood, *by("ada", 1, 1)) for _ in range(20)]
        weight, won = sum(places, beside).chance("key reader")
        assert won / weight == pytest.approx(0.25), "nor in many places"

    def test_two_that_agree_outweigh_a_third_for_whoever_asks(self) -> None:
        found = tally(*self.honest[:32], *self.flood)
        weight, won = found.chance("key reader")
        assert won / weight == pytest.approx(1 / 3)

    def test_a_lone_one_claims_to_others_and_shows_itself(self) -> None:
        found = tally(*self.flood)
        assert found.chance("key reader") == (0.0, 0.0)
        assert found.chance("key eve") == found.chance() == pytest.approx((3.0, 3.0))
        told = {who: found.chance_better(f"key {who}") for who in ("reader", "eve")}
        assert told["reader"] is not None
        assert told["eve"] is not None
        assert (told["reader"].grade, told["eve"].grade) == ("claimed", "measured")
        assert found.sentence("key reader") == ""
        assert found.sentence("key eve")

    def test_a_key_that_measured_reads_its_own_beside_a_lone_other(self) -> None:
        found = tally(*by("ada", 8, 8), *self.flood)
        assert found.chance("key ada") == pytest.approx((3.0, 0.0))
        assert found.chance("key eve") == pytest.approx((3.0, 3.0))
        weight, won = found.chance("key reader")
        assert won / weight == pytest.approx(0.5), "one against one"

    def test_keys_whose_runs_are_all_on_one_side_are_compared_with_each_other(self) -> None:
        """Each trained one thing; no single counterpart decides what their runs say."""
        followed = [run(0.5, True, reporter=f"key {key}") for key in "abc"]
        others = [run(0.4, reporter=f"key {key}") for key in "def"]
        alone = tally(*followed, *others)
        assert alone.chance("key reader")[0] == pytest.approx(3 * 9 / 7)
        assert alone.chance("key reader")[1] == 0.0
        weight, won = tally(*followed, *others, *self.flood).chance("key reader")
        assert won / weight < 0.3
        assert tally(followed[0], others[0]).chance("key reader") == (0.0, 0.0), "it hangs on each of them"
        assert tally(run(0.5, True), others[0], *self.flood[:60]).chance("key reader") == (0.0, 0.0)

    def test_sums_of_places_can_be_taken_apart(self) -> None:
        here, there = tally(*self.honest, *self.flood, run(0.4), run(0.5, True)), tally(*by("ada", 1, 2))
        assert here + there - here == there
        assert here + there - there == here


def test_each_reporter_names_as_many_memories_as_the_others() -> None:
    flood = [
        run(0.5, reporter="key eve", served={f"pattern:{n}-{i}": True for i in range(24)}) for n in range(50)
    ]
    named = subjects_of([*flood, run(0.5, reporter="key ada"), run(0.5, served={"technique:made-up": True})])
    assert len(named) == MOST_SUBJECTS
    assert TIP in named


def test_the_order_of_the_runs_does_not_matter() -> None:
    draw = random.Random(3)
    runs = [run(draw.random(), n % 3 == 0, gpu=draw.choice(["a100", "t4"])) for n in range(30)]
    first = tally(*runs)
    draw.shuffle(runs)
    assert tally(*runs) == first


def test_runs_of_another_card_or_budget_are_no_comparison() -> None:
    assert tally(run(0.5, True), run(0.4, gpu="t4"), run(0.4, budget_minutes=300.0)).weight == 0.0
    assert tally(run(0.5, True), run(0.4, budget_minutes=33.0)).worse == 1


def test_a_test_metric_goes_before_validation() -> None:
    """Lag features: the agent's own validation said better, the test said much worse."""
    with_tip = run(0.482, True, test_metric=0.60)
    without = run(0.517, test_metric=0.50)
    assert tally(with_tip, without).worse == 1
    assert tally(run(0.482, True), without).better == 1


def test_a_run_that_left_nothing_loses_whatever_it_measured() -> None:
    assert tally(run(0.1, True, succeeded=False), run(0.9)).worse == 1
    assert tally(run(0.1, True, succeeded=None), run(0.9)).weight == 0.0


def test_between_competitions_only_success_is_compared() -> None:
    assert tally(run(0.1, True), run(0.9), metrics=False).same == 1
    assert tally(run(0.1, True, direction=None), run(0.9, direction=None)).same == 1


def test_larger_is_better_where_the_metric_says_so() -> None:
    assert tally(run(0.95, True, direction="max"), run(0.90, direction="max")).better == 1


def test_who_cannot_tell_belongs_to_neither_side() -> None:
    assert tally(run(0.5, None), run(0.4)).weight == 0.0


PLAN = {
    "plan_id": "plan-1", "feasible": True, "model": {"name": "resnet50.a1_in1k", "image_size": 224},
    "batch_size": 128, "precision": "bf16", "folds": 3, "epochs": 8, "minutes": 30.0,
    "evidence": [{"id": "m"}, {"id": "f"}, {"id": "loss"}, {"id": "R01"}, {"id": "bad", "demoted": True}],
}  # fmt: skip
PATTERNS = {
    "m": {"kind": "model", "advice": {"models": ["resnet50.a1_in1k"]}, "competition": "dogs"},
    "f": {"kind": "validation", "advice": {"folds": 5}},
    "loss": {"kind": "loss", "advice": {"loss": "bce"}},
    "bad": {"kind": "model", "advice": {"models": ["vgg16"]}},
}
DONE = {"model": "resnet50", "batch_size": 64, "precision": "bf16", "folds": 3, "epochs": None}


def test_each_part_of_a_plan_is_followed_or_not_or_unsaid() -> None:
    advice = advice_of(brief_of(PLAN, PATTERNS), PATTERNS, DONE)
    assert advice["followed"] == {
        "model": True, "batch_size": False, "precision": True, "folds": True, "epochs": None,
    }  # fmt: skip
    assert [(one["pattern"], one["followed"]) for one in advice["served"]] == [
        ("f", False), ("loss", None), ("m", True),
    ]  # fmt: skip


def test_what_came_of_a_run_is_told_from_its_epochs() -> None:
    advice = advice_of(brief_of(PLAN, PATTERNS), PATTERNS, DONE)
    epochs = [
        {"fold": fold, "epoch": n, "metric": metric}
        for fold, metrics in enumerate([(0.7, 0.9, 0.8), (0.6, 0.7, "nan")])
        for n, metric in enumerate(metrics)
    ]
    summary = {"epochs": epochs, "epochs_done": 6, "first_submission_seconds": 540.0}
    said = {**DONE, "gpu": "a100", "epochs": 4, "minutes": 30.0}
    finish = {"status": "timed_out", "submission": True, "followed": ["loss"]}
    found = outcome_of_run(said, advice, summary, finish, 33.0, "max")
    assert found["metric"] == pytest.approx(0.8)
    assert (found["epochs_to_best"], found["epochs_done"], found["folds_done"]) == (2.0, 6, 1)
    assert (found["minutes_to_submission"], found["budget_percent"]) == (9.0, 110.0)
    assert found["succeeded"] is True
    assert found["served"] == {
        "pattern:f": False, "pattern:loss": True, "pattern:m": True, "competition:dogs": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "submission", "succeeded"),
    [
        ("completed", None, True),
        ("completed", False, False),
        ("stopped", None, None),
        ("out_of_memory", None, False),
        ("crashed", True, True),
    ],
)
def test_success_is_something_to_score(status: str, submission: bool | None, succeeded: bool | None) -> None:
    finish = {"status": status} | ({} if submission is None else {"submission": submission})
    assert outcome_of_run({}, None, {}, finish, None, None)["succeeded"] is succeeded


def test_techniques_that_no_vocabulary_has_count_nowhere() -> None:
    invented = [{"name": f"made-up-{n}", "in_script": True} for n in range(300)]
    plan = {**PLAN, "recipe": {"techniques": [{"name": "mixup", "in_script": True}, *invented]}}
    assert brief_of(plan, PATTERNS)["techniques"] == {"mixup": True}
