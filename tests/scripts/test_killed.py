"""Is there a valid submission whenever the script is killed, and `python train.py predict` follows?

Real SIGKILLs to the whole process group, loaders' workers included: at random moments spread over what a
whole run takes, where each start goes on behind the last, until one ends.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
import zlib

import pytest

from tests.scripts.kinds import KINDS
from tests.scripts.runner import Ended
from tests.scripts.workshop import Trial, Workshop

KILLS = int(os.environ.get("KILLS", "20"))

SEED = int(os.environ.get("SEED", "6"))
"""`SEED=7 KILLS=100` are other moments, and more."""


def moments(name: str, whole: Ended) -> list[tuple[int, float]]:
    """One in each of `KILLS` equal parts of a run: bytes of its log, which a busy machine does not move, and
    seconds after them, so that it is not always killed where it prints."""
    rng = random.Random(SEED + zlib.crc32(name.encode()))
    logged, pause = len(whole.log.encode()), whole.seconds / KILLS
    found = [(int(logged * (k + rng.random()) / KILLS), pause * rng.random()) for k in range(KILLS)]
    rng.shuffle(found)
    return found


def contents(trial: Trial) -> str:
    """Of all files of the output, by name and bytes."""
    files = sorted(path for path in trial.out.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes())
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


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_killed_at_any_moment_a_script_predicts_with_what_exists(workshop: Workshop, name: str) -> None:
    trial = workshop.short_trial(name)
    whole = trial.train()
    trial.anew()
    alive, log = 0, ""
    for logged, pause in moments(name, whole):

        def reached(logged: int = logged, pause: float = pause) -> bool:
            if trial.logged_bytes() < logged:
                return False
            time.sleep(pause)
            return True

        killed = trial.train(kill_when=reached)
        alive, log = alive + (killed.status == -9), log + killed.log
        try:
            check_what_is_left(trial, log)
        except AssertionError as error:
            raise AssertionError(
                f"SEED={SEED}, killed {pause:.3f} s after byte {logged} of the log"
            ) from error
        if killed.status == 0:
            trial.anew()
            log = ""
    assert alive > KILLS // 4, "the others had ended before"
