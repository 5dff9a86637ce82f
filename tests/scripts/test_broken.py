"""Does one file that cannot be read end a training? The log names it, and every test id has its answer."""

from __future__ import annotations

import pytest

from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.spoil import spoiler_of
from tests.scripts.harness.workshop import Workshop

SAID = {
    "image": ("0003.", "0005.", "0007", "0025."),
    "object": ("0003.", "0005.", "0025."),  # of one that is gone and has no boxes nobody knows
    "audio": ("0005.", "0007", "0025."),  # half a sound is one
    "text": ("train.csv", "line"),
    "tabular": ("train.csv", "line 9"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_data_that_cannot_be_read_cost_their_own_sample_only(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name, spoil=spoiler_of(name))
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    trial.cells()
    assert len(trial.checkpoints()) == trial.plan["folds"], ended.log
    for said in SAID[name.partition("-")[0]]:
        assert said in ended.log, ended.log
