"""Does a script whose minutes are cut to half of what it needs stop by itself and send what it has?"""

from __future__ import annotations

import pytest

from memory_service.domain.logs.parser import read_log
from tests.scripts.kinds import KINDS, TREES
from tests.scripts.workshop import Workshop

GRACE_SECONDS = 60.0
"""Of a busy machine. What the script skipped is told by its log, whatever the clock says."""

STALLS = 3
"""A machine that stands still for a tenth of a second leaves no time to save a fold: the script
ends with what is there, and is cut once more."""

EPOCHS, ROUNDS, CATBOOST_ROUNDS = 8, 1500, 400
"""Half of their time is several times what a script takes to start; CatBoost's rounds are the slow ones."""


def planned(name: str) -> int:
    if name not in TREES:
        return EPOCHS
    return CATBOOST_ROUNDS if name.endswith("catboost") else ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_with_half_of_the_minutes_that_it_needs_a_script_stops_and_predicts(
    workshop: Workshop, name: str
) -> None:
    epochs = planned(name)
    trial = workshop.trial(name, size=KINDS[name].few, epochs=epochs, early_stopping_patience=epochs)
    needed = trial.train()
    assert needed.status == 0, needed.log
    seconds = needed.seconds / 2
    trial.own["MINUTES"] = str(seconds / 60)
    for _ in range(STALLS + 1):
        trial.anew()
        cut = trial.train()
        assert cut.status == 0, cut.log
        assert cut.seconds < seconds + GRACE_SECONDS, cut.log
        assert trial.cells()
        if "the budget is over" not in cut.log:
            break  # it stopped by itself
    done, all_of_them = (
        sum(told.kind == "epoch" for told in read_log(ended.log, final=True).events)
        for ended in (cut, needed)
    )
    in_time = cut.seconds < seconds or seconds < 1  # the machine was three times as fast, or trees take none
    assert done < all_of_them or in_time, f"of {needed.seconds:.1f} s {seconds:.1f} were given\n{cut.log}"
    assert trial.checkpoints() or not done, cut.log


def test_with_no_minutes_at_all_the_baseline_is_the_submission(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification", own={"MINUTES": "0.0001"})
    cut = trial.train()
    assert cut.status == 0, cut.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1
    assert not trial.checkpoints()
