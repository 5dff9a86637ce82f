"""Does a script learn tables of another form than its plan expected?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from tests.scripts.harness import data
from tests.scripts.harness.data import Size
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows


def test_a_table_in_place_of_pictures_is_learned(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification", own={"MINUTES": "0.2"})
    trial.data = data.table_of_classes(trial.folder / "table", Size(240, 40))
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "WARNING: the plan was made for other data" in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log


def test_quantiles_of_hours_are_submitted_where_the_plan_knew_of_values_alone(workshop: Workshop) -> None:
    """Hours with the day before the month are ids and inputs; each value has three columns in the sample."""
    trial = workshop.trial("tabular-regression-members", own={"MINUTES": "0.2"})
    rng, begin, folder = np.random.default_rng(5), datetime(2026, 1, 1, tzinfo=UTC), trial.folder / "hours"
    rows = []
    for hour in range(24 * 60):
        heat = rng.normal()
        load = 40 + 9 * np.sin(hour / 24 * 2 * np.pi) + 4 * heat + rng.normal()
        rows.append([f"{begin + timedelta(hours=hour):%d/%m/%Y %H:%M}", f"{heat:.3f}", f"{load:.3f}"])
    names, levels = ["moment", "heat", "load"], ["q0.1", "q0.5", "q0.9"]
    folder.mkdir()
    write_rows(folder / "train.csv", [names, *rows[: 24 * 50]])
    write_rows(folder / "test.csv", [names[:2], *(row[:2] for row in rows[24 * 50 :])])
    write_rows(
        folder / "sample_submission.csv",
        [["moment", *levels], *([row[0], *"000"] for row in rows[24 * 50 :])],
    )
    trial.data = replace(trial.data, folder=folder)
    ended = trial.train()
    assert ended.status == 0, ended.log
    written = rows_of(trial.submission)
    assert written[0] == ["moment", *levels]
    low, middle, high = np.array([row[1:] for row in written[1:]], float).T
    truth = np.array([row[2] for row in rows[24 * 50 :]], float)
    assert (low < high).mean() > 0.95, ended.log
    assert abs(truth - middle).mean() < 0.5 * abs(truth - truth.mean()).mean(), ended.log
