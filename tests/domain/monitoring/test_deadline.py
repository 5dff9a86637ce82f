"""Is the end foreseen, and is what is told the mildest change that keeps the deadline? (R11-R17)"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.state import Expectation, RunFacts
from memory_service.domain.monitoring.verdict import Verdict
from tests.watching import Said, from_log, judged

RUN = RunFacts(
    model="resnet50",
    params_m=25.6,
    batch_size=128,
    memory_gib=24.0,
    folds=3,
    epochs=10,
    minutes=30.0,
    n_train=20_000,
)
READING: Said = ("gpu", 20.0, {"peak_allocated_gib": 18.0})


def told(each: list[float], per_fold: int, *, first_fold: int = 1, first_epoch: int = 1) -> list[Said]:
    """Epoch after epoch, fold after fold; a fold begins where the previous ended."""
    said: list[Said] = [READING]
    now = 0.0
    for n, seconds in enumerate(each):
        now += seconds
        fields = {"fold": first_fold + n // per_fold, "epoch": first_epoch + n % per_fold, "seconds": seconds}
        said.append(("epoch", now, {**fields, "train_loss": 1.0, "valid_loss": 1.0 / (1 + n % per_fold)}))
    return said


def at(each: list[float], facts: RunFacts = RUN, **more: Any) -> Verdict:
    return judged(facts, told(each, facts.epochs or 10), Expectation(**more))


def test_in_time_goes_on_and_says_when_it_ends() -> None:
    answer = at([40.0, 30.0, 30.0, 30.0])
    assert answer.action == "continue"
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(26 * 30 / 60, rel=0.02)
    assert answer.eta_minutes.low < answer.eta_minutes.value < answer.eta_minutes.high
    assert answer.eta_minutes.grade == "measured"
    assert answer.eta_minutes.n == 3
    assert answer.budget_used_percent == pytest.approx(100 * 130 / 1800)


def test_an_end_foreseen_from_the_first_epoch_counts_it() -> None:
    only = at([60.0]).eta_minutes
    assert only is not None
    assert (only.grade, only.n) == ("measured", 1)


def test_the_first_epoch_stands_apart() -> None:
    """A first epoch of twice the time does not double the projection."""
    slow_start, even = at([60.0, 30.0, 30.0]), at([30.0, 30.0, 30.0])
    assert slow_start.eta_minutes is not None
    assert even.eta_minutes is not None
    assert slow_start.eta_minutes.value == pytest.approx(even.eta_minutes.value, rel=0.02)


def test_after_one_epoch_the_interval_is_wide_and_only_certain_misses_are_told() -> None:
    answer = at([66.0])  # 29 more at 57 s would end at minute 29 of 30; at 50 s within the deadline
    assert answer.action == "continue"
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.high / answer.eta_minutes.low > 1.25


def test_a_little_too_slow_loses_epochs_before_it_loses_folds() -> None:
    answer = at([60.0, 56.0, 56.0])
    assert (answer.action, answer.rule) == ("reduce_epochs", "R13")
    assert 7 <= answer.set["epochs"] < 10
    assert "folds" not in answer.set


def test_with_epochs_to_lose_none_a_fold_goes() -> None:
    answer = at([200.0, 190.0], replace(RUN, epochs=2, folds=5))
    assert answer.action == "reduce_folds"
    assert answer.set == {"folds": 3} or answer.set["folds"] < 5


@settings(max_examples=200)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.floats(1.0, 400.0),
    st.integers(1, 60),
    st.floats(2.0, 120.0),
    st.integers(500, 1_000_000),
)
def test_what_is_told_keeps_the_deadline_and_leaves_what_is_done(
    folds: int, epochs: int, seconds: float, done: int, minutes: float, n_train: int
) -> None:
    done = min(done, folds * epochs)
    facts = replace(RUN, folds=folds, epochs=epochs, minutes=minutes, n_train=n_train)
    answer = judged(facts, told([seconds] * done, epochs))
    if answer.action not in {"reduce_folds", "reduce_epochs"} or answer.rule == "R16":
        return
    to_folds, to_epochs = answer.set.get("folds", folds), answer.set.get("epochs", epochs)
    index, here = divmod(done, epochs)
    assert to_folds <= folds
    assert 1 <= to_epochs <= epochs
    assert to_folds > index or (to_folds == index and here == 0)
    remaining = (to_folds - index - 1) * to_epochs + max(0, to_epochs - here)
    assert done * seconds + remaining * seconds <= 0.85 * minutes * 60 * 1.001


def test_following_the_advice_ends_it() -> None:
    slow = at([60.0, 56.0, 56.0])
    said = told([60.0, 56.0, 56.0], 10)
    followed = judged(RUN, [*said, ("note", 173.0, dict(slow.set))])
    assert followed.action == "continue"


def test_not_followed_it_is_said_again() -> None:
    first, again = at([60.0, 56.0, 56.0]), at([60.0, 56.0, 56.0, 56.0])
    assert first.action == again.action == "reduce_epochs"


def test_near_the_deadline_it_does_not_flap() -> None:
    """Epochs that waver around the limit switch the advice on once, and not off with every faster epoch."""
    heard = []
    each = [51.0]
    for n in range(24):
        each.append(53.5 if n % 2 else 49.5)
        heard.append(at(each).action == "continue")
    switches = sum(a != b for a, b in itertools.pairwise(heard))
    assert switches <= 1


def test_r13_names_the_first_fold() -> None:
    assert at([100.0, 100.0, 100.0]).rule == "R13"


def test_r12_in_a_later_fold() -> None:
    each = [30.0] * 10 + [100.0] * 4
    answer = at(each)
    assert answer.rule in {"R12", "R25"}


def test_over_70_percent_stops_when_it_will_not_be_done() -> None:
    answer = at([55.0] * 24)
    assert (answer.action, answer.rule, answer.severity) == ("stop_and_predict", "R15", "critical")
    assert answer.set["predict_with_folds"] == 3, "two whole folds and the one begun"


def test_what_was_too_large_is_smaller_next_time() -> None:
    smaller = {"model": "resnet18", "epochs": 6}
    assert at([55.0] * 24, smaller=smaller).next_time == smaller
    assert at([30.0] * 4, smaller=smaller).next_time == {}


def test_over_70_percent_goes_on_when_even_the_late_end_keeps_the_deadline() -> None:
    answer = at([46.0] * 28)
    assert answer.budget_used_percent == pytest.approx(71.6, abs=0.1)
    assert answer.action == "continue"


def test_at_85_percent_training_is_over() -> None:
    """R14."""
    answer = at([54.0] * 29)
    assert (answer.action, answer.rule) == ("stop_and_predict", "R14")


def test_folds_of_a_run_that_reports_no_epoch_are_not_counted() -> None:
    answer = judged(RUN, [("batch", 60.0 * minute, {"steps": 10 * minute}) for minute in range(1, 30)])
    assert (answer.action, answer.set) == ("stop_and_predict", {"stop_training": True})


def test_inference_that_needs_more_than_15_percent_gets_it() -> None:
    long = Estimate(10.0, 8.0, 12.0)
    assert at([40.0, 40.0, 40.0], inference_minutes=long).action == "reduce_epochs"
    assert at([40.0, 40.0, 40.0]).action == "continue"


@settings(max_examples=200)
@given(
    st.lists(st.floats(0.001, 400.0), min_size=1, max_size=2),
    st.floats(1.0, 60.0),
    st.floats(0.0, 500.0),
    st.sampled_from(["resnet50", "lightgbm"]),
)
def test_nothing_is_ended_by_a_prediction_or_by_one_or_two_epochs(
    each: list[float], minutes: float, inference: float, model: str
) -> None:
    """Only the clock ends training then, past the half of the budget; an end cannot be taken back."""
    promised = Estimate(inference / 6.0, inference / 36.0, inference)
    facts = replace(RUN, model=model, minutes=minutes)
    answer = at(each, facts, inference_minutes=promised, best_epoch=Estimate(4_000.0, 1_000.0, 16_000.0))
    assert answer.budget_used_percent is not None
    assert answer.action != "stop_and_predict" or answer.budget_used_percent >= 50.0


def test_an_epoch_that_does_not_fit_ends_training_once_three_have_shown_it() -> None:
    facts = replace(RUN, folds=1, minutes=20.0)
    one, three = at([560.0], facts), at([260.0, 260.0, 260.0], facts)
    assert (one.action, one.rule) == ("continue", "R12")
    assert "cannot finish" in one.why
    assert (three.action, three.rule) == ("stop_and_predict", "R14")


def test_a_budget_that_is_over_stands_out() -> None:
    notes: list[Said] = [("note", 60.0 * minute, {"text": "a fit"}) for minute in (5, 20, 40)]
    answer = judged(replace(RUN, folds=None, epochs=None), [READING, *notes], Expectation())
    assert answer.action == "stop_and_predict"
    assert "nothing-stands-out" not in [each.code for each in answer.others]


def test_done_training_is_not_told_to_stop() -> None:
    answer = at([50.0] * 30)
    assert answer.action == "continue"
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == 0.0


@pytest.mark.parametrize(("fold", "epoch"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_counting_from_zero_or_one_is_the_same(fold: int, epoch: int) -> None:
    said = told([50.0] * 12, 10, first_fold=fold, first_epoch=epoch)
    answer = judged(RUN, said)
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(18 * 50 / 60, rel=0.03)


def test_epochs_without_seconds_are_timed_by_their_own_ends() -> None:
    said = [
        (kind, when, {k: v for k, v in fields.items() if k != "seconds"})
        for kind, when, fields in told([50.0] * 5, 10)
    ]
    answer = judged(RUN, said)
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(25 * 50 / 60, rel=0.03)


def test_folds_that_stop_early_shorten_the_projection() -> None:
    said: list[Said] = [READING]
    now = 0.0
    for n in range(7):
        now += 60.0
        said.append(("epoch", now, {"fold": 1, "epoch": n + 1, "seconds": 60.0, "train_loss": 1.0}))
    now += 60.0
    said.append(("epoch", now, {"fold": 2, "epoch": 1, "seconds": 60.0, "train_loss": 1.0}))
    answer = judged(replace(RUN, epochs=30, minutes=40.0), said)
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(13.0, rel=0.05), "6 + 7 epochs as the first fold went"
    assert answer.eta_minutes.high > 50.0, "or 29 + 30 if none stops early"


def test_steps_foresee_the_end_before_an_epoch_is_over() -> None:
    said: list[Said] = [
        READING,
        ("batch", 60.0, {"step": 40, "of": 400, "elapsed_seconds": 40.0, "scope": "epoch"}),
    ]
    answer = judged(RUN, said)
    assert answer.action in {"reduce_folds", "relaunch"}
    assert "cannot finish" in answer.why


def test_steps_of_the_first_epoch_count_as_done() -> None:
    """783 of 1 069 steps in 529 s, two epochs of 30 minutes: half of the work is done, none of it lost."""
    facts = replace(RUN, folds=1, epochs=2, batch_size=16, n_train=21_397)
    bar = {"step": 783, "of": 1069, "elapsed_seconds": 522.0, "scope": "epoch"}
    answer = judged(facts, [READING, ("batch", 529.0, bar)])
    eta = answer.eta_minutes
    assert eta is not None
    assert eta.value == pytest.approx((2 - 783 / 1069) * 1069 * 1.12 * 522 / 783 / 60, rel=0.01)
    assert eta.grade == "estimated", "no epoch has ended"
    assert "cannot finish" not in " ".join((answer.why, *answer.notes))


def test_a_bar_over_the_whole_run_foresees_the_end() -> None:
    said: list[Said] = [
        READING,
        ("batch", 120.0, {"step": 100, "of": 1000, "elapsed_seconds": 100.0, "scope": "run"}),
    ]
    answer = judged(replace(RUN, folds=1), said)
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(15.0)


def test_not_even_one_epoch_fits_and_nothing_is_trained_takes_a_smaller_model() -> None:
    said: list[Said] = [
        READING,
        ("batch", 60.0, {"step": 25, "of": 4000, "elapsed_seconds": 40.0, "scope": "epoch"}),
    ]
    smaller = {"model": "resnet18", "batch_size": 256, "epochs": 4, "folds": 1}
    answer = judged(RUN, said, Expectation(smaller=smaller))
    assert (answer.action, dict(answer.set)) == ("relaunch", smaller)
    on_less = judged(RUN, said)
    assert on_less.action == "relaunch"
    assert 0 < on_less.set["n_train"] < 20_000


def test_before_anything_is_measured_the_prediction_counts() -> None:
    """R11: 5 x 30 epochs of 40 s in 30 minutes are known to miss from the first check on."""
    said: list[Said] = [
        READING,
        ("batch", 60.0, {"steps": 5}),
        ("batch", 61.0, {"steps": 20}),
    ]
    facts = replace(RUN, folds=5, epochs=30)
    answer = judged(facts, said, Expectation(epoch_seconds=Estimate(40.0, 30.0, 52.0)))
    assert answer.action in {"reduce_folds", "reduce_epochs"}
    assert "cannot finish" in answer.why
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.grade == "estimated"


def test_a_slip_in_one_number_does_not_end_the_run() -> None:
    said = told([100.0] * 4, 10)
    slip: Said = ("epoch", 405.0, {"fold": 1, "epoch": 900_000, "seconds": 100.0, "train_loss": 1.0})
    other: Said = ("epoch", 406.0, {"fold": 700_000, "epoch": 3, "seconds": 100.0, "train_loss": 1.0})
    right, slipped = judged(RUN, said), judged(RUN, [*said, slip, other])
    assert (slipped.action, slipped.set) == (right.action, right.set)
    assert right.action == "reduce_folds"


@pytest.mark.parametrize("fold", [0, 2, 4])
def test_one_fold_alone_is_the_whole_run_whatever_its_number(fold: int) -> None:
    answer = judged(replace(RUN, folds=1), told([50.0] * 4, 10, first_fold=fold))
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(5.0, rel=0.05)


def test_no_budget_no_word_about_time() -> None:
    answer = at([500.0] * 5, replace(RUN, minutes=None))
    assert answer.action == "continue"
    assert answer.budget_used_percent is None
    assert answer.eta_minutes is not None


def test_rounds_are_called_rounds_and_numbers_are_plain() -> None:
    trees = replace(RUN, model="catboost", task="tabular-regression", epochs=1_000, folds=5, minutes=20.0)
    said: list[Said] = [("epoch", 10.0 * n, {"epoch": 10 * n, "seconds": 1.0}) for n in range(1, 12)]
    assert "5 folds x 1000 rounds of 1 s end training after 83" in judged(trees, said).why
    long = judged(replace(RUN, folds=1, epochs=3, minutes=40.0), told([1_200.0], 3))
    assert "1 fold x 3 epochs of 1043 s" in long.why


def test_steps_of_a_run_without_epochs_foresee_its_end() -> None:
    """`step 990/5000` every second: 40 s a thousand, and 160 s more."""
    said: list[Said] = [READING]
    said += [("batch", 1.0 + 0.04 * n, {"step": n, "of": 5_000, "scope": "run"}) for n in range(0, 2_001, 20)]
    answer = judged(replace(RUN, epochs=None, folds=None), said)
    assert answer.eta_minutes is not None
    assert answer.eta_minutes.value == pytest.approx(2.0, rel=0.02)


def test_a_prediction_that_time_has_refuted_projects_nothing() -> None:
    expected = Expectation(epoch_seconds=Estimate(18.0, 15.0, 25.0))
    said: list[Said] = [READING, ("gpu", 400.0, {"utilization_percent": 97.0})]
    assert judged(replace(RUN, folds=1, epochs=3), said, expected).eta_minutes is None
    assert judged(replace(RUN, folds=1, epochs=3), said[:1], expected).eta_minutes is not None


@pytest.mark.parametrize("with_fold_line", [True, False])
def test_epochs_of_a_log_sent_every_few_minutes_share_its_time(with_fold_line: bool) -> None:
    """Five epochs of 30 s come with each piece, at one moment: not one of 150 s and four of none."""
    lines = [(150.0, "=== Fold 1/3 ===")] if with_fold_line else []
    lines += [(150.0 * (1 + n // 5), f"Epoch {n + 1}/10: Loss=0.5, GPU=18.0GB (75.0%)") for n in range(10)]
    first = judged(RUN, from_log(lines[: 5 + with_fold_line]))
    assert first.action == "continue"
    assert first.eta_minutes is not None
    assert first.eta_minutes.value == pytest.approx(12.5, rel=0.05), "25 of 30 s"
    both = judged(RUN, from_log(lines))
    assert both.eta_minutes is not None
    assert both.eta_minutes.value == pytest.approx(10.0, rel=0.05)


def test_a_script_that_uses_all_minutes_is_not_told_to_stop_before_its_own_reserve() -> None:
    """It fits other models behind the planned one: at 71 % of the minutes nothing is late."""
    facts = replace(RUN, model="lightgbm", folds=6, epochs=20_000, minutes=3.0, reserve_minutes=0.12)
    fits: list[Said] = [("note", n, {"text": "a fit", "rounds": 90, "fit": "lightgbm"}) for n in (9.0, 18.0)]
    answers = [judged(facts, [*fits, ("note", end, {"text": "a fit"})]) for end in (128.0, 172.0, 174.0)]
    assert [each.action for each in answers] == ["continue", "continue", "stop_and_predict"]
    assert answers[0].eta_minutes is None
    assert judged(replace(facts, reserve_minutes=None), [("note", 128.0, {})]).action == "stop_and_predict"
