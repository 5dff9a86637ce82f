"""Does a fold end where it has learned what it will, and not before?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.state import Expectation, State
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.monitoring.verdict import followed
from tests.domain.monitoring.test_deadline import READING, RUN
from tests.watching import Said, events, judged

PLATEAU = [1.0, 0.8, 0.7, 0.72, 0.73, 0.74, 0.75, 0.76, 0.78]


def learning(losses: list[float], fold: int = 1) -> list[Said]:
    return [
        READING,
        *(
            (
                "epoch",
                20.0 * n,
                {"fold": fold, "epoch": n, "seconds": 20.0, "train_loss": 0.5, "valid_loss": x},
            )
            for n, x in enumerate(losses, 1)
        ),
    ]


def test_no_gain_for_longer_than_the_patience_ends_the_fold() -> None:
    """R16."""
    answer = judged(replace(RUN, epochs=30, minutes=60.0), learning(PLATEAU))
    assert (answer.action, answer.rule, answer.set) == ("reduce_epochs", "R16", {"epochs": 9})


def test_in_the_last_fold_it_ends_training() -> None:
    answer = judged(replace(RUN, epochs=30, folds=1, minutes=60.0), learning(PLATEAU))
    assert (answer.action, answer.rule) == ("stop_and_predict", "R16")
    assert answer.set["best_epoch"] == 3


@pytest.mark.parametrize(("patience", "action"), [(3, "reduce_epochs"), (8, "continue")])
def test_the_plan_s_patience_counts(patience: int, action: str) -> None:
    answer = judged(
        replace(RUN, epochs=30, minutes=60.0), learning(PLATEAU[:7]), Expectation(patience=patience)
    )
    assert answer.action == action


@pytest.mark.parametrize(("more", "taken"), [(1, "yes"), (3, "no")])
def test_a_short_run_that_trained_on_did_not_follow_advice_to_stop(more: int, taken: str) -> None:
    """It ended within two minutes all the same."""
    said = learning([*PLATEAU, *[0.8] * more])
    facts = replace(RUN, epochs=30, folds=1, minutes=60.0, status="finished")
    state = State(facts, add_events(Summary(), events(said)), Expectation())
    advice = judged(replace(facts, status="running"), learning(PLATEAU))
    assert followed(advice.at_seconds, advice.as_dict(), state) == taken


def test_still_learning_goes_on() -> None:
    answer = judged(replace(RUN, epochs=30, minutes=60.0), learning([1.0 / n for n in range(1, 15)]))
    assert answer.action == "continue"


@pytest.mark.parametrize(
    ("direction", "action"), [("max", "reduce_epochs"), ("min", "continue"), (None, "continue")]
)
def test_a_metric_counts_when_its_way_is_known(direction: str | None, action: str) -> None:
    said: list[Said] = [READING]
    said += [
        ("epoch", 20.0 * n, {"epoch": n, "seconds": 20.0, "train_loss": 0.5, "metric": 0.9 - 0.01 * n})
        for n in range(1, 10)
    ]
    facts = replace(RUN, epochs=30, minutes=60.0, metric_direction=direction)
    assert judged(facts, said).action == action


def test_a_fold_past_its_best_ends_before_anything_is_cut_that_would_still_help() -> None:
    """Ending it now brings 3 x 30 epochs of 30 s in time: no epoch that learns and no fold is lost."""
    facts = replace(RUN, epochs=30, minutes=30.0)
    said = [(kind, 1.5 * at, {**fields, "seconds": 30.0}) for kind, at, fields in learning(PLATEAU)]
    answer = judged(facts, said)
    assert (answer.action, answer.rule, answer.set) == ("reduce_epochs", "R16", {"epochs": 9})
    assert any("cannot finish" in note for note in answer.notes)
    shorter = judged(replace(facts, minutes=12.0), said)
    assert shorter.rule == "R13", "where that is not enough, what is enough is told"
