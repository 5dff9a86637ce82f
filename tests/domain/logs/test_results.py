"""Lines about a whole run, and lines that only look like scores."""

import pytest

from memory_service.domain.logs.parser import read_log


@pytest.mark.parametrize(
    "line", ["CV score: 0.8123", "OOF AUC: 0.8123", "Overall RMSE = 0.512", "mean cv 0.71"]
)
def test_a_score_of_all_folds_is_a_remark(line: str) -> None:
    ((event),) = read_log(f"Epoch 3/3 loss=0.5\n{line}\n").events[1:]
    assert (event.kind, event.fields["text"]) == ("note", line)


@pytest.mark.parametrize("line", ["submission.csv written", "Saved submission to out/submission.csv"])
def test_a_written_submission_is_noted(line: str) -> None:
    (event,) = read_log(f"{line}\n").events
    assert event.fields["submission"] is True


@pytest.mark.parametrize(
    "line",
    [
        "Validation loss decreased (0.51 --> 0.48).  Saving model ...",
        "Best val Acc: 0.94",
        "Loaded checkpoint resnet50_fold1_auc0.9123.pth",
        "Max accuracy: 74.13%",
        "Total parameters: 23512130",
    ],
)
def test_a_figure_told_again_is_no_score(line: str) -> None:
    events = read_log(f"Epoch 3/9\n{line}\n").events
    assert [
        event.kind for event in events if event.fields.get("metric") or event.fields.get("valid_loss")
    ] == []


def test_a_training_accuracy_is_never_the_metric() -> None:
    lines = "[Training] Epoch 2 : Loss: 0.3 - Acc : 0.91\n[Evaluation] Loss: 0.4 - Acc : 0.72\n"
    first, second = (event.fields for event in read_log(lines).events)
    assert "metric" not in first
    assert (second["epoch"], second["valid_loss"], second["metric"]) == (2, 0.4, 0.72)


def test_train_and_validation_seconds_are_an_epoch_together() -> None:
    lines = "Train. Epoch: 0, loss: 2.5, time: 1210.5\nVal. Epoch: 0, loss: 0.9, time: 184.2\n"
    _, second = (event.fields for event in read_log(lines).events)
    assert (second["seconds"], second["valid_seconds"]) == pytest.approx((1394.7, 184.2))
