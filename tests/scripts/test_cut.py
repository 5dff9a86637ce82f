"""Does a script whose minutes are cut to half of what it needs stop by itself and send what it has?"""

from __future__ import annotations

import pytest

from memory_service.domain.logs.parser import read_log
from tests.scripts.harness import faults
from tests.scripts.harness.data import Size
from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.workshop import Workshop

EPOCHS = {
    "image-classification": 8,
    "object-detection": 6,
    "text-classification-lora": 20,
    "tabular-classification-lightgbm": 2500,
    "tabular-regression-xgboost": 1000,
    "tabular-regression-catboost": 500,
}
"""Half of their time is several times what a script takes to start. All networks look at the clock in one
file, torch_loop.py; each library of trees has a look of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EPOCHS)
def test_with_half_of_the_minutes_that_it_needs_a_script_stops_and_predicts(
    workshop: Workshop, name: str
) -> None:
    """Minutes of the processor: on a busy machine they are as long as on a quiet one. One test sample is
    enough to be predicted."""
    epochs = EPOCHS[name]
    size = Size(KINDS[name].few.train, 1)
    trial = workshop.trial(name, size=size, epochs=epochs, early_stopping_patience=epochs)
    needed = trial.train(before=faults.PROCESSOR_CLOCK)
    assert needed.status == 0, needed.log
    trial.anew()
    trial.own["MINUTES"] = str(needed.cpu_seconds / 2 / 60)
    cut = trial.train(before=faults.PROCESSOR_CLOCK)
    assert cut.status == 0, cut.log
    assert cut.cpu_seconds < needed.cpu_seconds, cut.log
    assert len(trial.cells()) == 1
    done, all_of_them = (
        sum(told.kind == "epoch" for told in read_log(ended.log, final=True).events)
        for ended in (cut, needed)
    )
    assert done < all_of_them, f"of {needed.cpu_seconds:.1f} s half were given\n{cut.log}"
    assert trial.checkpoints(), cut.log


def test_with_no_minutes_at_all_the_baseline_is_the_submission(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification", own={"MINUTES": "0.0001"})
    cut = trial.train()
    assert cut.status == 0, cut.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1
    assert not trial.checkpoints()
