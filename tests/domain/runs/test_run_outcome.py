"""What happened in a run, and what it says of its device: from its events alone, in any order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.learning.observation import Observation
from memory_service.domain.monitoring.event import Event
from memory_service.domain.runs.run_observations import MOST_BATCHES, Ending, observations_of
from memory_service.domain.runs.run_outcome import Outcome, outcome_of

CASE = Observation(
    gpu="a100", model="resnet50", family="resnet", input_size=224, precision="fp16", batch_size=100
)
N_TRAIN, FOLDS = 10_000, 5
STEPS = 80
"""Of 100 samples: 8 000 of the 10 000 are trained on."""


def epoch(seq: int, seconds: float, at: float | None = None, **fields: Any) -> Event:
    return Event(seq, "epoch", at if at is not None else 60.0 * (seq + 1), {"seconds": seconds, **fields})


def gpu(seq: int, **fields: Any) -> Event:
    return Event(seq, "gpu", 10.0 * seq, fields)


def outcome(*events: Event, batch_size: int | None = 100) -> Outcome:
    return outcome_of(events, batch_size=batch_size, n_train=N_TRAIN, folds=FOLDS)


def observed(
    *events: Event, status: Any = "completed", after: float = 600.0, batch: int | None = None
) -> list[Observation]:
    ending = Ending(status, after, 50.0, batch)
    return observations_of(CASE, outcome(*events), ending, n_train=N_TRAIN, folds=FOLDS)


def test_the_first_epoch_is_kept_apart():
    (one,) = observed(epoch(0, 24.0), epoch(1, 8.0), epoch(2, 9.0), epoch(3, 8.5))
    assert one.step_seconds == pytest.approx(8.5 / STEPS)
    assert one.first_epoch_ratio == pytest.approx(24.0 / 8.5)
    assert one.n == 3


def test_one_epoch_alone_says_no_steady_speed_but_batches_do():
    assert observed(epoch(0, 24.0)) == []
    steps = [Event(n, "batch", 5.0 * n, {"steps": 10, "seconds": 1.0 if n > 1 else 4.0}) for n in range(1, 6)]
    (one,) = observed(*steps, epoch(9, 24.0))
    assert one.step_seconds == pytest.approx(0.1), "the first ten steps choose kernels"


def test_of_a_run_of_many_batch_sizes_the_latest_teach_and_the_one_that_failed():
    steps = [
        Event(n, "batch", float(n), {"steps": 20, "seconds": 1.0, "batch_size": 1 + n // 2})
        for n in range(5_000)
    ]
    found = observed(*steps, status="out_of_memory", after=6_000.0, batch=7)
    assert len(found) <= MOST_BATCHES
    assert [one.batch_size for one in found if one.out_of_memory] == [7]
    assert found[-1].batch_size == 2_500


def test_less_than_one_step_says_nothing_of_a_step():
    assert observed(*(Event(n, "batch", 5.0 * n, {"steps": 0.5, "seconds": 1.0}) for n in range(1, 40))) == []


def test_told_samples_win_over_those_that_follow_from_the_folds():
    (one,) = observed(epoch(0, 8.0), epoch(1, 8.0, samples=16_000), epoch(2, 8.0, samples=16_000))
    assert one.step_seconds == pytest.approx(8.0 / 160)


def test_waiting_for_the_loader_and_validation_are_no_part_of_a_step():
    (one,) = observed(
        epoch(0, 20.0), *(epoch(n, 10.0, loader_wait_percent=5.0, valid_seconds=2.0) for n in (1, 2))
    )
    assert one.step_seconds == pytest.approx(8.0 * 0.95 / STEPS)
    assert one.excluded is None


def test_an_epoch_with_a_validation_result_holds_its_validation():
    """2 000 rows of a forward pass, a third of a step's time each, beside 8 000 of training."""
    (one,) = observed(*(epoch(n, 10.0, metric=0.5) for n in range(3)))
    assert one.step_seconds == pytest.approx(10.0 * 8_000 / (8_000 + 2_000 / 3) / STEPS)
    (apart,) = observed(*(epoch(n, 10.0, metric=0.5, valid_seconds=0.0) for n in range(3)))
    assert apart.step_seconds == pytest.approx(10.0 / STEPS), "told apart, it is as told"
    (trees,) = observed(*(epoch(n, 10.0, metric=0.5, batch_size=8_000) for n in range(3)))
    assert trees.step_seconds == pytest.approx(10.0), "a round of boosted trees"


def test_a_run_that_waits_for_its_loader_says_nothing_of_the_card():
    (one,) = observed(*(epoch(n, 10.0, loader_wait_percent=40.0, peak_allocated_gib=5.0) for n in range(3)))
    assert one.excluded == "loader_bound"
    assert one.peak_allocated_gib == 5.0, "its memory still counts"


@pytest.mark.parametrize(
    ("sample", "why"), [({"other_processes": 2}, "contended"), ({"throttled": True}, "throttled")]
)
def test_sharing_and_throttling_count_from_a_tenth_of_the_samples(sample: dict[str, Any], why: str):
    epochs = [epoch(n, 8.0) for n in range(100, 103)]
    calm: dict[str, Any] = {"other_processes": 0, "throttled": False, "used_gib": 9.0}
    (mostly,) = observed(*epochs, *(gpu(n, **(calm | (sample if n < 3 else {}))) for n in range(20)))
    assert mostly.excluded == why
    (rarely,) = observed(*epochs, *(gpu(n, **(calm | (sample if n < 2 else {}))) for n in range(20)))
    assert rarely.excluded is None
    (silent,) = observed(*epochs, *(gpu(n, used_gib=9.0) for n in range(20)))
    assert silent.excluded is None, "a sample that does not tell is no evidence"


