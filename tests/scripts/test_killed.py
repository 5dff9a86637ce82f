"""Is there a valid submission whenever the script is killed, and `python train.py predict` follows?

What lies in its folder at a moment is what a SIGKILL then would leave: one run stands still at many, and one
is copied at each file that it puts in place, half written and whole. At some moments it is killed, all
workers of its loaders with it, and each start goes on behind the last, until one ends.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
import zlib
from pathlib import Path

import pytest

from tests.scripts.harness import faults
from tests.scripts.harness.runner import Ended
from tests.scripts.harness.workshop import Trial, Workshop

MOMENTS = int(os.environ.get("MOMENTS", "10"))
KINDS = (
    "image-classification",
    "image-segmentation",
    "object-detection",
    "text-classification-lora",
)
"""All networks are trained, saved and sent by one file, torch_loop.py: of them, each form of an answer, what
saves less than its weights, and no workers. Members: tests/train."""

KILLS = MOMENTS // 10
"""The first ones; at the others the script stands still."""

SEED = int(os.environ.get("SEED", "6"))
"""`SEED=7 MOMENTS=100` are other moments, and more."""

READ_AGAIN = ("submission", "fold_", "answers_")

Moment = tuple[int, float]


def moments(name: str, whole: Ended) -> list[Moment]:
    """One in each of `MOMENTS` equal parts of a run: bytes of its log, which a busy machine does not move,
    and seconds after them, so that it is not always killed where it prints."""
    rng = random.Random(SEED + zlib.crc32(name.encode()))
    logged, pause = len(whole.log.encode()), whole.seconds / MOMENTS
    found = [(int(logged * (k + rng.random()) / MOMENTS), pause * rng.random()) for k in range(MOMENTS)]
    rng.shuffle(found)
    early = next(place for place, (byte, _) in enumerate(found) if byte < logged / 2)
    return [found.pop(early), *found]  # on a machine that stalls it may have ended before the others


def reached(trial: Trial, moment: Moment) -> bool:
    logged, pause = moment
    if trial.logged_bytes() < logged:
        return False
    time.sleep(pause)
    return True


def contents(trial: Trial) -> str:
    """What `predict` reads: checkpoints and answers by their bytes, other files by their names."""
    digest = hashlib.sha256()
    for path in sorted(path for path in trial.out.rglob("*") if path.is_file()):
        digest.update(path.name.encode())
        if path.name.startswith(("fold_", "answers_")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def check_what_is_left(trial: Trial, log: str) -> None:
    """What lies there is whole; `predict` makes a valid submission of it, and uses the folds that exist."""
    if trial.submission.exists():
        cells = trial.cells()
        if (trial.out / "oof.csv").exists() and trial.data.form not in ("labels", "masks", "boxes"):
            constant = len({tuple(row) for row in cells.values()}) == 1
            assert not constant or "left out" in log, "a fold is over: its answers are written"
    left = contents(trial)
    if left in trial.seen:
        return  # of the same bytes `predict` has made a valid submission already
    folds = trial.checkpoints()
    before = {name: (trial.out / name).read_bytes() for name in folds}
    predicted = trial.predict()
    story = f"killed with {folds}\n{log[-1500:]}\n--- predict\n{predicted.log[-3000:]}"
    assert predicted.status == 0, story
    cells = trial.cells()
    constant = len({tuple(row) for row in cells.values()}) == 1
    if not folds:
        assert constant, story
        assert "BASELINE" in predicted.log
    elif trial.data.form not in ("labels", "masks", "boxes"):  # of so few epochs these may well be all alike
        assert not constant or "worse than the baseline" in predicted.log, story
    assert {name: (trial.out / name).read_bytes() for name in trial.checkpoints()} == before, story
    trial.seen.add(left)


def check_copies(trial: Trial, copies: Path, log: str) -> None:
    for copy in sorted(copies.iterdir()):
        shutil.rmtree(trial.out, ignore_errors=True)
        copy.rename(trial.out)
        try:
            check_what_is_left(trial, log)
        except AssertionError as error:
            raise AssertionError(f"SEED={SEED}, as it was at {copy.name}") from error
    trial.anew()


def copied_at_every_write(trial: Trial, name: str) -> Ended:
    copies = trial.folder / "writes"
    copies.mkdir()
    whole = trial.train(before=faults.copies_of_writes(copies, READ_AGAIN, zlib.crc32(name.encode()) % 2))
    assert whole.status == 0, whole.log
    written = [path.name[4:] for path in copies.iterdir()]
    assert {*trial.checkpoints(), "answers_1.npz"} <= {*written}, "not written aside and put in place"
    # On a slow machine there may be no time to predict after each fold.
    assert written.count("submission.csv") >= 2, "of the baseline and of folds"
    check_copies(trial, copies, whole.log)
    return whole


def copied_at(trial: Trial, left: list[Moment]) -> None:
    """As it stands still at each of these; `left` are then those that it did not live to see."""
    copies = trial.folder / "moments"
    copies.mkdir()

    def copy() -> None:
        logged, pause = left.pop(0)
        if trial.out.exists():
            shutil.copytree(trial.out, copies / f"byte {logged:06} of the log and {pause:.3f} s")

    ended = trial.train(looks=(lambda: bool(left) and reached(trial, left[0]), copy))
    assert ended.status == 0, ended.log
    check_copies(trial, copies, ended.log)


def killed_at(trial: Trial, moment: Moment, log: str) -> Ended:
    killed = trial.train(kill_when=lambda: reached(trial, moment))
    try:
        check_what_is_left(trial, log + killed.log)
    except AssertionError as error:
        raise AssertionError(f"SEED={SEED}, killed {moment[1]:.3f} s after byte {moment[0]}") from error
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_killed_at_any_moment_a_script_predicts_with_what_exists(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name)
    whole = copied_at_every_write(trial, name)
    found = moments(name, whole)
    left = sorted(found[KILLS:])
    copied_at(trial, left)
    assert len(left) <= len(found) - KILLS - 4, "it had ended before"
    alive, log = 0, ""
    for moment in found[:KILLS]:
        killed = killed_at(trial, moment, log)
        alive, log = alive + (killed.status == -9), log + killed.log
        if killed.status == 0:
            trial.anew()
            log = ""
    assert alive or not KILLS, "the others had ended before"
