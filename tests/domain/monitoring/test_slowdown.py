"""Slow, stalled, waiting for the loader, out of memory, not a number: is each told apart and answered?"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.state import Expectation, RunFacts
from memory_service.domain.monitoring.verdict import Verdict
from tests.watching import Said, judged

RUN = RunFacts(
    model="resnet50",
    params_m=25.6,
    batch_size=128,
    memory_gib=24.0,
    folds=1,
    epochs=20,
    n_train=20_000,
    cpu_count=8,
    num_workers=2,
    image_size=224,
)
READING: Said = ("gpu", 20.0, {"peak_allocated_gib": 18.0})
GOOD: Said = ("batch", 60.0, {"steps": 300, "seconds": 40.0, "samples": 38_400, "train_loss": 0.7})


def steps(at: float, wait: float, rate: float = 1000.0) -> Said:
    fields = {"steps": 100, "seconds": 12_800 / rate, "samples": 12_800, "loader_wait_percent": wait}
    return ("batch", at, fields)


def test_the_first_check_waits_for_60_seconds() -> None:
    early = judged(RUN, [("gpu", 10.0, {"peak_allocated_gib": 3.0}), ("batch", 59.0, {"steps": 500})])
    assert early.action == "continue"
    assert "Too early" in early.why
    assert early.next_check_seconds == 60.0


@pytest.mark.parametrize(("done", "action"), [(19, "continue"), (20, "relaunch")])
def test_the_first_check_waits_for_enough_steps(done: int, action: str) -> None:
    said: list[Said] = [("gpu", 10.0, {"peak_allocated_gib": 3.0}), ("batch", 90.0, {"steps": done})]
    assert judged(RUN, said).action == action


@pytest.mark.parametrize(
    ("now", "then"), [(60.0, 210.0), (61.0, 210.0), (209.0, 210.0), (210.0, 360.0), (4000.0, 4110.0)]
)
def test_then_every_150_seconds(now: float, then: float) -> None:
    """R21 says 120-180."""
    assert judged(RUN, [READING, ("batch", now, {"steps": 500})]).next_check_seconds == then


@pytest.mark.parametrize("fill", [5.0, 13.0, 18.0])
def test_waiting_for_the_loader_never_raises_the_batch(fill: float) -> None:
    answer = judged(RUN, [("gpu", 30.0, {"peak_allocated_gib": fill}), steps(60.0, 45.0)])
    assert answer.action == "relaunch"
    assert answer.set == {"num_workers": 8, "persistent_workers": True, "prefetch_factor": 4}
    assert answer.rule == "R08"


def of_rank(rank: int, told: Said) -> Said:
    kind, at, fields = told
    return kind, at, {**fields, "rank": rank}


def test_the_rank_that_waits_most_for_its_loader_counts() -> None:
    quick, slow = of_rank(0, steps(60.0, 1.0)), of_rank(1, steps(60.0, 45.0))
    assert judged(RUN, [READING, quick]).rule != "R08"
    assert judged(RUN, [READING, quick, slow]).rule == "R08"


def test_the_fullest_of_several_cards_counts() -> None:
    readings = [
        ("gpu", 20.0, {"rank": rank, "peak_allocated_gib": gib}) for rank, gib in enumerate((9.0, 20.0))
    ]
    alone, both = (judged(RUN, [*some, GOOD]) for some in (readings[:1], readings))
    assert (alone.action, both.action) == ("relaunch", "continue")


def test_with_all_cores_at_work_the_samples_must_get_smaller() -> None:
    answer = judged(replace(RUN, num_workers=8), [READING, steps(60.0, 45.0)])
    assert list(answer.set) == ["cache"], "one change, not two"
    assert "8 workers are all that 8 cores can feed" in answer.why
    assert "train at 160 px" in answer.why


def test_no_worker_at_all_is_heard_from_the_log() -> None:
    answer = judged(
        replace(RUN, num_workers=None), [("note", 1.0, {"num_workers": 0}), READING, steps(60.0, 45.0)]
    )
    assert answer.set["num_workers"] == 8


def test_a_run_that_ends_in_time_is_not_restarted_late_for_its_loader() -> None:
    answer = judged(replace(RUN, minutes=20.0), [READING, steps(300.0, 45.0)])
    assert answer.action == "continue"
    assert answer.next_time["num_workers"] == 8


@given(st.lists(st.floats(15.5, 19.5), min_size=1, max_size=30))
def test_waiting_between_15_and_20_percent_does_not_flap(waits: list[float]) -> None:
    said: list[Said] = [READING, steps(60.0, 60.0)]
    said += [steps(70.0 + 10.0 * n, wait) for n, wait in enumerate(waits)]
    heard = [judged(RUN, said[: n + 2]).action == "continue" for n in range(len(waits) + 1)]
    assert sum(a != b for a, b in itertools.pairwise(heard)) <= 1


RATE = Estimate(1000.0, 850.0, 1150.0)


def test_as_fast_as_predicted_is_no_r18_alarm() -> None:
    slow_but_right = Expectation(samples_per_second=Estimate(100.0, 85.0, 115.0))
    answer = judged(RUN, [READING, steps(80.0, 2.0, rate=100.0)], slow_but_right)
    assert answer.action == "continue"


def test_half_as_fast_as_predicted_is_investigated() -> None:
    answer = judged(RUN, [READING, steps(80.0, 2.0, rate=400.0)], Expectation(samples_per_second=RATE))
    assert answer.action == "investigate"
    assert "2.5 times as long as predicted" in answer.why


@pytest.mark.parametrize(
    ("task", "seconds", "action"),
    [
        ("image-classification", 0.7, "investigate"),
        ("image-classification", 0.5, "continue"),
        ("tabular-classification", 0.2, "investigate"),
        ("tabular-classification", 0.1, "continue"),
    ],
)
def test_r18_without_a_prediction(task: str, seconds: float, action: str) -> None:
    said: list[Said] = [READING, ("batch", 90.0, {"steps": 100, "seconds": 100 * seconds, "samples": 12_800})]
    answer = judged(replace(RUN, task=task), said)
    assert answer.action == action
    assert action == "continue" or answer.rule == "R18"


def test_r18_is_silent_where_the_card_is_busy() -> None:
    said: list[Said] = [
        READING,
        ("gpu", 50.0, {"utilization_percent": 97.0}),
        ("batch", 90.0, {"steps": 100, "seconds": 90.0, "samples": 12_800}),
    ]
    assert judged(RUN, said).action == "continue"


def test_an_idle_card_that_does_not_wait_takes_a_larger_batch() -> None:
    """R05."""
    said: list[Said] = [
        ("gpu", 30.0, {"peak_allocated_gib": 15.0 * 0.75, "utilization_percent": 35.0}),
        steps(80.0, 1.0, rate=400.0),
    ]
    small = replace(RUN, model="resnet18", batch_size=64)
    answer = judged(
        small,
        [("gpu", 30.0, {"peak_allocated_gib": 12.5, "utilization_percent": 35.0}), said[1]],
        Expectation(samples_per_second=RATE),
    )
    assert (answer.action, answer.rule) == ("raise_batch", "R05")
    assert answer.set["batch_size"] > 64


def epochs(each: list[float]) -> list[Said]:
    said, now = [READING], 0.0
    for n, seconds in enumerate(each, 1):
        now += seconds
        said.append(("epoch", now, {"epoch": n, "seconds": seconds, "train_loss": 0.5}))
    return said


def test_epochs_that_suddenly_take_twice_as_long_are_investigated() -> None:
    answer = judged(RUN, epochs([35.0, 30.0, 30.0, 31.0, 30.0, 62.0, 61.0]))
    assert (answer.action, answer.rule) == ("investigate", "R25")


def test_slowness_that_the_card_explains_is_explained() -> None:
    said = [
        *epochs([35.0, 30.0, 30.0, 31.0, 30.0, 62.0, 61.0]),
        ("gpu", 280.0, {"other_processes": 1, "throttled": True}),
    ]
    answer = judged(RUN, said)
    assert answer.set["check"] == ["other processes on the card", "the card being throttled"]


def test_one_slow_epoch_is_nothing() -> None:
    assert judged(RUN, epochs([35.0, 30.0, 30.0, 31.0, 30.0, 62.0, 30.0])).action == "continue"
    assert judged(RUN, epochs([35.0, 30.0, 30.0, 31.0, 30.0, 62.0])).action == "continue"


@pytest.mark.parametrize("status", ["completed", "stopped", "timed_out", "crashed"])
def test_a_run_that_has_ended_is_not_told_what_to_do(status: str) -> None:
    assert judged(replace(RUN, status=status, minutes=1.0), [GOOD]).action == "continue"


def test_workers_that_were_never_told_are_asked_for_first() -> None:
    """PyTorch's default is none at all."""
    answer = judged(replace(RUN, num_workers=None), [READING, steps(60.0, 45.0)])
    assert (answer.rule, answer.set["num_workers"]) == ("R08", 8)


