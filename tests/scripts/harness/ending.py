"""What is true of every script that has ended as it should."""

from __future__ import annotations

from memory_service.domain.logs.parser import Reading, read_log
from tests.scripts.harness.runner import Ended
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial

__all__ = ["ends_whole", "says_what_it_does"]


def says_what_it_does(trial: Trial, ended: Ended) -> Reading:
    """What the service reads from its log: each fold and epoch; no line of progress is unread."""
    reading = read_log(ended.log, final=True)
    assert not [line for line in reading.unrecognized if line.startswith(("Epoch", "=== Fold", "RESOURCES"))]
    folds = {told.fields.get("fold") for told in reading.events if told.kind == "epoch"}
    assert len(folds) == trial.plan["folds"], ended.log
    return reading


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
    answered = trial.cells()
    for left in (trial.submission, *trial.out.glob("answers_*")):  # else no checkpoint is read again
        left.unlink()
    predicted = trial.predict()
    assert predicted.status == 0, predicted.log
    assert trial.cells() == answered, predicted.log
    return found
