"""Where the time ends while rows are predicted or validated, what was learned is not lost."""

from __future__ import annotations

from memory_service.domain.description.metric_resolution import resolve_metric
from tests.scripts.harness.workshop import Trial, Workshop

CUT = {
    "test": """
_fill, _asked = fill_predictions, []


def fill_predictions(model, loader, predictions, *rest):
    if len(rest) == 4:  # held-out rows
        return _fill(model, loader, predictions, *rest)
    _asked.append(1)  # the first time the clock leaves one batch, then none
    return _fill(model, list(loader)[: 2 - len(_asked)], predictions, *rest) and False
""",
    "validation": """
_validate, _tried = validate, []


def validate(*arguments):
    _tried.append(1)
    return None if len(_tried) == 1 else _validate(*arguments)
""",
}


def cut(trial: Trial, where: str) -> None:
    """As if the clock said so."""
    path = trial.folder / "train.py"
    own, main, rest = path.read_text().partition('\nif __name__ == "__main__":')
    assert main
    path.write_text(own + CUT[where] + main + rest)


def test_rows_that_were_predicted_in_time_are_submitted(workshop: Workshop) -> None:
    accuracy = resolve_metric("accuracy", "as asked", "image-classification").as_dict()
    more = {"epochs": 1, "batch_size": 2, "metric": accuracy}  # by log loss the constant is better so soon
    trial = workshop.short_trial("image-classification", folds=1, **more)
    cut(trial, "test")
    ended = trial.train()
    assert "no time to predict all rows with fold_1.pt" in ended.log, ended.log
    assert "Submission written from 1 folds" in ended.log
    told = list(trial.cells().values())
    assert 1 < max(map(told.count, told)) < len(told), "the others are the prior"


def test_an_epoch_whose_validation_does_not_fit_is_checked_on_fewer_rows(workshop: Workshop) -> None:
    trial = workshop.short_trial("image-classification", folds=1, epochs=2)
    cut(trial, "validation")
    ended = trial.train()
    assert "Epoch 1/2" in ended.log, ended.log
    assert trial.checkpoints() == ["fold_1.pt"]
    assert len({tuple(row) for row in trial.cells().values()}) > 1