def test_waiting_explains_slowness_and_no_other_cause_is_looked_for() -> None:
    answer = judged(RUN, [READING, steps(60.0, 60.0, rate=300.0)], Expectation(samples_per_second=RATE))
    assert answer.rule == "R08"
    assert not any("predicted" in note for note in answer.notes)


def test_slowness_is_told_with_both_numbers() -> None:
    answer = judged(RUN, [READING, steps(80.0, 2.0, rate=400.0)], Expectation(samples_per_second=RATE))
    assert "(400 samples/s, not 1000)" in answer.why
    assert "loader" not in answer.set["check"], "it was told that the loader is not waited for"
    of_epochs = judged(RUN, epochs([60.0, 51.3, 51.3]), Expectation(epoch_seconds=Estimate(16.2, 12.5, 23.5)))
    assert "An epoch takes 3.2 times as long as predicted (51.3 s, not 16.2 s)" in of_epochs.why


SHORT = replace(RUN, n_train=100_000, batch_size=64, epochs=20, minutes=30.0)


@pytest.mark.parametrize(("seconds", "action"), [(3.0, "continue"), (60.0, "relaunch")])
def test_a_run_that_is_nearly_over_is_not_started_again_for_its_fill(seconds: float, action: str) -> None:
    """19 epochs of 3 s are over before a new start has paid for itself; 19 of a minute are not."""
    said: list[Said] = [("gpu", 20.0, {"process_gib": 1.2})]
    said += [("epoch", 60.0 + seconds * n, {"epoch": n, "seconds": seconds}) for n in range(1, 3)]
    answer = judged(SHORT, said)
    assert answer.action == action
    if action == "continue":
        assert (answer.rule, answer.next_time) == ("R24", {"batch_size": 128})


