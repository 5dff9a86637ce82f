"""Is what breaks a run told at once: memory that runs out or grows, a loss that is lost?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.domain.monitoring.test_slowdown import GOOD, READING, RUN, epochs
from tests.watching import Said, judged


@pytest.mark.parametrize("bad", ["nan", "inf", float("nan"), float("-inf")])
@pytest.mark.parametrize("at", [5.0, 90.0])
def test_a_loss_that_is_no_number_is_told_at_once(bad: Any, at: float) -> None:
    said: list[Said] = [READING, ("batch", at, {"steps": 100, "train_loss": bad})]
    answer = judged(replace(RUN, learning_rate=1e-3), said)
    assert (answer.action, answer.severity) == ("relaunch", "critical")
    assert answer.set["learning_rate"] == pytest.approx(3e-4)
    assert judged(RUN, said).action == "investigate"


def test_a_loss_that_recovers_is_forgotten() -> None:
    said: list[Said] = [READING, ("batch", 50.0, {"steps": 100, "train_loss": "nan"}), GOOD]
    assert judged(RUN, said).action == "continue"


def test_out_of_memory_halves_the_batch_and_keeps_the_effective_one() -> None:
    """R02."""
    answer = judged(RUN, [("note", 30.0, {"out_of_memory": True})])
    assert (answer.action, answer.rule) == ("lower_batch", "R02")
    assert answer.set == {"batch_size": 64, "grad_accumulation": 2}
    ended = judged(replace(RUN, status="out_of_memory"), [GOOD])
    assert ended.action == "lower_batch"


@pytest.mark.parametrize(("batch", "steps", "lower"), [(64, 2, (32, 4)), (64, 4, (32, 8)), (64, 1, (32, 2))])
def test_out_of_memory_keeps_the_effective_batch_that_the_run_began_with(
    batch: int, steps: int, lower: tuple[int, int]
) -> None:
    facts = replace(RUN, batch_size=batch, grad_accumulation=steps)
    answer = judged(facts, [("note", 30.0, {"out_of_memory": True})])
    assert answer.set == {"batch_size": lower[0], "grad_accumulation": lower[1]}


def test_a_batch_lowered_on_the_way_still_has_the_effective_batch_of_the_start() -> None:
    facts = replace(RUN, batch_size=64, grad_accumulation=2)
    said: list[Said] = [("note", 20.0, {"batch_size": 32}), ("note", 30.0, {"out_of_memory": True})]
    assert judged(facts, said).set == {"batch_size": 16, "grad_accumulation": 8}


def test_a_batch_lowered_after_running_out_is_judged_anew() -> None:
    said: list[Said] = [
        ("note", 0.0, {"batch_size": 128}),
        ("gpu", 10.0, {"used_gib": 23.9}),
        ("note", 30.0, {"out_of_memory": True}),
        ("note", 40.0, {"batch_size": 64}),
        ("gpu", 95.0, {"used_gib": 18.0}),
        ("batch", 100.0, {"steps": 100}),
    ]
    answer = judged(RUN, said)
    assert answer.action == "continue"
    assert answer.fill_percent == pytest.approx(75.0)


def test_memory_that_grows_until_it_will_not_fit_is_a_leak() -> None:
    said: list[Said] = [
        ("epoch", 30.0 * n, {"epoch": n, "seconds": 30.0, "train_loss": 0.5, "used_gib": 14.4 + 0.6 * n})
        for n in range(1, 9)
    ]
    answer = judged(RUN, said)
    assert (answer.action, answer.rule) == ("investigate", "R25")
    assert "2.5 points every epoch" in answer.why


def test_a_loss_that_leaves_its_first_epoch_far_behind_has_diverged() -> None:
    def of(*losses: float, fold: int = 0) -> list[Said]:
        return [
            ("epoch", 60.0 * n, {"fold": fold, "epoch": n, "seconds": 60.0, "train_loss": loss})
            for n, loss in enumerate(losses, 1 + 4 * fold)
        ]

    answer = judged(RUN, [READING, *of(0.7, 0.5, 70.0)])
    assert (answer.action, answer.rule, answer.severity) == ("investigate", "diverged", "critical")
    assert "rose from 0.7 in the fold's first epoch to 70" in answer.why
    assert judged(replace(RUN, learning_rate=1e-2), [READING, *of(0.7, 70.0)]).set["learning_rate"] == 3e-3
    for losses in ((0.7, 2.0), (0.7, 70.0, 0.6), (-1.0, 5.0), (0.0, 4.0)):
        assert judged(RUN, [READING, *of(*losses)]).rule != "diverged", losses
    twice = [READING, *of(0.1, 0.01), *of(0.7, 0.6, fold=1)]
    assert judged(replace(RUN, folds=2), twice).rule != "diverged", "each fold begins anew"


@pytest.mark.parametrize("trouble", [{"out_of_memory": True}, {"train_loss": "nan"}])
def test_when_time_is_up_no_trouble_starts_it_again(trouble: dict[str, Any]) -> None:
    """At 80 % of the budget a fold is there to predict with; a new start would bring nothing any more."""
    facts = replace(RUN, minutes=10.0, folds=3)
    said = epochs([24.0] * 19)
    told: Said = ("note", 478.0, trouble) if "out_of_memory" in trouble else ("batch", 478.0, trouble)
    assert judged(facts, [*said, told]).action == "stop_and_predict"
    without = judged(facts, [READING, ("gpu", 450.0, {"utilization_percent": 90.0}), told])
    assert without.rule != "R15", "nothing to predict with: what can still be trained is worth more"


def test_a_batch_that_ran_out_of_memory_in_this_run_is_not_told_again() -> None:
    said: list[Said] = [
        ("note", 1.0, {"batch_size": 64}),
        ("gpu", 61.0, {"process_gib": 9.0}),
        ("note", 75.0, {"batch_size": 128}),
        ("note", 90.0, {"out_of_memory": True}),
        ("note", 100.0, {"batch_size": 64, "grad_accumulation": 2}),
        ("gpu", 170.0, {"process_gib": 9.0}),
        ("batch", 171.0, {"steps": 100, "seconds": 30.0, "samples": 6_400}),
    ]
    before = judged(RUN, said[:2])
    assert before.set == {"batch_size": 128}
    after = judged(RUN, said)
    assert after.set.get("batch_size", 64) < 128
    assert "128 ran out of memory" in f"{after.why} {after.notes}"
