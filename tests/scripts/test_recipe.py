"""Is the recipe done? Each technique that a script says it does changes what it does, and it still learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.script_choice import techniques_done
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

SETTINGS = {
    "tta": "TTA",
    "mixup": "MIXUP",
    "cutmix": "CUTMIX",
    "ema-swa": "EMA",
    "class-weights": "CLASS_WEIGHTS",
    "specaugment": "HIDDEN_BANDS",
    "layerwise-lr": "LAYER_DECAY",
    "sliding-window": "WINDOWS",
}

ACCURACY = {"name": "accuracy", "direction": "max", "in_script": True}

DONE = {
    "image-classification": ("tta", "mixup", "cutmix", "ema-swa", "class-weights"),
    "image-multi-label": ("tta", "mixup", "cutmix", "ema-swa", "class-weights"),
    "image-segmentation": ("tta", "ema-swa"),
    "text-classification": ("ema-swa", "class-weights", "layerwise-lr", "sliding-window"),
    "text-classification-lora": ("class-weights",),
    "audio-classification": ("mixup", "ema-swa", "class-weights", "specaugment"),
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
    told = recipe(workshop, "text-regression", split="time", by=None)
    script = opened("text-regression", with_days, recipe=told, folds=3)
    data = script.read_data()
    days = data.times
    for gap in (0, 10):
        script.plan.GAP = gap
        for learned, validated in script.split(data):
            assert days[learned].max() + gap < days[validated].min()


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


def test_a_long_text_is_read_in_windows_that_overlap(opened: Open, workshop: Workshop) -> None:
    import torch

    told = recipe(workshop, "text-classification", "sliding-window")
    script = opened("text-classification", lambda folder: None, recipe=told)
    long = " ".join(["the film was so"] * 40 + ["good"])
    windows = script.encode(long, False)
    assert len(windows) == script.WINDOWS
    assert {len(window) for window in windows[:-1]} == {script.SEQ_LEN}
    good = script.encode("good", False)[0][1]
    assert good in windows[-1], "its end is read"
    assert len(script.encode(long, True)) == len(script.encode("short", False)) == 1
    inputs, _, _ = script.collate([(windows, 0, 1.0), (script.encode("good", False), 1, 1.0)])
    model = script.build_model({"outputs": [0, 1]}, False).eval()
    with torch.inference_mode():
        both = model(inputs)
        alone = [model(script.collate([([window], 0, 1.0)])[0]) for window in windows]
    assert both.shape == (2, 2)
    assert torch.allclose(both[0], torch.cat(alone).mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("sides", [False, True])
def test_images_are_mirrored_only_where_that_scores_no_worse(
    opened: Open, workshop: Workshop, sides: bool
) -> None:
    """A network that tells by the side that is brighter is fooled by mirrored images."""
    import torch

    told = recipe(workshop, "image-classification", "tta")
    script = opened("image-classification", lambda folder: None, recipe=told)
    data = script.read_data()
    rows = np.arange(len(data.targets))

    class Telling(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            part = images[..., :16] if sides else images
            return part.mean(dim=(2, 3)) * torch.tensor([5.0, 5.0, 5.0])

    if sides:  # its right half says another class, and louder
        read = script.read_image
        script.plan.read_image = lambda *given: halved(read(*given))
    checkpoint: dict[str, Any] = {"prior": [1 / 3] * 3}
    loader = script.make_loader(script.make_dataset("valid", data, rows, checkpoint))
    _, score, answers = script.validate(Telling(), loader, data, checkpoint, float("inf"))
    assert checkpoint["views"] == (1 if sides else 2)
    assert answers["valid"].shape == (len(rows), 3)
    assert script.is_better(score, script.baseline_score(data, rows, rows))


def halved(image: Any) -> Any:
    red, green, blue = image.split()
    louder = Image.merge("RGB", (green, blue, red)).point(lambda value: 255 if value > 128 else 0)
    image.paste(louder.crop((image.width // 2, 0, image.width, image.height)), (image.width // 2, 0))
    return image


def test_digits_and_letters_are_not_mirrored(opened: Open) -> None:
    script = opened("image-classification", lambda folder: None)
    assert script.flips(["ape", "bee", "cat"]) == script.FLIP == 0.5
    assert script.flips(list(range(10))) == 0.0
    assert script.flips([chr(65 + n) for n in range(26)]) == 0.0


def test_a_rare_class_counts_as_much_as_a_frequent_one(opened: Open, workshop: Workshop) -> None:
    import torch

    told = recipe(workshop, "text-classification", "class-weights")
    script = opened("text-classification", lambda folder: None, recipe=told)
    script.plan.class_shares = torch.tensor([0.9, 0.05, 0.05])
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


def test_bands_of_a_sound_are_hidden_in_training_alone(opened: Open, workshop: Workshop) -> None:
    import torch

    told = recipe(workshop, "audio-classification", "specaugment")
    script = opened("audio-classification", lambda folder: None, recipe=told)
    assert script.HIDDEN_BANDS == 2
    seen: list[torch.Tensor] = []

    class Looking(torch.nn.Module):
        def forward(self, mels: torch.Tensor) -> torch.Tensor:
            seen.append(mels[:, 0])
            return mels

    model = script.SpectrogramModel(Looking())
    waves = torch.randn(16, script.HOP * script.SEQ_LEN)
    model.eval()(waves)
    model.train()(waves)
    whole, hidden = ((one == 0) for one in seen)
    assert not whole.any()
    for axis in (1, 2):
        bands = hidden.all(dim=axis).float().mean(dim=1)  # the share that each sound lacks
        assert 0 < bands.mean() < bands.max() <= 0.25 + 2 / hidden.shape[3 - axis]
    assert torch.equal(seen[1][~hidden], seen[0][~hidden])


def test_a_smooth_label_asks_for_less_than_certainty(opened: Open, workshop: Workshop) -> None:
    import torch

    told = recipe(workshop, "image-classification")
    told["loss"] = [
        {"name": name, "share": share} for name, share in (("bce", 0.8), ("label-smoothing", 0.1))
    ]
    plan = workshop.plan("image-classification", recipe=told)
    assert "LABEL_SMOOTHING" not in plan_script(plan), "log loss judges"
    script = opened("image-classification", lambda folder: None, recipe=told, metric=ACCURACY)
    sure, usual = torch.tensor([[20.0, 0.0, 0.0]]), torch.tensor([[3.4, 0.0, 0.0]])  # usual: 0.94
    for targets in (torch.tensor([0]), torch.tensor([[1.0, 0.0, 0.0]])):
        found = []
        for smooth in (script.LABEL_SMOOTHING, 0.0):
            script.plan.LABEL_SMOOTHING = smooth
            found.append([float(script.loss_of(each, targets, torch.ones(1))) for each in (sure, usual)])
        (sure_smooth, usual_smooth), (sure_plain, usual_plain) = found
        assert sure_smooth > usual_smooth
        assert sure_plain < usual_plain
