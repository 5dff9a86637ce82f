"""Does blend.py join the answers of runs to one submission that is no worse than the best of them?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_service.domain.description.metric_resolution import resolve_metric
from memory_service.services.planning.plan_script import NoScript, blend_script
from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.runner import Ended, plainly
from tests.scripts.harness.submission import check_submission, gain
from tests.scripts.harness.workshop import Trial, Workshop, rows_of, write_rows

CASES = (
    ("tabular-classification-lightgbm", "tabular-classification-network", "accuracy"),
    ("tabular-classification-xgboost", "tabular-classification-network", "macro F1"),
    ("tabular-regression-lightgbm", "tabular-regression-network", "RMSE"),
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
    told = resolve_metric(metric, "as asked", KINDS[first].question["task"]).as_dict()
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


def test_a_run_that_knows_nothing_gets_no_weight(workshop: Workshop) -> None:
    trial = workshop.trial("tabular-regression-lightgbm")
    assert trial.train().status == 0
    useless = trial.folder / "useless"
    useless.mkdir()
    for name in ("oof.csv", "test_predictions.csv"):
        head, *rows = rows_of(trial.out / name)
        write_rows(useless / name, [head, *([*row[:-1], str(hash(row[0]) % 977 * 1e6)] for row in rows)])
    done = blended(trial, trial.folder / "blend", trial.out, useless, forked=False)
    assert done.status == 0, done.log
    assert f"{useless}: weight 0.00" in done.log
    best = trial.folder / "blend" / "submission.csv"
    assert check_submission(trial.data, best).keys() == trial.cells().keys()
    for (name, [cell]), (other, [own]) in zip(
        check_submission(trial.data, best).items(), trial.cells().items(), strict=True
    ):
        assert name == other
        assert float(cell) == pytest.approx(float(own))


def test_without_answers_it_says_what_to_name_and_masks_have_none(workshop: Workshop) -> None:
    trial = workshop.trial("tabular-regression-lightgbm")
    done = blended(trial, trial.folder / "blend", trial.folder / "nothing")
    assert done.status == 1
    assert "python blend.py run_1 run_2" in done.log
    with pytest.raises(NoScript, match="no blend for image-segmentation"):
        blend_script(workshop.plan("image-segmentation"))
