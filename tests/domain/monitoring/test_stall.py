"""Is a run that stands still found out, and one that only pauses left alone?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.monitoring.verdict import Verdict
from tests.domain.monitoring.test_slowdown import GOOD, READING, RUN, epochs
from tests.watching import Said, events, judged


@pytest.mark.parametrize(("idle", "action"), [(50.0, "continue"), (70.0, "investigate")])
def test_no_step_for_long_is_a_stall(idle: float, action: str) -> None:
    said: list[Said] = [READING, GOOD, ("gpu", 60.0 + idle, {"utilization_percent": 0.0})]
    answer = judged(RUN, said)
    assert answer.action == action
    assert action == "continue" or (answer.rule, answer.severity) == ("stall", "critical")


def test_a_long_validation_is_no_stall() -> None:
    said = epochs([400.0, 400.0])
    busy: list[Said] = [
        ("batch", 810.0, {"steps": 100, "seconds": 10.0}),
        ("gpu", 970.0, {"utilization_percent": 90.0}),
    ]
    assert judged(RUN, [*said, *busy]).action == "continue"


def test_without_steps_an_epoch_that_never_comes_is_a_stall() -> None:
    assert (
        judged(RUN, [*epochs([30.0, 30.0]), ("gpu", 120.0, {"utilization_percent": 0.0})]).action
        == "continue"
    )
    assert (
        judged(RUN, [*epochs([30.0, 30.0]), ("gpu", 160.0, {"utilization_percent": 0.0})]).action
        == "investigate"
    )


def test_no_first_step_in_five_minutes_is_a_stall() -> None:
    assert judged(RUN, [READING, ("gpu", 301.0, {"utilization_percent": 0.0})]).rule == "stall"


def test_what_is_done_does_not_stall() -> None:
    said = [*epochs([30.0] * 20), ("gpu", 5_000.0, {"utilization_percent": 0.0})]
    assert judged(RUN, said).action == "continue"


def test_a_pause_that_the_run_makes_anyway_is_no_stall() -> None:
    """Every 500th step is told of, each 50 s: 90 s without one is no stall, 150 s is."""
    said: list[Said] = [READING]
    said += [("batch", 50.0 * n, {"steps": 500, "seconds": 50.0, "samples": 64_000}) for n in range(1, 5)]
    quiet = judged(RUN, [*said, ("gpu", 290.0, {"utilization_percent": 90.0})])
    assert quiet.rule != "stall"
    assert judged(RUN, [*said, ("gpu", 350.0, {"utilization_percent": 90.0})]).rule == "stall"


@pytest.mark.parametrize(("step", "stalls"), [(100, True), (200, False)])
def test_a_first_validation_is_awaited_and_a_halt_in_mid_epoch_is_not(step: int, stalls: bool) -> None:
    bar = {"step": step, "of": 200, "elapsed_seconds": 0.5 * step, "scope": "epoch"}
    said: list[Said] = [READING, ("batch", 110.0, bar), ("gpu", 195.0, {"utilization_percent": 90.0})]
    assert (judged(RUN, said).rule == "stall") == stalls


def test_a_first_epoch_that_is_long_is_no_stall_while_the_card_is_busy() -> None:
    busy: list[Said] = [("gpu", 20.0 * n, {"peak_allocated_gib": 18.0, "utilization_percent": 95.0})
                        for n in range(1, 21)]  # fmt: skip
    assert judged(RUN, busy).rule != "stall"
    idle = [(kind, at, {**fields, "utilization_percent": 0.0}) for kind, at, fields in busy]
    assert judged(RUN, idle).rule == "stall"
    slow = Expectation(epoch_seconds=Estimate(150.0, 120.0, 200.0))
    assert judged(RUN, idle, slow).rule != "stall", "three epochs as predicted take ten minutes"


def asked(said: list[Said], seconds: float, facts: RunFacts = RUN) -> Verdict:
    return verdict(State(facts, add_events(Summary(), events(said)), requested_seconds=seconds))


def test_silence_is_a_stall_when_it_is_asked_about() -> None:
    said: list[Said] = [READING, GOOD]
    before, after = judged(RUN, said), asked(said, 110.0)
    assert after == replace(before, at_seconds=110.0, eta_minutes=after.eta_minutes)
    assert before.eta_minutes is not None
    assert after.eta_minutes is not None
    assert after.eta_minutes.value == pytest.approx(before.eta_minutes.value)
    assert asked(said, 235.0).rule != "stall", "a log is read every 120-180 s (R21)"
    answer = asked(said, 250.0)
    assert (answer.action, answer.rule, answer.severity) == ("investigate", "stall", "critical")
    assert "Nothing was reported for 190 s, where 180 s is the longest that is usual" in answer.why
    assert answer.set["check"][0] == "process alive"


def test_the_first_check_comes_when_it_is_asked_for_and_not_at_the_next_line() -> None:
    """One epoch of 51 s shows that 5 x 30 cannot fit: told of at 60 s, not at the next epoch's end."""
    facts = replace(RUN, folds=5, epochs=30, minutes=11.0)
    said: list[Said] = [READING, ("epoch", 51.3, {"epoch": 1, "seconds": 51.3, "train_loss": 1.0})]
    assert "Too early" in judged(facts, said).why
    answer = asked(said, 60.0, facts)
    assert (answer.action, answer.severity) == ("reduce_folds", "critical")


def test_a_silent_run_is_told_to_stop_in_time_for_a_submission() -> None:
    said: list[Said] = [READING, ("epoch", 60.0, {"epoch": 1, "seconds": 55.0, "train_loss": 1.0})]
    answer = asked(said, 0.86 * 600.0, replace(RUN, minutes=10.0, epochs=8))
    assert (answer.action, answer.rule) == ("stop_and_predict", "R14")
    assert any("Nothing was reported" in note for note in answer.notes)


def test_the_end_of_a_fold_is_progress() -> None:
    trees = RunFacts(model="lightgbm", task="tabular-regression", folds=3, epochs=1_000, minutes=20.0)
    said: list[Said] = [("epoch", 2.0 * n, {"epoch": 50 * n}) for n in range(1, 10)]
    said += [("fold", 75.0, {"fold": 1, "done": True}), ("note", 110.0, {"text": "next fold"})]
    assert judged(trees, said).action == "continue"
    assert judged(trees, [*said, ("note", 210.0, {"text": "still nothing"})]).rule == "stall"


def test_lines_that_were_not_understood_are_no_stall() -> None:
    """A run that trains and prints what no form reads must not be ended as a deadlock."""
    line = "phase two of pass 7: objective fell to 0.4 nats"
    answer = judged(RUN, [("note", 1_500.0, {"text": line, "unread_line": line})])
    assert (answer.action, answer.rule) == ("add_monitoring", "log")
    assert line in answer.why
    assert "deadlock" not in " ".join((answer.why, *answer.notes))


def test_finished_fits_are_progress() -> None:
    fit = {"fit": "lightgbm", "fold": 1, "seconds": 12.0, "rows": 8_000, "columns": 20, "rounds": 300}
    said: list[Said] = [("note", 20.0, {"text": "lightgbm, fold 1", **fit})]
    assert judged(RUN, [*said, ("gpu", 400.0, {"utilization_percent": 0.0})]).rule != "stall"
