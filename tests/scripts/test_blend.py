"""Does blend.py join the answers of runs to one submission that is no worse than the best of them?"""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest

from memory_service.domain.description.metric_resolution import resolve_metric
from memory_service.services.planning.plan_script import blend_script
from memory_service.services.planning.script_choice import NoScript
from tests.scripts.harness.kinds import KINDS, OTHERS
from tests.scripts.harness.runner import Ended, plainly
from tests.scripts.harness.submission import check_submission, decode, gain
from tests.scripts.harness.workshop import Trial, Workshop, rows_of, write_rows

SCRIPTS = Path(__file__).parents[2] / "memory_service" / "scripts"
CASES = (
    ("text-regression-members", "text-regression", "RMSE"),
    ("image-multi-label", None, "ROC AUC"),
)


def blended(trial: Trial, out: Path, *folders: Path, forked: bool = True) -> Ended:
    place = trial.folder / "blending"
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(blend_script(trial.plan), encoding="utf-8")  # as whatever is run is named
    run = trial.forks.run if forked else plainly
    environment = {"DATA_DIR": str(trial.data.folder), "OUT_DIR": str(out)}
    return run(place, *map(str, folders), environment=environment)


@pytest.mark.parametrize(("first", "second", "metric"), CASES)
def test_a_blend_is_no_worse_than_its_best_run(
    workshop: Workshop, first: str, second: str | None, metric: str
) -> None:
    told = resolve_metric(metric, "as asked", (KINDS | OTHERS)[first].question["task"]).as_dict()
    trials = [
        workshop.trial(first, metric=told),
        workshop.trial(second or first, metric=told, learning_rate=0.02),
    ]
    for trial in trials:
        ended = trial.train()
        assert ended.status == 0, ended.log
    out = trials[0].folder / "blend"
    done = blended(trials[0], out, *(trial.out for trial in trials))
    assert done.status == 0, done.log
    cells = check_submission(trials[0].data, out / "submission.csv")
    assert gain(trials[0].data, cells) > 0, done.log
    alone = [float(score) for score in re.findall(r": weight [\d.]+, .*=([\d.]+)", done.log)]
    together = float(re.findall(r"BLEND: .*=([\d.]+) of", done.log)[0])
    assert len(alone) == 2
    assert together <= min(alone) if metric == "RMSE" else together >= max(alone)
    again = blended(trials[0], trials[0].folder / "again", out, trials[1].out)
    assert again.status == 0, again.log


def one_id_twice(folder: Path) -> None:
    """Of the test's rows."""
    _, first, second, *_ = rows_of(folder / "test.csv")
    for name in ("test.csv", "sample_submission.csv"):
        head, *rows = rows_of(folder / name)
        write_rows(folder / name, [head, *([row[0].replace(second[0], first[0]), *row[1:]] for row in rows)])


def test_a_run_that_knows_nothing_gets_no_weight(workshop: Workshop) -> None:
    trial = workshop.trial("text-regression", spoil=one_id_twice)
    assert trial.train().status == 0
    useless = trial.folder / "useless"
    useless.mkdir()
    for name in ("oof.csv", "test_predictions.csv"):
        head, *rows = rows_of(trial.out / name)
        write_rows(useless / name, [head, *([*row[:-1], str(hash(row[0]) % 977 * 1e6)] for row in rows)])
    done = blended(trial, trial.folder / "blend", trial.out, useless, forked=False)
    assert done.status == 0, done.log
    assert f"{useless}: weight 0.00" in done.log
    own, joined = rows_of(trial.submission), rows_of(trial.folder / "blend" / "submission.csv")
    assert [row[0] for row in joined] == [row[0] for row in own]
    assert [float(row[1]) for row in joined[1:]] == pytest.approx([float(row[1]) for row in own[1:]])


def test_runs_of_masks_keep_what_they_found_in_held_out_images_and_vote(workshop: Workshop) -> None:
    rates = {"learning_rate": 3e-3}, {"learning_rate": 1e-2}, {"epochs": 1}
    trials = [workshop.trial("image-segmentation", **each) for each in rates]
    for trial in trials:
        ended = trial.train()
        assert ended.status == 0, ended.log
    data = trials[0].data
    head, *rows = rows_of(trials[0].out / "oof.csv")
    assert head == ["id", "true_rle_mask", "p_rle_mask"]
    assert [row[0] for row in rows] == [row[0] for row in rows_of(data.folder / "train.csv")[1:]]
    for (_, true, found), mask in zip(rows, data.seen, strict=True):
        assert (decode(true, mask.shape) == mask).all()
        decode(found, mask.shape)
    out = trials[0].folder / "blend"
    done = blended(trials[0], out, *(trial.out for trial in trials))
    assert done.status == 0, done.log
    alone = [float(score) for score in re.findall(r"out: Dice=([\d.]+)", done.log)]
    together = float(re.findall(r"BLEND: Dice=([\d.]+) of 48 out-of-fold masks", done.log)[0])
    assert together >= max(alone), done.log
    dice = []
    for (_, _, text), mask in zip(rows, data.seen, strict=True):
        covered = decode(text, mask.shape)
        both = covered.sum() + mask.sum()
        dice.append(2 * (covered & mask).sum() / both if both else 1.0)
    assert alone[0] == pytest.approx(np.mean(dice), abs=1e-4), done.log
    assert gain(data, check_submission(data, out / "submission.csv")) > 0, done.log


def test_a_vote_covers_what_has_the_votes_that_are_needed() -> None:
    part = types.ModuleType("blend_masks")
    exec((SCRIPTS / "blend_masks.py.txt").read_text(), part.__dict__)
    vars(part)["MOST_VOTES"] = 1
    patterns = part.patterns_of(["1 3 8 2", "2 4", ""])
    assert patterns[:10].tolist() == [1, 3, 3, 2, 2, 0, 0, 1, 1, 0]
    ways = {(votes, int(needed)): covered for votes, needed, covered in part.elections(3)}
    assert np.flatnonzero(ways[(1, 1, 0), 2][patterns]).tolist() == [1, 2]
    assert np.flatnonzero(ways[(1, 1, 0), 1][patterns]).tolist() == [0, 1, 2, 3, 4, 7, 8]
    assert not ways[(0, 0, 1), 1][patterns].any()


def test_without_answers_it_says_what_to_name_and_boxes_have_none(workshop: Workshop) -> None:
    trial = workshop.trial("text-regression")
    done = blended(trial, trial.folder / "blend", trial.folder / "nothing")
    assert done.status == 1
    assert "python blend.py run_1 run_2" in done.log
    assert blended(trial, trial.folder / "blend", Path("--help")).status == 0
    assert blended(trial, trial.folder / "blend", Path("--wieghts")).status == 2
    with pytest.raises(NoScript, match="no blend for object-detection"):
        blend_script(workshop.plan("object-detection"))
