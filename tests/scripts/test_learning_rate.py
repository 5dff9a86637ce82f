"""Has the learning rate come down when training ends, however many epochs the time lasts for?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def nothing(_: Path) -> None:
    pass


@pytest.fixture
def script(opened: Open, monkeypatch: pytest.MonkeyPatch) -> object:
    """With 100 seconds left to train in, 20 of them kept back."""
    script = opened("text-regression", nothing)
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


def test_what_only_a_first_step_takes_costs_no_epochs(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an H200 an epoch of 10 s took 38 the first time; of 100 s six epochs of three steps need 47."""
    script = opened("text-regression", nothing, epochs=6, early_stopping_patience=6)
    module, clock, taken = script.module, {"now": 1000.0}, iter([30.0])
    module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock["now"])})
    module.START = 1000.0
    state = script.state
    state.minutes, state.train_minutes, state.reserve_minutes = 100 / 60, 80 / 60, 15 / 60
    batch_loss, rates = script.plan.batch_loss, []

    def step(model: torch.nn.Module, *rest: object) -> object:
        clock["now"] += next(taken, 1.0)
        return batch_loss(model, *rest)

    def learning_rate(done: float, epochs: float) -> float:
        rates.append((done, epochs))
        return 1e-3

    script.plan.batch_loss, module.learning_rate = step, learning_rate
    state.out_dir.mkdir()
    data = script.read_data()
    rows = np.arange(len(data.targets))
    script.train_fold(1, data, rows[:24], rows[24:], None)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if "Val_loss" in line] == [
        f"Epoch {number}/6" for number in range(1, 7)
    ]
    assert {epochs for _, epochs in rates} == {6}
