"""Does a script learn the rows of a table that lie where its plan expected files?"""

from __future__ import annotations

from tests.scripts.harness import data
from tests.scripts.harness.data import Size
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop


def test_a_table_in_place_of_pictures_is_learned(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification", own={"MINUTES": "0.2"})
    trial.data = data.table_of_classes(trial.folder / "table", Size(240, 40))
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "WARNING: the plan was made for other data" in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
