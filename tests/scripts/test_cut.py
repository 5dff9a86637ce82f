"""Does a script whose minutes are cut to half of what it needs stop by itself and send what it has?"""

from __future__ import annotations

import numpy as np
import pytest

from memory_service.domain.logs.parser import read_log
from tests.scripts.harness import faults
from tests.scripts.harness.data import Size
from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.workshop import Workshop, rows_of
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

EPOCHS = {
    "image-classification": 8,
    "object-detection": 6,
    "text-classification-lora": 20,
}
"""Half of their time is several times what a script takes to start. All networks look at the clock in one
file, torch_loop.py; each library of trees has a look of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EPOCHS)
def test_with_half_of_the_minutes_that_it_needs_a_script_stops_and_predicts(
    workshop: Workshop, name: str
) -> None:
    """Minutes of the processor: on a busy machine they are as long as on a quiet one. One test sample is
    enough to be predicted."""
    epochs = EPOCHS[name]
    size = Size(KINDS[name].few.train, 1)
    trial = workshop.trial(name, size=size, epochs=epochs, early_stopping_patience=epochs)
    needed = trial.train(before=faults.PROCESSOR_CLOCK)
    assert needed.status == 0, needed.log
    trial.anew()
    trial.own["MINUTES"] = str(needed.cpu_seconds / 2 / 60)
    cut = trial.train(before=faults.PROCESSOR_CLOCK)
    assert cut.status == 0, cut.log
    assert cut.cpu_seconds < needed.cpu_seconds, cut.log
    assert len(trial.cells()) == 1
    done, all_of_them = (
        sum(told.kind == "epoch" for told in read_log(ended.log, final=True).events)
        for ended in (cut, needed)
    )
    assert done < all_of_them, f"of {needed.cpu_seconds:.1f} s half were given\n{cut.log}"
    assert trial.checkpoints(), cut.log


def test_with_no_minutes_at_all_the_baseline_is_the_submission(workshop: Workshop) -> None:
    trial = workshop.trial("image-classification", own={"MINUTES": "0.0001"})
    cut = trial.train()
    assert cut.status == 0, cut.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1
    assert not trial.checkpoints()


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(("score", "counts"), [(0.5, False), (0.25, True)])
def test_a_fold_that_was_cut_off_counts_if_it_gains_nearly_what_whole_folds_do(
    opened: Open, score: float, counts: bool
) -> None:
    """An error of 1 is the constant's; whole folds have 0.2, and an unknown fold is one cut off."""
    script = opened("text-regression", nothing)
    data = script.read_data()
    script.state.out_dir.mkdir()
    for name, answer, reached, done in ((1, 1.0, 0.2, True), (2, 3.0, 0.2, True), (3, 8.0, score, False)):
        known = {"test": np.full((len(data.test_ids), 1), answer), "complete": True, "done": done}
        if name == 3:
            known |= {"rows": np.arange(2), "valid": np.zeros((2, 1))}
        script.save_result(name, {**known, "score": reached, "constant": 1.0})
        (script.state.out_dir / script.CHECKPOINT.format(name)).touch()
    script.predict(data, None)
    script.write_out_of_fold(data)
    wanted = 4.0 if counts else 2.0
    for file in ("submission.csv", "test_predictions.csv"):
        assert {float(row[1]) for row in rows_of(script.state.out_dir / file)[1:]} == {wanted}
    (script.state.out_dir / "answers_3.npz").unlink()
    script.module.predict_fold = script.plan.predict_fold = lambda *_: (
        {key: value for key, value in known.items() if key != "done"} | {"score": score, "constant": 1.0}
    )
    script.predict(data, None)
    assert {float(row[1]) for row in rows_of(script.state.out_dir / "submission.csv")[1:]} == {wanted}


@pytest.mark.parametrize(("score", "counts"), [(0.5, 2), (0.75, 3)])
def test_masks_of_a_fold_that_was_cut_off_are_averaged_by_the_same_rule(
    opened: Open, score: float, counts: int
) -> None:
    import torch

    script = opened("image-segmentation", nothing)
    script.state.out_dir.mkdir()
    script.module.build_model = script.plan.build_model = lambda *_, **__: torch.nn.Identity()
    paths = []
    for name, reached, done in ((1, 0.8, True), (2, 0.8, True), (3, score, False)):
        judged = {"score": reached, "constant": 0.0}
        paths.append(script.state.out_dir / script.CHECKPOINT.format(name))
        torch.save({**judged, "model": {}, "mirror": False, "batch_size": 8}, paths[-1])
        script.save_result(name, {**judged, "done": done})
    assert len(script.load_models(paths)) == counts
