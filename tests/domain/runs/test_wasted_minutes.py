"""What of a run counts as wasted, part by part, and never more than the run."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.monitoring.event import Event
from memory_service.domain.runs.run_outcome import Outcome, outcome_of
from memory_service.domain.runs.wasted_minutes import PARTS, Waste, waste_of


def _outcome(scores: list[float], seconds: float = 60.0, stall: float = 0.0, **fields: Any) -> Outcome:
    """Epochs of one fold, one after another; a stall behind the second."""
    told = []
    for n, score in enumerate(scores):
        at = (n + 1) * seconds + (stall if n > 1 else 0.0)
        values = {"epoch": n, "fold": 0, "seconds": seconds, "metric": score, **fields}
        told.append(Event(n, "epoch", at, values))
    return outcome_of(told, batch_size=32, n_train=1000, folds=1)


def _waste(outcome: Outcome, **changed: Any) -> Waste:
    asked = {"minutes": 30.0, "succeeded": True, "direction": "max", "epoch_seconds_high": None}
    return waste_of(outcome, **{**asked, **changed})


def test_a_run_without_a_submission_is_wasted_whole_and_on_nothing_else() -> None:
    waste = _waste(_outcome([0.5, 0.4], loader_wait_percent=50.0), succeeded=False)
    assert (waste.minutes, waste.most, waste.parts) == (30.0, "no_submission", {"no_submission": 30.0})


def test_epochs_after_the_best_one_count_in_the_direction_of_the_metric() -> None:
    falling = _outcome([0.9, 0.8, 0.7, 0.6])
    assert _waste(falling).parts == {"after_best": 3.0}
    assert _waste(falling, direction="min").parts == {}
    losses = _outcome([0.9] * 4, valid_loss=0.4)
    assert _waste(losses, direction=None).parts == {"after_best": 3.0}, (
        "the first of equal losses is the best"
    )


def test_a_pause_over_two_minutes_and_three_times_the_usual_is_a_stall() -> None:
    rising = [0.5, 0.6, 0.7, 0.8]
    assert _waste(_outcome(rising, stall=600.0)).parts == {"stalled": 10.0}
    assert _waste(_outcome(rising, stall=50.0)).parts == {}
    assert _waste(_outcome(rising, seconds=400.0, stall=500.0), minutes=60.0).parts == {}, (
        "epochs are as long"
    )


def test_waiting_slowness_and_an_idle_card_are_told_apart() -> None:
    rising = [0.5, 0.6, 0.7, 0.8]
    assert _waste(_outcome(rising, loader_wait_percent=25.0)).parts == {"loader": 1.0}
    slow = _waste(_outcome(rising, loader_wait_percent=25.0), epoch_seconds_high=30.0)
    assert slow.parts == {"loader": 1.0, "slow": 1.0}
    samples = [Event(100 + n, "gpu", 60.0 * n, {"utilization_percent": 50.0}) for n in range(4)]
    epochs = [
        Event(n, "epoch", 60.0 * n, {"epoch": n, "seconds": 60.0, "loader_wait_percent": 25.0, "metric": n})
        for n in range(4)
    ]
    idle = _waste(outcome_of([*epochs, *samples], batch_size=32, n_train=1000, folds=1))
    assert idle.parts == {"loader": 1.0, "idle": 1.0}


@given(
    st.lists(st.floats(-1, 1), max_size=8), st.floats(0.1, 500), st.floats(0, 2_000), st.floats(0, 100),
    st.floats(0, 40), st.floats(1, 400),
)  # fmt: skip
def test_parts_are_never_more_than_the_run(
    scores: list[float], seconds: float, stall: float, wait: float, minutes: float, high: float
) -> None:
    outcome = _outcome(scores, seconds, stall, loader_wait_percent=wait)
    waste = _waste(outcome, minutes=minutes, epoch_seconds_high=high)
    assert waste.minutes <= minutes + 0.01
    assert set(waste.parts) <= set(PARTS)
    assert all(part > 0.0 for part in waste.parts.values())
