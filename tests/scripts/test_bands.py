"""Are pictures of one, four or twelve bands read for boxes, keypoints and masks as those of three colours?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.scripts.harness.data import Size
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop
from tests.scripts.test_boxes import KIND, truths
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def of_bands(count: int) -> Callable[[Path], None]:
    """Arrays of 12 bits a band in place of pictures; of one band what is bright in any colour."""

    def spoil(folder: Path) -> None:
        for path in [*(folder / "train").iterdir(), *(folder / "test").iterdir()]:
            colours = np.asarray(Image.open(path), np.uint16) * 16
            levels = np.dstack([colours] * (-(-count // 3)))[..., :count]
            np.save(path.with_suffix(".npy"), colours.max(axis=2) if count == 1 else levels)
            path.unlink()

    return spoil


def model_of(workshop: Workshop, kind: str, bands: int, **more: object) -> dict[str, Any]:
    return {**workshop.plan(kind)["model"], "bands": bands, **more}


@pytest.mark.parametrize("bands", [1, 4, 12])
def test_a_box_moves_with_what_is_in_it_whatever_the_bands(
    opened: Open, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bands: int
) -> None:
    script = opened(KIND, of_bands(bands), model=model_of(workshop, KIND, bands))
    data = script.read_data()
    levels = np.zeros((40, 80, bands))
    levels[10:22, 20:44] = 4000
    np.save(tmp_path / "one.npy", levels)
    data.inputs, data.targets = [tmp_path / "one.npy"], truths([(1, 20, 10, 44, 22)])
    script.random.seed(0)
    dataset = script.Boxes("train", data, [0], {})
    corners = set()
    for _ in range(40):
        (pixels, boxes, _), _, readable = dataset[0]
        assert (readable, pixels.shape) == (1.0, (bands, 64, 64))
        for _, left, top, right, bottom in boxes.round().int().tolist():
            corners.add((left, top))
            assert float(pixels[:, top:bottom, left:right].mean()) > 150
            pixels[:, max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = 0
            assert float(pixels.max()) < 140
    assert len(corners) > 25
    shares = script.as_shares(torch.stack([script.Boxes("valid", data, [0], {})[0][0][0]]))
    assert shares.shape == (1, bands, 64, 64)
    assert script.Boxes("train", data, [0], {}).unreadable()[0].shape == (bands, 64, 64)
    made = script.Boxes("valid", data, [0], {})
    before = made[0][0][0]
    monkeypatch.setattr(script.plan, "BAND_LEVELS", None)  # as in a worker that is not forked
    assert torch.equal(made[0][0][0], before)


def test_levels_of_bands_are_spread_as_those_of_colours(opened: Open, workshop: Workshop) -> None:
    script = opened(KIND, of_bands(4), model=model_of(workshop, KIND, 4))
    data = script.read_data()
    pictures = [script.plan.read_image(path).levels for path in data.inputs]
    levels = np.concatenate(
        [script.as_colours(each, script.plan.BAND_LEVELS).reshape(-1, 4) for each in pictures]
    )
    assert levels.mean(0) == pytest.approx([110] * 4, abs=5)
    assert levels.std(0) == pytest.approx([60] * 4, rel=0.1)


@pytest.mark.parametrize("bands", [1, 4])
def test_what_was_learned_of_colours_is_spread_over_the_bands(
    opened: Open, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bands: int
) -> None:
    """A picture whose bands are alike looks to the network as it did with three colours alike."""
    from torchvision.models.detection import fcos_resnet50_fpn

    coco = fcos_resnet50_fpn(weights=None, weights_backbone=None, num_classes=91).state_dict()
    (tmp_path / "weights").mkdir()
    torch.save(coco, tmp_path / "weights" / "fcos_resnet50_fpn_coco.pth")
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "weights"))
    model = model_of(workshop, KIND, bands, name="fcos/resnet50", pretrained=True)
    script = opened(KIND, of_bands(bands), model=model)
    trained = script.build_model({"outputs": ["red", "blue"]}, True)
    first = trained.backbone.body.conv1
    assert first.weight.requires_grad
    grey = torch.rand(1, 1, 32, 32)
    seen = torch.nn.functional.conv2d(grey.repeat(1, 3, 1, 1), coco["backbone.body.conv1.weight"], None, 2, 3)
    if bands == 1:
        assert torch.allclose(first(grey), seen, atol=1e-4)
    else:
        assert (
            torch.corrcoef(torch.stack([first(grey.repeat(1, 4, 1, 1)).flatten(), seen.flatten()]))[0, 1]
            > 0.8
        )
    again = script.build_model({"outputs": ["red", "blue"]}, False)
    script.restore(again, script.state_of(trained))
    picture = torch.rand(1, bands, 64, 64)
    boxes = [script.boxes_in(each.eval(), picture)[0] for each in (trained, again)]
    assert torch.equal(first.weight, again.backbone.body.conv1.weight)
    assert torch.allclose(boxes[0], boxes[1], atol=1e-4)


def test_points_are_shares_of_pictures_of_bands_which_are_never_cut(opened: Open, workshop: Workshop) -> None:
    name = "image-keypoints"
    script = opened(name, of_bands(12), model=model_of(workshop, name, 12))
    data, plan = script.read_data(), script.plan
    assert script.size_of(data.inputs[0]) == (64.0, 40.0)
    dataset = plan.make_dataset("train", data, range(len(data.inputs)), {})
    (one, size), _, readable = dataset[0]
    assert (one.shape, size.tolist(), readable) == ((12, 32, 32), [64.0, 40.0], 1.0)
    assert all(torch.equal(dataset[0][0][0], one) for _ in range(5))


@pytest.mark.parametrize("bands", [1, 4, 12])
def test_an_own_unet_reads_the_bands(opened: Open, workshop: Workshop, bands: int) -> None:
    name = "image-segmentation"
    model = model_of(workshop, name, bands, name="unet-small", library="torch")
    script = opened(name, of_bands(bands), model=model)
    data = script.read_data()
    (pixels, mask), _, readable = script.Masks(data.inputs, [3], data.targets, True)[0]
    assert (pixels.shape, mask.shape, readable) == ((bands, 32, 32), (1, 32, 32), 1.0)
    assert script.build_model({"outputs": [0]}, False).eval()(pixels[None]).shape == (1, 1, 32, 32)


@pytest.mark.parametrize(("name", "bands"), [(KIND, 4), ("image-keypoints", 12)])
def test_a_network_of_bands_learns(workshop: Workshop, name: str, bands: int) -> None:
    trial = workshop.trial(name, spoil=of_bands(bands), model=model_of(workshop, name, bands), epochs=8)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "WARNING" not in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    weights = torch.load(trial.out / trial.checkpoints()[0], map_location="cpu")["model"]
    assert next(each for each in weights.values() if each.ndim == 4).shape[1] == bands


def test_masks_without_weights_are_learned_from_bands(opened: Open, workshop: Workshop) -> None:
    name = "image-segmentation"
    script = opened(name, of_bands(4), model=model_of(workshop, name, 4), weights="none")
    data = script.read_data()
    pixels, sizes = script.module.read_small(data.inputs, data.targets, 64, (64, 64))
    assert pixels.shape == (len(data.inputs), 5, 64, 64)
    levels = np.array([script.read_image(data.inputs[0]).levels[..., band].mean() for band in range(4)])
    mean, deviation = script.plan.BAND_LEVELS
    expected = 110 + 60 * (levels / 255 - mean) / deviation
    assert pixels[0, :4].float().mean((1, 2)).numpy() == pytest.approx(expected, abs=5)
    assert pixels[:, 4].unique().numel() > 1
    assert sizes[0] == script.plan.read_image(data.inputs[0]).size
    maps = script.module._maps(script.module.unet(8).eval(), pixels[:3, :4])
    assert maps.shape == (3, 1, 64, 64)


def test_a_picture_of_one_band_may_be_a_file_of_greys_or_colours(
    opened: Open, workshop: Workshop, tmp_path: Path
) -> None:
    script = opened(KIND, of_bands(1), model=model_of(workshop, KIND, 1))
    for mode in ("L", "RGB", "I;16"):
        Image.new(mode, (7, 9), 90 if mode != "RGB" else (90, 90, 90)).save(tmp_path / f"{mode[0]}.png")
        seen = script.plan.read_image(tmp_path / f"{mode[0]}.png")
        assert (seen.size, seen.levels.shape, float(seen.levels.mean())) == ((7, 9), (9, 7, 1), 90.0)


def test_a_file_of_tifffile_has_all_its_bands(opened: Open, workshop: Workshop, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    script = opened(KIND, of_bands(12), model=model_of(workshop, KIND, 12))
    levels = np.arange(12 * 9 * 7, dtype=np.uint16).reshape(12, 9, 7)
    tifffile.imwrite(tmp_path / "one.tif", levels, photometric="minisblack")
    assert (script.plan.read_image(tmp_path / "one.tif").levels == levels.transpose(1, 2, 0)).all()


@pytest.mark.parametrize("shape", [(9, 7, 3), (3, 9, 7), (9, 7, 4), (9, 7, 1), (1, 9, 7), (9, 7)])
def test_one_band_of_an_array_of_colours_is_their_mean(
    opened: Open, workshop: Workshop, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    script = opened(KIND, of_bands(1), model=model_of(workshop, KIND, 1))
    levels = np.full(shape, 80.0)
    if 3 in shape:
        levels[(0, ...) if shape[0] == 3 else (..., 0)] = 110
    np.save(tmp_path / "one.npy", levels)
    seen = script.plan.read_image(tmp_path / "one.npy").levels
    assert seen.shape == (9, 7, 1)
    assert (seen == (90 if 3 in shape else 80)).all()


@pytest.mark.slow
def test_a_yolo_reads_bands(workshop: Workshop, tmp_path: Path) -> None:
    tasks = pytest.importorskip("ultralytics.nn.tasks")
    torch.save({"model": tasks.DetectionModel("yolov8n.yaml", verbose=False).half()}, tmp_path / "yolov8n.pt")
    model = model_of(workshop, KIND, 4, name="yolov8n", library="ultralytics", pretrained=True)
    own = {"WEIGHTS": str(tmp_path), "YOLO_CONFIG_DIR": str(tmp_path)}
    settings: dict[str, Any] = {"epochs": 3, "folds": 1, "optimizer": "adamw", "learning_rate": 2e-3}
    trial = workshop.trial(KIND, spoil=of_bands(4), size=Size(24, 8), model=model, own=own, **settings)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "WARNING" not in ended.log
    trial.cells()
