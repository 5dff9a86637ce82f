"""Has the learning rate come down when training ends, however many epochs the time lasts for?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def nothing(_: Path) -> None:
    pass


@pytest.fixture
def script(opened: Open, monkeypatch: pytest.MonkeyPatch) -> object:
    """With 100 seconds left to train in, 20 of them kept back."""
    script = opened("tabular-regression-network", nothing)
    state = type(script.state)
    monkeypatch.setattr(state, "seconds_left", lambda self: 80.0)
    monkeypatch.setattr(state, "elapsed", lambda self: 0.0)
    script.state.minutes, script.state.reserve_minutes = 100 / 60, 20 / 60
    script.plan.WARMUP_EPOCHS = 1
    return script


@pytest.mark.parametrize(
    ("seconds", "lasting"), [(1.0, 9), (8.0, 2), (15.0, 1), (40.0, pytest.approx(0.2 * (1 + 80 / 44)))]
)
def test_the_epochs_that_fit_are_told_by_what_a_share_of_the_first_took(script, seconds, lasting) -> None:
    """A fifth of it; the plan has nine."""
    assert script.fitting_epochs(9, 0.2, seconds) == lasting


@pytest.mark.parametrize("epochs", [0.3, 1, 2, 9])
def test_it_rises_for_a_while_and_ends_at_zero(script, epochs: float) -> None:
    rates = [script.learning_rate(epochs * step / 200, epochs) for step in range(201)]
    peak = rates.index(max(rates))
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)
    assert 0 < peak <= 100
    assert max(rates) == pytest.approx(script.plan.LEARNING_RATE, rel=1e-3)
