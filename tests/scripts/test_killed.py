"""Is there a valid submission whenever the script is killed, and `python train.py predict` follows?

Real SIGKILLs to the whole process group, loaders' workers included: at random moments spread over what a
whole run takes, and at each file that it puts in place, once with half of it written and once right after.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
import zlib

import pytest

from tests.scripts import faults
from tests.scripts.kinds import KINDS, TREES
from tests.scripts.runner import Ended
from tests.scripts.workshop import Trial, Workshop

KILLS = int(os.environ.get("KILLS", "20"))

SEED = int(os.environ.get("SEED", "6"))
"""`SEED=7 KILLS=100` are other moments, and more."""

WRITES = (
    ("submission", 1, 0),
    ("fold_1", 1, 1),
    ("submission", 2, 1),
    ("fold_2", 1, 2),
    ("submission", 3, 1),
)
"""A file as it is put in place, which time, and how many folds are there then at least."""

SAVED = ("image-classification", *(name for name in TREES if name.startswith("tabular-classification")))
"""One of those that save in the same way."""


def moments(name: str, whole: Ended) -> list[tuple[int, float]]:
    """One in each of `KILLS` equal parts of a run: bytes of its log, which a busy machine does not move, and
    seconds after them, so that it is not always killed where it prints."""
    rng = random.Random(SEED + zlib.crc32(name.encode()))
    logged, pause = len(whole.log.encode()), whole.seconds / KILLS
    return [(int(logged * (k + rng.random()) / KILLS), pause * rng.random()) for k in range(KILLS)]


def contents(trial: Trial) -> str:
    """Of all files of the output, by name and bytes."""
    files = sorted(path for path in trial.out.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()


def check_what_is_left(trial: Trial, killed: Ended) -> None:
    """What lies there is whole; `predict` makes a valid submission of it, and uses the folds that exist."""
    if trial.submission.exists():
        cells = trial.cells()
        if (trial.out / "oof.csv").exists() and trial.data.form not in ("labels", "masks"):
            constant = len({tuple(row) for row in cells.values()}) == 1
            assert not constant or "left out" in killed.log, "a fold is over: its answers are written"
    left = contents(trial)
    if left in trial.seen:
        return  # of the same bytes `predict` has made a valid submission already
    folds = trial.checkpoints()
    before = {name: (trial.out / name).read_bytes() for name in folds}
    predicted = trial.predict()
    story = f"killed with {folds}\n{killed.log[-1500:]}\n--- predict\n{predicted.log[-3000:]}"
    assert predicted.status == 0, story
    cells = trial.cells()
    constant = len({tuple(row) for row in cells.values()}) == 1
    if not folds:
        assert constant, story
        assert "BASELINE" in predicted.log
    elif trial.data.form not in ("labels", "masks"):  # of so few epochs these may well be all alike
        assert not constant or "worse than the baseline" in predicted.log, story
    assert {name: (trial.out / name).read_bytes() for name in trial.checkpoints()} == before, story
    trial.seen.add(left)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_killed_at_any_moment_a_script_predicts_with_what_exists(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name)
    trial.anew()
    alive = 0
    for logged, pause in moments(name, trial.train()):

        def reached(logged: int = logged, pause: float = pause) -> bool:
            if trial.logged_bytes() < logged:
                return False
            time.sleep(pause)
            return True

        trial.anew()
        killed = trial.train(kill_when=reached)
        alive += killed.status == -9
        try:
            check_what_is_left(trial, killed)
        except AssertionError as error:
            raise AssertionError(
                f"SEED={SEED}, killed {pause:.3f} s after byte {logged} of the log"
            ) from error
    assert alive > KILLS // 4, "the others had ended before"


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_killed_while_it_writes_nothing_is_torn(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name)
    for prefix, number, folds in WRITES:
        for fault in (faults.cut_in_replace, faults.kill_after_replace):
            trial.anew()
            killed = trial.train(before=fault(number, prefix))
            assert killed.status == -9, f"{prefix} is not written aside and put in place\n{killed.log}"
            torn = fault is faults.cut_in_replace and prefix.startswith("fold")
            assert len(trial.checkpoints()) >= folds - torn
            check_what_is_left(trial, killed)
