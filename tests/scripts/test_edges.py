"""Do scripts end well where data, memory or what is left of a run are unusual, or files cannot be read?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.script_choice import NoScript
from tests.scripts.harness import faults
from tests.scripts.harness.data import Size
from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.spoil import spoiler_of
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import opened

__all__ = ["opened"]

NETWORKS = ("image-classification", "image-segmentation")
CLASSIFIERS = tuple(name for name in KINDS if name.startswith(("tabular-classification", "image-class")))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_last_batch_of_one_sample_teaches_no_nan(workshop: Workshop, name: str) -> None:
    trial = workshop.trial(name, size=Size(train=34, test=9), batch_size=8)  # two halves of 17: 8 + 8 + 1
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "nan" not in ended.log.lower()
    trial.cells()


def rare(folder: Path) -> None:
    """Of the last label two samples are left, of the one before one."""
    rows = rows_of(folder / "train.csv")
    labels = sorted({row[-1] for row in rows[1:]})
    left = {labels[-1]: 2, labels[-2]: 1}
    kept = [rows[0]]
    for row in rows[1:]:
        if left.get(row[-1], 1) > 0:
            kept.append(row)
            left[row[-1]] = left.get(row[-1], 10**6) - 1
    write_rows(folder / "train.csv", kept)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_with_one_and_two_samples_stay_classes(workshop: Workshop, name: str) -> None:
    own = {"MINUTES": "0.2"} if name.endswith("-members") else {}
    trial = workshop.trial(name, spoil=rare, own=own, folds=3)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    trial.cells()
    assert trial.checkpoints() or name.endswith("-members"), ended.log


@pytest.mark.parametrize("name", ["image-classification", "text-regression"])
def test_out_of_memory_halves_the_batch_and_doubles_accumulation(workshop: Workshop, name: str) -> None:
    """The GPU is faked: the error is the allocator's, raised by every layer that gets over 3 samples."""
    trial = workshop.trial(name, batch_size=8)
    ended = trial.train(before=faults.out_of_memory_over(3))
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0
    assert len(trial.checkpoints()) == trial.plan["folds"]
    assert "Traceback" not in ended.log


def test_checkpoints_that_cannot_be_read_are_left_out_and_named(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification")
    assert trial.train().status == 0
    torn, whole = trial.checkpoints()
    for answers in trial.out.glob("answers_*"):  # else no checkpoint is read again
        answers.unlink()
    (trial.out / torn).write_bytes((trial.out / torn).read_bytes()[:1000])
    ended = trial.predict()
    assert ended.status == 0, ended.log
    assert torn in ended.log
    assert gain(trial.data, trial.cells()) > 0
    (trial.out / whole).write_bytes(b"")
    trial.submission.unlink()
    ended = trial.predict()
    assert ended.status == 0, ended.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1


def test_help_trains_nothing_and_a_word_that_is_not_known_is_refused(workshop: Workshop) -> None:
    trial = workshop.trial("text-regression")
    told = trial.forks.run(trial.folder, "--help", environment=trial.environment)
    assert told.status == 0
    for word in ("MINUTES", "--deadline", "OUT_DIR", "predict", "--run N"):
        assert word in told.log
    for word in ("--epochs=3", "predikt", "--dead=2030-01-01"):
        refused = trial.forks.run(trial.folder, word, environment=trial.environment)
        assert refused.status == 2
        assert word.partition("=")[0] in refused.log.splitlines()[-1], refused.log
    assert not trial.out.exists()


def test_a_network_of_no_library_ends_in_a_submission_too(workshop: Workshop) -> None:
    own = {"name": "unet-small", "library": "torch", "image_size": 32, "pretrained": False}
    trial = workshop.trial("image-segmentation", model=own, epochs=2, folds=1)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert len(trial.checkpoints()) == 1, ended.log
    trial.cells()
    with pytest.raises(NoScript, match="unet, unet-small, models of smp"):
        plan_script({**trial.plan, "model": own | {"name": "nnunet-2d"}})


UNREAD = "1 of 6 test files cannot be read (0025."
SAID = {
    "image": ("0003.", "0005.", "0007", "0025.", UNREAD),
    "object": ("0003.", "0005.", "0025.", UNREAD),  # of one that is gone and has no boxes nobody knows
    "audio": ("0005.", "0007", "0025.", UNREAD),  # half a sound is one
    "text": ("train.csv", "line"),
    "tabular": ("train.csv", "line 9"),
}


READING = (
    "image-classification",
    "image-segmentation",
    "object-detection",
    "text-classification",
    "audio-classification",
    "tabular-regression-members",
)
"""Each way to read data: tables are read by the same lines of all scripts, and encoded by others."""


@pytest.mark.slow
@pytest.mark.parametrize("name", READING)
def test_data_that_cannot_be_read_cost_their_own_sample_only(workshop: Workshop, name: str) -> None:
    more: dict[str, Any] = {"epochs": 6} if name.startswith("audio") else {}  # in two it learns nothing
    if name.endswith("-members"):
        more["own"] = {"MINUTES": "0.2"}
    trial = workshop.short_trial(name, spoil=spoiler_of(name), **more)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    trial.cells()
    assert name.endswith("-members") or len(trial.checkpoints()) == trial.plan["folds"], ended.log
    for said in SAID[name.partition("-")[0]]:
        assert said in ended.log, ended.log
