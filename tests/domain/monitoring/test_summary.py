"""Does a run's summary depend on the set of events alone? Any order, any split, any JSON trip between."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.event import MEMORY_FIELDS, Event
from memory_service.domain.monitoring.reducer import MOST_SUM, add_events
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import MAX_BUCKETS, MAX_EPOCHS, Summary, TimeBucket
from memory_service.domain.monitoring.verdict import ACTIONS

FACTS = RunFacts(
    model="EfficientNet-B4", params_m=19.3, batch_size=128, memory_gib=24.0, folds=3, epochs=20, minutes=30.0,
    n_train=9_000, cpu_count=8, num_workers=2, learning_rate=1e-3,
)  # fmt: skip

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -1.0,
        1e300,
        10**400,
        True,
        None,
        "",
        "nan",
        "1e9",
        "x" * 300,
        [],
        {},
    ]
)
seconds = st.one_of(st.floats(0.0, 4_000.0), st.sampled_from([0.0, 9.999999, 10.0, 60.0, 60.0]))
score = st.one_of(st.floats(-5.0, 5.0), st.sampled_from(["nan", "inf"]), ODD)
memory = st.fixed_dictionaries(
    {}, optional={name: st.one_of(st.floats(0.0, 30.0), ODD) for name in MEMORY_FIELDS}
)
settings_told = st.fixed_dictionaries(
    {},
    optional={
        "batch_size": st.one_of(st.integers(1, 2048), ODD), "epochs": st.one_of(st.integers(1, 60), ODD),
        "folds": st.integers(1, 6), "num_workers": st.integers(0, 16),
        "total_gib": st.sampled_from([24.0, 40.0]),
        "learning_rate": st.floats(1e-6, 1.0), "precision": st.sampled_from(["fp16", "bf16"]),
    },
)  # fmt: skip
gpu = st.fixed_dictionaries(
    {},
    optional={
        "utilization_percent": st.one_of(st.floats(0, 100), ODD),
        "temperature_c": st.floats(20, 95),
        "rank": st.one_of(st.integers(0, 3), ODD),
    },
)
batch = st.fixed_dictionaries(
    {},
    optional={
        "steps": st.one_of(st.integers(0, 500), ODD), "seconds": st.one_of(st.floats(0, 60), ODD),
        "samples": st.integers(0, 9_999), "loader_wait_percent": st.one_of(st.floats(0, 100), ODD),
        "train_loss": score, "step": st.one_of(st.integers(0, 9_999), ODD), "of": st.integers(1, 9_999),
        "elapsed_seconds": st.floats(0, 100), "scope": st.sampled_from(["epoch", "run", None]),
        "fold": st.integers(0, 4), "epoch": st.integers(0, 80), "rank": st.one_of(st.integers(0, 3), ODD),
    },
)  # fmt: skip
epoch = st.fixed_dictionaries(
    {"epoch": st.one_of(st.integers(0, 90), ODD, st.just(10**9))},
    optional={
        "fold": st.one_of(st.integers(0, 5), ODD), "seconds": st.one_of(st.floats(0, 300), ODD),
        "train_loss": score,
        "valid_loss": score, "metric": score, "loader_wait_percent": st.floats(0, 100),
    },
)  # fmt: skip
fold = st.fixed_dictionaries({"fold": st.one_of(st.integers(0, 40), ODD)}, optional={"done": st.booleans()})
note = st.fixed_dictionaries({}, optional={"out_of_memory": st.booleans(), "error": st.booleans()})


def of_kind(
    kind: str, body: st.SearchStrategy[Mapping[str, Any]]
) -> st.SearchStrategy[tuple[str, float, dict[str, Any]]]:
    fields = st.tuples(body, memory, settings_told).map(lambda parts: {**parts[1], **parts[2], **parts[0]})
    return st.tuples(st.just(kind), seconds, fields)


said = st.one_of(
    of_kind("gpu", gpu), of_kind("batch", batch), of_kind("epoch", epoch), of_kind("fold", fold),
    of_kind("note", note), of_kind("unheard-of", note),
)  # fmt: skip
runs = st.lists(said, max_size=40).map(
    lambda told: [Event(seq, kind, at, fields) for seq, (kind, at, fields) in enumerate(told)]
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(runs, st.randoms(use_true_random=False), st.integers(0, 40))
def test_order_and_split_do_not_matter(told: list[Event], chance: random.Random, cut: int) -> None:
    straight = add_events(Summary(), told)
    mixed = told[:]
    chance.shuffle(mixed)
    assert add_events(Summary(), mixed) == straight
    left = add_events(Summary(), mixed[:cut])
    assert add_events(Summary.from_dict(json.loads(json.dumps(left.as_dict()))), mixed[cut:]) == straight


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(runs, st.booleans(), st.sampled_from(["running", "completed", "out_of_memory", "timed_out"]))
def test_any_events_have_a_verdict_that_json_can_hold(told: list[Event], bare: bool, status: str) -> None:
    facts = RunFacts(status=status) if bare else FACTS
    answer = verdict(State(facts, add_events(Summary(), told)))
    assert answer.action in ACTIONS
    assert answer.why
    assert answer.rule
    json.dumps(answer.as_dict(), allow_nan=False)


def long_run(n: int) -> list[Event]:
    told = []
    for i in range(n):
        at = i * 1.0
        if i % 50 == 49:
            fields: dict[str, Any] = {
                "fold": 1 + i // 5_000,
                "epoch": i // 50 % 100,
                "train_loss": 1.0,
                "seconds": 50.0,
            }
            told.append(Event(i, "epoch", at, fields))
        elif i % 2:
            told.append(Event(i, "gpu", at, {"utilization_percent": 90.0, "used_gib": 18.0}))
        else:
            told.append(
                Event(i, "batch", at, {"steps": 10, "seconds": 1.0, "samples": 1280, "train_loss": 0.5})
            )
    return told


def test_a_summary_stays_small_however_long_the_run() -> None:
    short, long = (add_events(Summary(), long_run(n)) for n in (3_000, 30_000))
    assert len(long.epochs) <= MAX_EPOCHS
    assert len(long.time_buckets) <= MAX_BUCKETS
    sizes = [len(json.dumps(summary.as_dict())) for summary in (short, long)]
    assert sizes[1] < 1.2 * sizes[0]
    assert sizes[1] < 30_000


def test_a_clock_that_runs_backwards_or_jumps_loses_nothing() -> None:
    told = [Event(i, "batch", at, {"steps": 10}) for i, at in enumerate([5.0, 50.0, 20.0, -30.0, 21.0, 70.0])]
    summary = add_events(Summary(), told)
    assert summary.steps == 60
    assert summary.last_us == 70_000_000
    assert summary.odd == 1, "a time before the start is counted as odd and taken as the start"


def test_epoch_ten_to_the_nine_is_absorbed() -> None:
    told = [
        Event(0, "epoch", 30.0, {"epoch": 1, "seconds": 30.0, "train_loss": 1.0}),
        Event(1, "epoch", 60.0, {"epoch": 10**9, "seconds": 30.0, "train_loss": 1.0}),
    ]
    summary = add_events(Summary(), told)
    assert list(summary.epochs) == [(1, 1)]
    assert summary.odd == 1


def test_negative_seconds_are_counted_and_not_used() -> None:
    summary = add_events(
        Summary(), [Event(0, "epoch", 30.0, {"epoch": 1, "seconds": -3.0, "train_loss": 1.0})]
    )
    assert summary.odd == 1
    assert "seconds" not in summary.epochs[1, 1]


def test_the_later_statement_about_an_epoch_holds() -> None:
    told = [
        Event(0, "epoch", 30.0, {"epoch": 1, "seconds": 20.0, "train_loss": 1.0}),
        Event(7, "epoch", 40.0, {"epoch": 1, "valid_loss": 0.7, "seconds": 25.0}),
    ]
    record = add_events(Summary(), reversed(told)).epochs[1, 1]
    assert (record["seconds"][2], record["train_loss"][2], record["valid_loss"][2]) == (25.0, 1.0, 0.7)


@pytest.mark.parametrize("expected", [Expectation(), Expectation(first_check_seconds=0.0, every_seconds=0.0)])
def test_an_empty_run_has_a_verdict(expected: Expectation) -> None:
    answer = verdict(State(RunFacts(), Summary(), expected))
    assert answer.action == "continue"


def test_ten_thousand_folds_and_huge_texts_stay_small() -> None:
    told = [Event(n, "fold", 1.0, {"fold": n, "gpu_name": "x" * 500}) for n in range(10_000)]
    told += [Event(10_000 + n, "epoch", 2.0, {"fold": n, "epoch": n}) for n in range(2_000)]
    told += [Event(200_000 + n, "note", 3.0, {"batch_size": n + 1}) for n in range(2_000)]
    summary = add_events(Summary(), told)
    assert len(json.dumps(summary.as_dict())) < 60_000
    assert summary.events == 14_000


def test_a_summary_written_before_progress_was_counted_is_read() -> None:
    summary = add_events(
        Summary(), [Event(0, "gpu", 5.0, {"utilization_percent": 50.0, "temperature_c": 61.0})]
    )
    raw = json.loads(json.dumps(summary.as_dict()))
    raw["slots"] = {key: [*sums[:7], sums[8]] for key, sums in raw["slots"].items()}
    assert Summary.from_dict(raw) == summary


@pytest.mark.parametrize("rank", [0, 3])
def test_sums_stay_within_what_json_is_written_with(rank: int) -> None:
    large = {"seconds": 1e7, "loader_wait_seconds": 1e7, "samples": 10**12, "steps": 10**9, "rank": rank}
    near = replace(Summary(), busy_us=MOST_SUM - 1, samples=MOST_SUM - 1)
    near.time_buckets[0] = TimeBucket(busy=MOST_SUM, wait_known=MOST_SUM, waited=MOST_SUM, samples=MOST_SUM)
    near.ranks[rank] = (1, MOST_SUM, MOST_SUM, MOST_SUM, MOST_SUM, 0)
    told = [Event(seq, "batch", 1.0, large) for seq in range(20)]
    together = add_events(near, told)
    assert orjson.loads(orjson.dumps(together.as_dict()))["samples"] == MOST_SUM
    assert together == add_events(add_events(near, told[7:]), told[:7])
