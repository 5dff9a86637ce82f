"""Is nothing torn where a script is killed at each file that it puts in place, with half of it written and
right after?"""

from __future__ import annotations

import pytest

from tests.scripts import faults
from tests.scripts.kinds import TREES
from tests.scripts.test_killed import check_what_is_left
from tests.scripts.workshop import Workshop

WRITES = (
    ("submission", 1, 0),
    ("fold_1", 1, 1),
    ("submission", 2, 1),
    ("fold_2", 1, 2),
    ("submission", 3, 1),
)
"""A file as it is put in place, which time, and how many folds are there then at least."""

SAVED = ("image-classification", *(name for name in TREES if name.startswith("tabular-classification")))
"""One of those that save in the same way."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_killed_while_it_writes_nothing_is_torn(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name)
    for prefix, number, folds in WRITES:
        for fault in (faults.cut_in_replace, faults.kill_after_replace):
            trial.anew()
            killed = trial.train(before=fault(number, prefix))
            assert killed.status == -9, f"{prefix} is not written aside and put in place\n{killed.log}"
            torn = fault is faults.cut_in_replace and prefix.startswith("fold")
            assert len(trial.checkpoints()) >= folds - torn
            check_what_is_left(trial, killed.log)
