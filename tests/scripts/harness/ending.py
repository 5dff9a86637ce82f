"""What is true of every script that has ended as it should."""

from __future__ import annotations

import numpy as np

from memory_service.domain.logs.parser import Reading, read_log
from tests.scripts.harness.runner import Ended
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, rows_of

__all__ = ["ends_whole", "says_what_it_does"]


def says_what_it_does(trial: Trial, ended: Ended) -> Reading:
    """What the service reads from its log: each fold and epoch; no line of progress is unread."""
    reading = read_log(ended.log, final=True)
    assert not [line for line in reading.unrecognized if line.startswith(("Epoch", "=== Fold", "RESOURCES"))]
    folds = {told.fields.get("fold") for told in reading.events if told.kind == "epoch"}
    assert len(folds) == trial.plan["folds"], ended.log
    return reading


def answers_every_row(trial: Trial) -> None:
    """Its out-of-fold answers are those of every training row, in their order; of masks, boxes and matches
    there are other files."""
    if trial.data.form in ("masks", "boxes", "matches", "words", "texts") or trial.plan["folds"] < 2:
        return
    head, *rows = rows_of(trial.out / "oof.csv")
    train = rows_of(trial.data.folder / "train.csv")
    assert [row[0] for row in rows] == [row[0] for row in train[1:]]
    answers = [place for place, column in enumerate(head) if column.startswith("p_")]
    truths = [row[1 : answers[0]] for row in rows]
    assert truths == [row[-len(truths[0]) :] for row in train[1:]] or trial.data.form in (
        "values",
        "points",
        "multilabel",
    )
    assert np.isfinite([[float(row[place]) for place in answers] for row in rows]).all()
    assert len(rows_of(trial.out / "test_predictions.csv")) == len(trial.data.ids) + 1


def ends_whole(trial: Trial, ended: Ended) -> float:
    """Its submission beats the best constant, by what is returned; it said what it did, and its checkpoints
    alone give the same answers."""
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log, ended.log
    found = gain(trial.data, trial.cells())
    assert found > 0, ended.log
    if trial.kind.minutes:  # of members: what they have predicted is blended again
        assert "BLEND: " in ended.log or "the budget is over" in ended.log, ended.log
        trial.submission.unlink()
        predicted = trial.predict()
        assert predicted.status == 0, predicted.log
        assert gain(trial.data, trial.cells()) > 0, predicted.log
        return found
    fitted = "All rows" in ended.log  # behind folds by time
    assert len(trial.checkpoints()) == trial.plan["folds"] + fitted, ended.log
    says_what_it_does(trial, ended)
    answers_every_row(trial)
    answered = trial.cells()
    for left in (trial.submission, *trial.out.glob("answers_*")):  # else no checkpoint is read again
        left.unlink()
    predicted = trial.predict()
    assert predicted.status == 0, predicted.log
    assert trial.cells() == answered, predicted.log
    return found
