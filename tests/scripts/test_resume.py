"""Does a new start go on where the last one was cut off, and leave alone what is of other settings?"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, Workshop
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

KINDS = ("image-segmentation", "object-detection")
"""The other tests here train a text."""


def edited(trial: Trial, before: str, after: str) -> None:
    path = trial.folder / "train.py"
    text, times = re.subn(before, after, path.read_text())
    assert times == 1
    path.write_text(text)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", KINDS)
def test_folds_that_are_done_are_not_trained_again(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name, folds=3)
    killed = trial.train(kill_when=(trial.out / "answers_1.npz").exists)
    assert killed.status == -9, killed.log
    first = content(trial.out)
    [checkpoint] = [file for file in first if file.startswith("fold_1.") and not file.endswith("tmp")]
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Fold 1 is done already" in ended.log
    assert "=== Fold 1" not in ended.log
    assert (trial.out / checkpoint).read_bytes() == first[checkpoint]
    assert len(trial.checkpoints()) == 3
    assert trial.cells()
    submitted = trial.cells()
    (trial.out / "submission.csv").unlink()
    again = trial.train()
    assert again.status == 0, again.log
    assert "=== Fold" not in again.log
    assert trial.cells() == submitted, "what is gone is written again"
    (trial.out / checkpoint).unlink()
    assert "=== Fold 1" in trial.train().log, "answers alone are no fold"


def test_a_fold_goes_on_behind_its_last_epoch(workshop: Workshop) -> None:
    trial = workshop.short_trial("text-regression", folds=1, epochs=12, early_stopping_patience=12)
    edited(trial, r"SECONDS_BETWEEN_SAVES = \d+", "SECONDS_BETWEEN_SAVES = 0")
    log = trial.folder / "log.txt"
    killed = trial.train(kill_when=lambda: log.exists() and b"Epoch 5/12" in log.read_bytes())
    assert killed.status == -9, killed.log
    ended = trial.train()
    assert ended.status == 0, ended.log
    went_on = re.search(r"Going on behind epoch (\d+) of fold 1", ended.log)
    assert went_on, ended.log
    assert int(went_on[1]) >= 4
    told = [int(epoch) for epoch in re.findall(r"Epoch (\d+)/12", ended.log)]
    assert told == list(range(int(went_on[1]) + 1, 13))
    assert gain(trial.data, trial.cells()) > 0, ended.log


@pytest.mark.parametrize("whole", [True, False])
def test_a_better_epoch_of_an_earlier_start_is_kept(workshop: Workshop, whole: bool) -> None:
    """Killed before last.pt was written, or after a better epoch than it knows of. One that the time cut was
    checked on a few rows only, which says less."""
    trial = workshop.short_trial("text-regression", folds=1, epochs=3)
    edited(trial, r"SECONDS_BETWEEN_SAVES = \d+", "SECONDS_BETWEEN_SAVES = 1000")
    killed = trial.train(kill_when=(trial.out / "fold_1.pt").exists)
    assert killed.status == -9, killed.log
    kept = torch.load(trial.out / "fold_1.pt", weights_only=True)
    kept["score"] = kept["best"]["score"] = 0.0  # nothing is better
    kept["best"]["checked"] -= not whole
    torch.save(kept, trial.out / "fold_1.pt")
    ended = trial.train()
    assert ended.status == 0, ended.log
    if not whole:
        assert torch.load(trial.out / "fold_1.pt", weights_only=True)["score"] > 0.0
        return
    assert torch.load(trial.out / "fold_1.pt", weights_only=True)["score"] == 0.0
    with np.load(trial.out / "answers_1.npz") as answers:
        assert answers["score"] == 0.0
        assert np.array_equal(answers["valid"], kept["best"]["valid"].numpy())


def test_folds_with_fewer_epochs_than_planned_are_trained_again_where_there_is_more_time(
    workshop: Workshop,
) -> None:
    """Behind those that are missing; with no more time than they had they stay as they are."""
    trial = workshop.short_trial("text-regression", folds=2, epochs=6, early_stopping_patience=6)
    edited(trial, r"epoch \+ int\(state.seconds_left\(\) / lasts\)", 'int(os.environ["FITTING"])')
    trial.own["FITTING"] = "2"
    assert trial.train().log.count("Epoch 2/2") == 2
    (trial.out / "answers_2.npz").unlink()
    (trial.out / "fold_2.pt").unlink()
    answers = dict(np.load(trial.out / "answers_1.npz"))
    assert not answers["done"]
    np.savez(trial.out / "answers_1.npz", **(answers | {"seconds": 1e9}))
    before = (trial.out / "fold_1.pt").read_bytes()
    as_long = trial.train()
    assert "=== Fold 2" in as_long.log, as_long.log
    assert "no time for fold 1 but what it had" in as_long.log
    assert (trial.out / "fold_1.pt").read_bytes() == before
    np.savez(trial.out / "answers_1.npz", **answers)
    trial.own["FITTING"] = "99"
    longer = trial.train()
    assert longer.log.count("Epoch 6/6") == 2, longer.log
    assert re.findall(r"Fold \d is done already", trial.train().log) == [
        "Fold 1 is done already", "Fold 2 is done already",
    ]  # fmt: skip


def test_of_other_settings_nothing_is_touched(workshop: Workshop) -> None:
    trial = workshop.short_trial("text-regression")
    assert trial.train().status == 0
    before = content(trial.out)
    edited(trial, r"\nSEED = 42", "\nSEED = 43")
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "SEED" in ended.log
    assert "fold_1." in ended.log.partition("not touched")[2]
    assert content(trial.out) == before
    other = trial.out.with_name("out-2")
    assert f"this run writes to {other}" in ended.log
    assert (other / "submission.csv").exists()
    again = trial.train()
    assert "Fold 1 is done already" in again.log
    assert not trial.out.with_name("out-3").exists()
    submitted = (other / "submission.csv").read_bytes()
    (other / "submission.csv").unlink()
    assert trial.predict().status == 0
    assert (other / "submission.csv").read_bytes() == submitted, "predict finds the run of these settings"
    assert content(trial.out) == before


def test_a_run_beside_its_data_goes_on(workshop: Workshop, tmp_path: Path) -> None:
    trial = workshop.short_trial("text-regression")
    here = str(shutil.copytree(trial.data.folder, tmp_path / "data"))
    environment = {**trial.environment, "DATA_DIR": here, "OUT_DIR": here}
    assert trial.forks.run(trial.folder, environment=environment).status == 0
    assert "Fold 1 is done already" in trial.forks.run(trial.folder, environment=environment).log


def test_of_other_tables_nothing_is_touched(workshop: Workshop, tmp_path: Path) -> None:
    trial = workshop.short_trial("text-regression")
    copied = {**trial.environment, "DATA_DIR": str(shutil.copytree(trial.data.folder, tmp_path / "data"))}
    assert trial.forks.run(trial.folder, environment=copied).status == 0
    before, table = content(trial.out), tmp_path / "data" / "train.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    ended = trial.forks.run(trial.folder, environment=copied)
    assert "other settings (the tables)" in ended.log
    assert "Fold 1 is done already" not in ended.log
    assert content(trial.out) == before


@pytest.mark.parametrize("changed", ["ids", "inputs"])
def test_of_another_test_set_the_same_folds_are_asked_again(
    opened: Open, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    script = opened("text-regression", lambda _: None)
    data, other = script.read_data(), script.read_data()
    asked: list[None] = []
    script.state.out_dir.mkdir()

    def predicted(*_: object) -> dict[str, object]:
        asked.append(None)
        return {"test": np.full((len(other.test_ids), 1), 2.0), "complete": True}

    script.plan.predict_fold, out = predicted, script.state.out_dir
    (out / script.CHECKPOINT.format(1)).touch()
    script.module.write_out_of_fold = lambda _: None
    result = {"score": 0.5, "constant": 1.0, "done": True, "rows": np.arange(2), "valid": np.ones((2, 1))}
    script.finish_fold(1, data, result, None)
    script.predict(data, None)
    assert len(asked) == 1
    if changed == "ids":
        other.test_ids, other.test_inputs = other.test_ids[1:], other.test_inputs[1:]
    else:
        other.test_inputs = other.test_inputs[::-1]
    other.sample = None
    for _ in range(2):
        script.predict(other, None)
    assert len(asked) == 2, "once: the new answers are kept"
    assert script.load_result(1)["done"], "the fold is done as before"
    assert len((out / "submission.csv").read_text().splitlines()) == 1 + len(other.test_ids)
    assert "fold_1.pt predicts again: its answers are of another test set" in capsys.readouterr().out


def test_within_an_epoch_a_new_start_and_a_smaller_batch_go_on_with_the_rest(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("text-regression", lambda _: None, epochs=1)
    script.module.SECONDS_WITHIN, learn = 0, script.plan.batch_loss
    save, data = script.save_checkpoint, script.read_data()
    batches: list[list[int]] = []
    script.state.out_dir.mkdir()
    rows = np.arange(len(data.targets))
    errors = {4: KeyboardInterrupt(), 6: RuntimeError("CUDA out of memory")}

    def failing(model: object, inputs: object, chosen: torch.Tensor, *more: object) -> object:
        batches.append(chosen.tolist())
        if len(batches) in errors:
            raise errors[len(batches)]
        return learn(model, inputs, chosen, *more)

    def saved_at_once(*given: object) -> None:
        save(*given)
        script.state.save_seconds = 0.0

    script.module.plan.batch_loss, script.module.save_checkpoint = failing, saved_at_once
    with pytest.raises(KeyboardInterrupt):
        script.train_fold(1, data, rows[:56], rows[56:], None)
    assert script.train_fold(1, data, rows[:56], rows[56:], None)["done"]
    assert "Going on behind epoch 0 of fold 1 and 43% of the next" in capsys.readouterr().out
    assert [len(each) for each in batches] == [8] * 6 + [4] * 6, "3 of 7, 1 of them, 6 of 14"
    assert set(batches[4]) != set(batches[0]), "the order is another one"


def test_stopped_within_a_first_epoch_what_it_learned_is_kept_and_nan_ends_it_within_50_steps(
    opened: Open,
) -> None:
    script = opened("text-regression", lambda _: None, epochs=1, batch_size=1)
    data, learn = script.read_data(), script.plan.batch_loss
    steps: list[None] = []
    stops = True
    script.state.out_dir.mkdir()
    rows = np.arange(len(data.targets))

    def stopping(*given: object) -> Any:
        steps.append(None)
        script.state.stop = stops
        return learn(*given)

    script.module.plan.batch_loss = stopping
    result = script.train_fold(1, data, rows[:56], rows[56:], None)
    assert result["checked"] == 40
    assert not result["done"]
    assert torch.load(script.state.out_dir / "fold_1.pt", weights_only=True)["model"]
    steps.clear()
    assert script.train_fold(2, data, rows[:56], rows[56:], None) is None, "the first is there already"
    script.state.stop = stops = False
    script.module.plan.batch_loss = lambda *given: math.nan * stopping(*given)
    steps.clear()
    assert script.train_fold(2, data, rows[:56], rows[56:], None) is None
    assert len(steps) == 50


def test_predict_finds_the_run_of_the_same_script_whose_test_rows_were_others(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("text-regression", lambda _: None)
    own = script.own_settings()
    for name, settings in (("out", {**own, "SEED": 1, "EPOCHS": 1}), ("out-2", own)):
        folder = script.OUT_DIR.with_name(name)
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(settings))
    (script.DATA_DIR / "test.csv").write_text("id\n")
    assert script.folder_of_run().name == "out-2"
    assert "out-2 is of other settings (the tables)" in capsys.readouterr().out