def test_a_run_that_is_nearly_over_is_not_started_again_for_its_loader() -> None:
    said: list[Said] = [READING, steps(60.0, 45.0)]
    said += [("epoch", 60.0 + 3.0 * n, {"epoch": n, "seconds": 3.0}) for n in range(1, 3)]
    answer = judged(replace(RUN, minutes=30.0), said)
    assert (answer.action, answer.next_time["num_workers"]) == ("continue", 8)


def test_what_is_trained_is_not_given_up_late_for_the_loader() -> None:
    """At minute 18 of 30 no further epoch of nine minutes fits, and a new start would bring hardly more."""
    told = {"seconds": 530.0, "loader_wait_percent": 70.0}
    said: list[Said] = [READING, *(("epoch", 540.0 * n, {"epoch": n, **told}) for n in (1, 2))]
    answer = judged(replace(RUN, minutes=30.0, epochs=4, num_workers=8), said)
    assert (answer.action, list(answer.next_time)) == ("continue", ["cache"])
    assert "It cannot finish" in answer.why


def test_a_first_epoch_as_quick_as_predicted_is_no_reason_to_raise_the_batch() -> None:
    low: Said = ("gpu", 20.0, {"peak_allocated_gib": 3.0})
    said: list[Said] = [low, ("epoch", 100.0, {"epoch": 1, "seconds": 80.0})]
    seconds, rate = Estimate(100.0, 80.0, 130.0), Estimate(200.0, 170.0, 230.0)
    known = Expectation(epoch_seconds=seconds, samples_per_second=rate, curve=((128, 200.0), (256, 210.0)))
    assert judged(RUN, said, known).action == "continue"
    slow: Said = ("epoch", 160.0, {"epoch": 1, "seconds": 140.0})
    assert judged(RUN, [low, slow], known).action == "relaunch"