def test_each_kind_of_memory_stays_what_it_is():
    (one,) = observed(
        gpu(0, allocated_gib=99.0, used_gib=12.0),
        gpu(1, process_gib=11.0, used_gib=30.0),
        gpu(2, used_gib=31.0, other_processes=0, reserved_gib=9.5),
        gpu(3, used_gib=77.0, other_processes=1),
        *(epoch(n, 8.0, peak_allocated_gib=8.0, peak_reserved_gib=9.0) for n in range(4, 40)),
    )
    assert (one.peak_allocated_gib, one.peak_reserved_gib) == (8.0, 9.5)
    assert one.peak_driver_gib is None, "a shared card does not tell what one process needs"
    (alone,) = observed(gpu(0, used_gib=12.0), gpu(1, process_gib=11.0, used_gib=30.0), epoch(2, 8.0))
    assert alone.peak_driver_gib == 12.0


def test_every_batch_that_was_used_is_an_observation_of_its_own():
    small = [epoch(n, 16.0, batch_size=50, peak_allocated_gib=3.0) for n in range(3)]
    large = [epoch(n, 12.0, batch_size=200, peak_allocated_gib=9.0) for n in range(4, 7)]
    found = observed(*small, gpu(3, used_gib=14.0), *large)
    assert [(o.batch_size, o.peak_allocated_gib, o.peak_driver_gib) for o in found] == [
        (50, 3.0, None),
        (200, 9.0, 14.0),
    ]
    assert found[0].step_seconds == pytest.approx(16.0 / 160)
    assert found[1].step_seconds == pytest.approx(12.0 / 40)
    assert found[1].first_epoch_ratio is None, "the run's first epoch was at the other batch"


def test_out_of_memory_is_at_the_batch_that_ran_out():
    (at_once,) = observed(status="out_of_memory")
    assert (at_once.batch_size, at_once.out_of_memory, at_once.step_seconds) == (100, True, None)
    low, high = observed(*(epoch(n, 8.0, batch_size=64) for n in range(3)), status="out_of_memory", batch=256)
    assert (low.batch_size, low.out_of_memory) == (64, False)
    assert (high.batch_size, high.out_of_memory) == (256, True)
    (crashed,) = observed(Event(0, "note", 1.0, {"out_of_memory": True}), status="crashed")
    assert crashed.out_of_memory


def test_a_time_out_bounds_the_step_from_below():
    (before,) = observed(status="timed_out", after=850.0)
    assert before.at_least_seconds == pytest.approx(800.0 / STEPS), "less what setting up may take"
    (after_one,) = observed(epoch(0, 300.0, at=350.0), status="timed_out", after=750.0)
    assert after_one.at_least_seconds == pytest.approx(400.0 / STEPS)
    (known,) = observed(*(epoch(n, 8.0) for n in range(3)), status="timed_out")
    assert known.at_least_seconds is None
    assert known.step_seconds is not None
    assert observed(status="timed_out", after=20.0) == []
    assert observed(status="stopped", after=850.0) == [], "who stops a run does not say that it was slow"


def test_a_run_without_a_batch_size_shows_its_epochs_and_teaches_nothing():
    told = outcome(*(epoch(n, 8.0, train_loss=0.5) for n in range(3)), batch_size=None)
    assert told.epoch_seconds == 8.0
    assert (
        observations_of(
            replace(CASE, batch_size=0), told, Ending("completed", 60.0), n_train=None, folds=None
        )
        == []
    )


def test_of_two_events_for_one_epoch_the_later_seq_counts():
    told = outcome(epoch(0, 9.0, epoch=0), epoch(1, 8.0, epoch=1), epoch(2, 80.0, epoch=1))
    assert [e.seconds for e in told.epochs] == [9.0, 80.0]


def test_no_number_is_a_loss_that_is_kept():
    told = outcome(epoch(0, 8.0, epoch=0, train_loss="nan", metric="-inf"))
    (shown,) = told.as_dict()["epochs"]
    assert (shown["train_loss"], shown["metric"]) == ("nan", "-inf")


_NAMES = (
    "seconds", "valid_seconds", "samples", "loader_wait_percent", "used_gib", "process_gib",
    "peak_allocated_gib", "reserved_gib", "steps", "loader_wait_seconds", "power_w",
)  # fmt: skip
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), st.floats(0, 1e8))
_PLACES = st.fixed_dictionaries({"batch_size": st.integers(1, 10**9), "epoch": st.integers(0, 10**6)})
_EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["gpu", "batch", "epoch", "fold", "note"]),
        st.integers(0, 2**53 - 1),
        st.floats(-1e9, 1e9),
        _FIELDS | _PLACES,
    ),
    max_size=30,
    unique_by=lambda event: event.seq,
)


@given(_EVENTS, st.sampled_from(["completed", "out_of_memory", "timed_out", "crashed"]), st.randoms())
def test_the_order_of_arrival_changes_nothing(events: list[Event], status: Any, shuffled: random.Random):
    before, found = outcome(*events), observed(*events, status=status)
    shuffled.shuffle(events)
    assert outcome(*events) == before
    assert observed(*events, status=status) == found
    for one in found:
        assert one.step_seconds is None or one.step_seconds > 0.0
        assert one.at_least_seconds is None or one.at_least_seconds > 0.0


def test_epochs_numbered_as_text_and_as_numbers_are_the_same_epochs():
    events = [epoch(n, 8.0, fold=str(n % 2), epoch=n if n % 2 else str(n)) for n in range(4)]
    found = outcome(*events, epoch(9, 8.0, fold=0, epoch="2"))
    assert [(one.fold, one.epoch) for one in found.epochs] == [(0, 0), (0, 2), (1, 1), (1, 3)]
