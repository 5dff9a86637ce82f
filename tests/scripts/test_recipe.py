"""Is the recipe done? Each technique that a script says it does changes what it does, and it still learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.services.planning.plan_script import plan_script, techniques_done
from tests.scripts.submission import gain
from tests.scripts.test_reading import Open, column, opened
from tests.scripts.workshop import Workshop, rows_of, write_rows

__all__ = ["opened"]

SETTINGS = {
    "tta": "TTA",
    "mixup": "MIXUP",
    "cutmix": "CUTMIX",
    "target-encoding": "TARGET_MEANS",
    "ema-swa": "EMA",
    "class-weights": "CLASS_WEIGHTS",
    "layerwise-lr": "LAYER_DECAY",
    "frequency-encoding": "FREQUENCIES",
}

DONE = {
    "image-classification": ("tta", "mixup", "cutmix", "ema-swa", "class-weights"),
    "image-multi-label": ("tta", "mixup", "cutmix", "ema-swa", "class-weights"),
    "image-segmentation": ("tta", "ema-swa"),
    "text-classification": ("ema-swa", "class-weights", "layerwise-lr"),
    "audio-classification": ("mixup", "ema-swa", "class-weights"),
    "tabular-classification-network": ("ema-swa", "class-weights"),
    "tabular-classification-lightgbm": ("frequency-encoding", "target-encoding", "class-weights"),
    "tabular-classification-xgboost": ("frequency-encoding", "target-encoding", "class-weights"),
    "tabular-classification-catboost": ("frequency-encoding", "target-encoding", "class-weights"),
    "tabular-regression-catboost": ("frequency-encoding", "target-encoding"),
}


def recipe(workshop: Workshop, name: str, *techniques: str, **validation: Any) -> dict[str, Any]:
    told: dict[str, Any] = workshop.plan(name)["recipe"]
    one = told["techniques"][0]
    told["techniques"] = [{**one, "name": each, "in_script": True} for each in techniques]
    told["validation"] = told["validation"] | validation
    return told


@pytest.mark.parametrize("name", DONE)
def test_what_the_recipe_wants_is_done_and_learns(workshop: Workshop, name: str) -> None:
    wanted = recipe(workshop, name, *SETTINGS)
    wanted["loss"] = [{"name": "focal", "share": 1.0, "n": 1, "from": []}]
    trial = workshop.trial(name, recipe=wanted)
    text = (trial.folder / "train.py").read_text()
    told = {technique for technique, setting in SETTINGS.items() if f"\n{setting} = " in text}
    assert told == set(DONE[name])
    assert told <= set(techniques_done(trial.plan))
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log


def test_without_a_recipe_no_line_of_it_is_there(workshop: Workshop) -> None:
    for name in DONE:
        text = plan_script(workshop.plan(name) | {"recipe": None})
        assert not [each for each in SETTINGS.values() if f"\n{each} = " in text]


def with_days(folder: Path) -> None:
    """A column `day`, in no order."""
    for name in ("train.csv", "test.csv"):
        head, *rows = rows_of(folder / name)
        days = np.random.default_rng(1).permutation(len(rows))
        dated = [
            [row[0], str(np.datetime64("2026-01-01") + day), *row[1:]]
            for row, day in zip(rows, days, strict=True)
        ]
        write_rows(folder / name, [[head[0], "day", *head[1:]], *dated])


def test_later_rows_validate_and_a_gap_is_left_out(opened: Open, workshop: Workshop) -> None:
    told = recipe(workshop, "tabular-regression-lightgbm", split="time", by=None)
    script = opened("tabular-regression-lightgbm", with_days, recipe=told, folds=3)
    data = script.read_data()
    days = data.inputs["day"].to_numpy()
    for gap in (0, 10):
        script.plan.GAP = gap
        for learned, validated in script.split(data):
            assert days[learned].max() + gap < days[validated].min()
    assert {"day weekday", "day of the year"} & set(data.inputs.columns)


def test_how_often_a_category_occurs_is_a_column_of_the_rows_learned_from(
    opened: Open, workshop: Workshop
) -> None:
    told = recipe(workshop, "tabular-regression-lightgbm", "frequency-encoding")
    script = opened("tabular-regression-lightgbm", column(4, ["oak", "oak", "oak", "elm"]), recipe=told)
    data = script.read_data()
    learned = script.fit_categories(data.inputs.iloc[:4])
    features = script.features_of(data.inputs, learned)
    assert features["often3"].iloc[:4].tolist() == [0.75, 0.75, 0.75, 0.25]
    data.test_inputs["kind"] = "larch"
    assert set(script.features_of(data.test_inputs, learned)["often3"]) == {0.0}


def test_a_rows_own_target_is_not_in_its_mean(opened: Open, workshop: Workshop) -> None:
    told = recipe(workshop, "tabular-regression-lightgbm", "target-encoding")
    script = opened("tabular-regression-lightgbm", column(4, ["oak", "elm"]), recipe=told)
    data = script.read_data()
    categories = script.fit_categories(data.inputs)
    targets = np.zeros((len(data.inputs), 1))
    targets[0] = 1000.0
    means = script.fit_target_means(data.inputs, targets, categories)
    known = script.target_means_of(data.inputs, means)
    assert known.iloc[0, 0] > known.iloc[1, 0]
    own = script.train_target_means(data.inputs, targets, categories)
    assert own.iloc[0, 0] == 0.0
    assert own.iloc[2:, 0].max() > 0.0
    data.test_inputs["kind"] = "larch"
    unknown = script.target_means_of(data.test_inputs, means).iloc[:, 0]
    assert unknown.to_numpy() == pytest.approx(targets.mean())


def test_a_patch_of_another_image_takes_its_share_of_the_label(opened: Open, workshop: Workshop) -> None:
    import torch

    script = opened(
        "image-classification", lambda _: None, recipe=recipe(workshop, "image-classification", "cutmix")
    )
    for _ in range(20):
        images, own = script.mixed(
            torch.stack([torch.zeros(3, 32, 32), torch.ones(3, 32, 32)]), torch.tensor([1, 0])
        )
        assert float(images[1].mean()) == pytest.approx(own, abs=1e-6)
        assert float(images[0].mean()) == pytest.approx(1 - own, abs=1e-6)


def test_digits_and_letters_are_not_mirrored(opened: Open) -> None:
    script = opened("image-classification", lambda folder: None)
    assert script.flips(["ape", "bee", "cat"]) == script.FLIP == 0.5
    assert script.flips(list(range(10))) == 0.0
    assert script.flips([chr(65 + n) for n in range(26)]) == 0.0


def test_a_rare_class_counts_as_much_as_a_frequent_one(opened: Open, workshop: Workshop) -> None:
    import torch

    told = recipe(workshop, "tabular-classification-network", "class-weights")
    script = opened("tabular-classification-network", lambda folder: None, recipe=told)
    script.module.class_shares = torch.tensor([0.9, 0.05, 0.05])
    ones, outputs = torch.ones(1), torch.zeros(1, 3)
    frequent, rare = (script.loss_of(outputs, torch.tensor([kind]), ones) for kind in (0, 1))
    assert float(rare / frequent) == pytest.approx(18.0)


def test_layers_near_the_input_learn_slower(opened: Open, workshop: Workshop) -> None:
    told = recipe(workshop, "text-classification", "layerwise-lr")
    script = opened("text-classification", lambda folder: None, recipe=told)
    optimizer, _ = script.make_optimizer(script.build_model({"outputs": [0, 1]}, False))
    shares = {group["scale"] for group in optimizer.param_groups}
    assert shares == {1.0, script.LAYER_DECAY, script.LAYER_DECAY**2}
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0, script.WEIGHT_DECAY}