def test_notes_ask_for_nothing() -> None:
    """One action: what other rules saw is told without what they would do."""
    said: list[Said] = [
        *[("epoch", 25.0 * n, {"epoch": n, "seconds": 25.0, "memory_gib": gib})
          for n, gib in enumerate([18.2, 18.1, 18.3, 10.0], 1)],
        ("batch", 101.0, {"steps": 100, "seconds": 12.0, "samples": 12_800, "loader_wait_percent": 50.0}),
    ]  # fmt: skip
    answer = judged(RUN, said)
    assert (answer.action, answer.rule) == ("investigate", "R25")
    assert answer.notes == (
        "50 % of the time goes into waiting for the loader.",
        "Memory is at 42 % (10.0 of 24.0 GiB, as the log says), under 50 %.",
    )
    trouble = judged(RUN, [("note", 30.0, {"out_of_memory": True})])
    assert trouble.notes == ()


def test_slowness_that_costs_less_than_a_new_start_is_only_noted() -> None:
    facts, slow = replace(RUN, minutes=30.0), Expectation(epoch_seconds=Estimate(1.0, 0.8, 1.2))
    answer = judged(facts, epochs([40.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]), slow)
    assert answer.action == "continue"
    assert any("3.0 times as long as predicted" in text for text in (answer.why, *answer.notes))


@pytest.mark.parametrize(("rate", "action"), [(950.0, "continue"), (700.0, "add_monitoring")])
def test_a_run_as_fast_as_predicted_is_not_stopped_for_a_reading(rate: float, action: str) -> None:
    answer = judged(RUN, [steps(80.0, 2.0, rate=rate)], Expectation(samples_per_second=RATE))
    assert answer.action == action
    assert (answer.set or answer.next_time)["call"] == "torch.cuda.max_memory_allocated()"


def busy_at(percent: float, facts: RunFacts, wait: float | None) -> Verdict:
    said: list[Said] = [("gpu", 5.0, {"peak_allocated_gib": 18.0, "utilization_percent": 0.0})]
    for n in range(1, 12):
        said.append(("gpu", 30.0 + 10 * n, {"utilization_percent": percent}))
        told = {"steps": 40, "seconds": 9.0, "samples": 5_120}
        said.append(("batch", 31.0 + 10 * n, told if wait is None else {**told, "loader_wait_percent": wait}))
    return judged(facts, said)


def test_r05_without_a_prediction() -> None:
    """A large model that leaves the card idle: it waits for something, or its batch is too small."""
    unknown = busy_at(35.0, RUN, None)
    assert (unknown.action, unknown.rule, unknown.set["check"][0]) == ("investigate", "R05", "loader")
    assert "the card is busy 35 % of the time" in unknown.why, "seconds before training began do not count"
    too_small = busy_at(35.0, replace(RUN, memory_gib=40.0), 1.0)
    assert (too_small.action, too_small.set) == ("relaunch", {"batch_size": 256}), "R23 says the same first"
    assert busy_at(75.0, RUN, None).action == "continue"
    assert busy_at(35.0, replace(RUN, model="resnet18"), None).action == "continue"


def test_a_run_that_is_a_quarter_over_is_judged_before_60_seconds() -> None:
    facts = RunFacts(batch_size=64, epochs=3, folds=1, minutes=5.0, memory_gib=24.0)
    epochs = [("epoch", 8.0 * n, {"fold": 1, "epoch": n, "seconds": 8.0, "used_gib": 18.0}) for n in (1, 2)]
    assert "Too early" in judged(facts, epochs[:1]).why, "the first epoch says little of the others"
    assert judged(facts, epochs).rule == "R23"
