"""Is the time of an epoch taken from when its lines came, only where that means something?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from memory_service.client.log_follower import LogReader
from memory_service.client.run import Run


class Kept(Run):
    """A run that keeps its events."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.kept: list[Mapping[str, Any]] = []

    def event(self, kind: str, fields: Mapping[str, Any], at: float | None = None) -> None:
        self.kept.append(fields)


def seconds_of(*lines: tuple[float, str]) -> list[float | None]:
    """What the epochs are said to have taken, by moments and lines."""
    run = Kept()
    reader = LogReader(run)
    for moment, line in lines:
        reader.read(f"{line}\n".encode(), at=partial(_same, moment))
    return [fields.get("seconds") for fields in run.kept if "epoch" in fields]


def _same(moment: float, _: float | None) -> float:
    return moment


def test_an_epoch_without_a_time_took_as_long_as_its_line_came_after_the_one_before() -> None:
    lines = [(100.0 + 30.0 * n, f"Epoch {n}/9 loss=0.5") for n in range(1, 4)]
    assert seconds_of(*lines) == [None, 30.0, 30.0]


def test_a_time_in_the_line_goes_before_the_distance() -> None:
    assert seconds_of((100.0, "Epoch 1/9 loss=0.5"), (130.0, "Epoch 2/9 loss=0.5 time: 21s")) == [None, 21.0]


def test_lines_that_came_at_once_say_nothing_of_the_time_between_them() -> None:
    lines = [(100.0, f"Epoch {n}/9 loss=0.5") for n in (1, 2, 3)] + [(190.0, "Epoch 4/9 loss=0.5")]
    assert seconds_of(*lines) == [None, None, None, None]


def test_a_fold_that_begins_anew_and_an_epoch_left_out_have_no_distance() -> None:
    lines = [(100.0, "Fold 1 Epoch 1/2 loss=0.5"), (130.0, "Fold 1 Epoch 2/2 loss=0.5")]
    lines += [(190.0, "Fold 2 Epoch 1/2 loss=0.5"), (260.0, "Fold 2 Epoch 3/2 loss=0.5")]
    assert seconds_of(*lines) == [None, 30.0, None, None]


def test_two_lines_of_one_epoch_are_one_epoch() -> None:
    lines = [(100.0, "Epoch 1/9 loss=0.5"), (130.0, "Epoch 2/9 loss=0.5"), (131.5, "Epoch 2/9 val_loss=0.4")]
    assert seconds_of(*lines, (160.0, "Epoch 3/9 loss=0.4")) == [None, 30.0, None, 30.0]
