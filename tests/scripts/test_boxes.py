"""Do boxes mean the same in files, in training, in the score and in the submission of a script?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memory_service.domain.description.metric_resolution import resolve_metric
from tests.scripts.harness.data import Size
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]

KIND = "object-detection"


def unchanged(folder: Path) -> None:
    """The data as they are."""


def judged_by(metric: str) -> dict[str, Any]:
    return {"metric": resolve_metric(metric, "as asked", KIND).as_dict()}


def truths(*images: Sequence[tuple[float, ...]]) -> Any:
    """An array of (boxes, 5) for each image: class, x0, y0, x1, y1."""
    found = np.empty(len(images), dtype=object)
    for place, boxes in enumerate(images):
        found[place] = np.array(boxes, dtype=float).reshape(-1, 5)
    return found


def predicted(*images: Sequence[tuple[float, ...]]) -> Any:
    """(images, 600) of score, class, x0, y0, x1, y1."""
    found = np.zeros((len(images), 100, 6))
    for place, boxes in enumerate(images):
        found[place, : len(boxes)] = np.array(boxes, dtype=float).reshape(-1, 6)
    return found.reshape(len(images), -1)


TRUTH = truths([(0, 0, 0, 10, 10), (0, 50, 50, 60, 60)], [(0, 0, 0, 10, 10)], [])
FOUND = predicted(
    [(0.9, 0, 0, 0, 10, 10), (0.8, 0, 1, 0, 10, 10)],  # right, and the same once more
    [(0.7, 0, 70, 70, 80, 80), (0.6, 0, 2, 0, 12, 10)],  # nothing there; IoU 2/3
    [],
)


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        ("mAP@0.5", (1 + 0.5) / 3),  # precisions 1, 1/2, 1/3, 1/2: of three true boxes two are found
        ("mAP@0.75", 1 / 3),
        ("mAP@0.5:0.95", (4 * (34 + 33 * 0.5) + 6 * 34) / 10 / 101),  # recall to 0.33 at 1, to 0.66 at 1/2
    ],
)
def test_the_score_is_that_of_a_case_done_by_hand(opened: Open, metric: str, score: float) -> None:
    script = opened(KIND, unchanged, **judged_by(metric))
    assert metric == script.METRIC
    assert script.score_of(TRUTH, FOUND) == pytest.approx(score)
    assert script.score_of(TRUTH, 0 * FOUND) == 0.0
    assert script.score_of(truths([]), predicted([(0.5, 0, 0, 0, 5, 5)])) == 0.0
    perfect = predicted(*([(1.0, *box) for box in boxes] for boxes in TRUTH))
    assert script.score_of(TRUTH, perfect) == pytest.approx(1.0)


def test_classes_weigh_alike_and_each_box_takes_the_true_one_that_is_left(opened: Open) -> None:
    script = opened(KIND, unchanged)
    near = truths([(0, 0, 0, 10, 10), (0, 0, 2, 10, 12), (1, 40, 40, 50, 50)])
    twice = [(0.9, 0, 0, 1, 10, 10.5), (0.8, 0, 0, 1, 10, 10.5), (0.7, 2, 40, 40, 50, 50)]
    assert script.score_of(near, predicted(twice)) == pytest.approx(0.5), "class 1 is not found, 2 is none"
    assert script.validation_loss(near, predicted(twice), {}) == pytest.approx(1 / 3)


def test_a_metric_that_is_not_computed_goes_by_the_loss_and_no_boxes_are_its_constant(opened: Open) -> None:
    script = opened(KIND, unchanged, **judged_by("F1 at IoU 0.4"))
    assert (script.METRIC, script.HIGHER_IS_BETTER) == ("validation loss", False)
    assert script.score_of(TRUTH, FOUND) == pytest.approx(0.5)
    assert script.score_of(TRUTH, 0 * FOUND) == 1.0


def test_folds_and_mirrors_that_agree_are_one_box(opened: Open) -> None:
    script = opened(KIND, unchanged)
    one = predicted([(0.9, 0, 0, 0, 10, 10), (0.6, 1, 0, 0, 10, 10), (0.4, 0, 50, 50, 60, 60)])
    other = predicted([(0.3, 0, 0, 0, 10, 12)])
    found = script.fuse([one, other]).reshape(100, 6)
    assert found[found[:, 0] > 0] == pytest.approx(
        np.array([(0.6, 0, 0, 0, 10, 10.5), (0.3, 1, 0, 0, 10, 10), (0.2, 0, 50, 50, 60, 60)])
    )
    assert (script.fuse([one]) == one).all()


def bright(pixels: Any, box: Any) -> tuple[float, float]:
    """The mean in a box, and of what is brightest outside it."""
    inside = np.zeros(pixels.shape[-2:], dtype=bool)
    left, top, right, bottom = (round(float(side)) for side in box)
    inside[top:bottom, left:right] = True
    grown = np.zeros_like(inside)
    grown[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = True
    shown = pixels[0].float().numpy()
    return float(shown[inside].mean()), float(shown[~grown].max())


def test_a_training_images_box_moves_with_what_is_in_it(opened: Open, tmp_path: Path) -> None:
    script = opened(KIND, unchanged)
    picture = np.zeros((40, 80, 3), dtype=np.uint8)
    picture[10:22, 20:44, 0] = 255
    Image.fromarray(picture).save(tmp_path / "one.png")
    data = script.read_data()
    data.inputs = [tmp_path / "one.png"]
    data.targets = truths([(1, 20, 10, 44, 22), (0, 200, 200, 220, 220)])  # the second lies outside
    script.random.seed(0)
    corners = set()
    dataset = script.Boxes("train", data, [0], {})
    for _ in range(60):
        (pixels, boxes, _), _, readable = dataset[0]
        assert readable == 1.0
        assert pixels.shape == (3, 64, 64)
        assert len(boxes) <= 1
        for kind, *place in boxes.tolist():
            corners.add(tuple(place))
            inside, outside = bright(pixels, place)
            assert kind == 1
            assert inside > 150, (place, inside)
            assert outside < 140, (place, outside)  # the grey beside it is 114
    assert len(corners) > 40


@pytest.mark.parametrize("shape", [(40, 80), (96, 50)])
def test_what_is_found_comes_back_in_pixels_of_the_image_mirrored_or_not(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    import torch

    script = opened(KIND, unchanged)
    picture = np.zeros((*shape, 3), dtype=np.uint8)
    picture[8:32, 10:40] = (255, 0, 0)
    Image.fromarray(picture).save(tmp_path / "one.png")

    def boxes_in(model: object, pixels: Any) -> list[Any]:
        found = []
        for image in pixels:
            rows, columns = torch.nonzero(image[0] > 0.7, as_tuple=True)
            corners = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            found.append(torch.tensor([[0.5, 1, *(float(side) for side in corners)]]))
        return found

    monkeypatch.setattr(script.module.plan, "boxes_in", boxes_in)
    data = script.read_data()
    data.inputs = [tmp_path / "one.png"]
    inputs, _, _ = next(iter(script.make_loader(script.Boxes("valid", data, [0], {}))))
    views = script.predict_batch(None, inputs, data, {}, 2).reshape(2, 100, 6)
    for view in views:
        assert view[0, :2].tolist() == [0.5, 1.0]
        assert view[0, 2:].numpy() == pytest.approx(np.array([10, 8, 40, 32]), abs=1.5)
        assert (view[1:] == 0).all()


def as_corners(folder: Path) -> None:
    head, *rows = rows_of(folder / "train.csv")
    corners = [(row, [float(side or "nan") for side in row[1:5]]) for row in rows]
    numbers = {"red": "3", "blue": "7", "": ""}
    changed = [[row[0], *map(str, (x, y, x + w, y + h)), numbers[row[5]]] for row, (x, y, w, h) in corners]
    write_rows(folder / "train.csv", [[head[0], "x_min", "y_min", "x_max", "y_max", "class_id"], *changed])


def as_lists(folder: Path) -> None:
    """In one column, and of one class that nobody names; the image's width and height stand beside."""
    head, *rows = rows_of(folder / "train.csv")
    changed = [[n, "64", "48", f"[{x}, {y}, {w}, {h}]"] for n, x, y, w, h, _ in rows]
    write_rows(folder / "train.csv", [[head[0], "width", "height", "bbox"], *changed])


@pytest.mark.parametrize(("spoil", "classes"), [(unchanged, 2), (as_corners, 2), (as_lists, 1)])
def test_boxes_are_read_from_any_of_their_forms(
    opened: Open, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None], classes: int
) -> None:
    def more(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        flat = [rows[0][0], "5", "5", "0", "9", "red"]
        unnamed = [rows[0][0], "5", "5", "9", "9", ""]
        empty = ["0007", "", "", "", "", ""]
        write_rows(folder / "train.csv", [head, flat, *rows, *[unnamed] * (classes > 1), empty])
        spoil(folder)

    script = opened(KIND, more)
    data = script.read_data()
    said = capsys.readouterr().out
    assert f"{classes} boxes without an area or a class are left out" in said
    assert "5 images of train are in no table: taken all the same" in said
    assert len(data.outputs) == classes
    assert data.outputs == [3, 7] or spoil is not as_corners, (
        "whole numbers, though an empty row made fractions"
    )
    assert sorted(data.ids) == [f"{number:04d}" for number in range(48)]
    boxes = dict(zip(data.ids, data.targets, strict=True))
    assert [len(boxes[name]) for name in ("0000", "0001", "0007")] == [1, 2, 0]
    for row in rows_of(data.inputs[0].parent.parent / "train.csv")[2:4]:
        assert row[0] in boxes
    x, y, u, v = boxes["0001"][0, 1:]
    picture = np.asarray(
        script.read_image(dict(zip(data.ids, data.inputs, strict=True))["0001"]), dtype=float
    )
    inside = picture[int(y) : int(v), int(x) : int(u)].max(axis=2)
    assert inside.mean() > 150
    assert data.strata.max() == classes


@pytest.mark.parametrize("named", ["train/{}.jpg", "{}.png"])
def test_an_image_comes_in_once_however_its_row_names_the_file(
    opened: Open, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        write_rows(folder / "train.csv", [head, *([named.format(row[0]), *row[1:]] for row in rows)])

    data = opened(KIND, spoil).read_data()
    assert len(set(data.inputs)) == len(data.ids) == 48
    assert "6 images of train are in no table" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["", ".jpg"])
def test_every_image_of_the_test_set_is_asked_where_the_sample_has_a_row_a_box(
    opened: Open, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    def spoil(folder: Path) -> None:
        (folder / "test.csv").unlink(missing_ok=True)
        shown = [f"005{place}{ending}" for place in (1, 0, 0)]
        head = ["image", "x", "y", "w", "h", "label", "score"]
        write_rows(folder / "sample_submission.csv", [head, *([name, *"000000"] for name in shown)])
        head, *rows = rows_of(folder / "train.csv")
        write_rows(folder / "train.csv", [head, *rows, *[[rows[0][0], *"1155", "red"]] * 100])

    data = opened(KIND, spoil).read_data()
    said = capsys.readouterr().out
    assert data.test_ids[:2] == [f"0051{ending}", f"0050{ending}"]
    assert sorted(data.test_ids) == [f"{number:04d}{ending}" for number in range(48, 60)]
    assert "10 images of test are in no table" in said
    assert "101 boxes are on an image, but MAX_BOXES is 100" in said


def test_boxes_in_shares_of_the_image_end_the_run_at_once(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        shares = [[str(float(side or "nan") / 64) for side in row[1:5]] for row in rows]
        changed = [[row[0], *sides, row[5]] for row, sides in zip(rows, shares, strict=True)]
        write_rows(folder / "train.csv", [head, *changed])

    with pytest.raises(ValueError, match="not pixels: change read_data"):
        opened(KIND, spoil).read_data()


def test_columns_that_are_no_boxes_are_named(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        write_rows(folder / "train.csv", [[head[0], "a", "b", "c", "d", "class"], *rows])

    with pytest.raises(KeyError, match="change read_data"):
        opened(KIND, spoil).read_data()


SHOWN: tuple[tuple[Callable[[Path], None], list[list[str]], list[list[str]]], ...] = (
    (unchanged, [["image", "PredictionString"], ["0049", ""]], [["red 0.5000 1.0 2.0 10.0 20.0"]]),
    (as_corners, [["image", "PredictionString"], ["0049", "1 1 0 0 1 1"]], [["3 0.5000 1.0 2.0 11.0 22.0"]]),
    (unchanged, [["image", "boxes"], ["0049", "1.0 0 0 50 50"]], [["0.5000 1.0 2.0 10.0 20.0"]]),
    (unchanged, [["image", "text"], ["0049", "1.0 0 0 5 5 " * 2]], [["0.5000 1.0 2.0 10.0 20.0"]]),
    (
        unchanged,
        [["image", "width", "PredictionString", "height"], ["0049", "64", "", "48"]],
        [["64", "red 0.5000 1.0 2.0 10.0 20.0", "48"]],
    ),
    (
        unchanged,
        [["image", "x", "y", "w", "h", "label", "score", "area"], ["0049", *"0000000"]],
        [["1.0", "2.0", "10.0", "20.0", "red", "0.5", ""]],
    ),
    (
        unchanged,
        [["image", "xmin", "ymin", "xmax", "ymax", "label", "confidence"], ["0049", *"000000"]],
        [["1.0", "2.0", "11.0", "22.0", "red", "0.5"]],
    ),
)


@pytest.mark.parametrize(("spoil", "sample", "cells"), SHOWN)
def test_the_submission_is_as_the_sample_shows(
    opened: Open, spoil: Callable[[Path], None], sample: list[list[str]], cells: list[list[str]]
) -> None:
    def show(folder: Path) -> None:
        spoil(folder)
        ids = [[row[0], *sample[1][1:]] for row in rows_of(folder / "sample_submission.csv")[1:]]
        write_rows(folder / "sample_submission.csv", [sample[0], *ids])

    script = opened(KIND, show)
    data = script.read_data()
    script.state.out_dir.mkdir()
    found = predicted(*([] for _ in data.test_ids))
    place = data.test_ids.index("0049")
    red = next(number for number, name in enumerate(data.outputs) if name in ("red", 3))
    found[place, :6] = (0.5, red, 1, 2, 11, 22)
    script.write_submission(data, script.plan.submission_of(data, found), script.state.out_dir)
    head, *rows = rows_of(script.state.out_dir / "submission.csv")
    assert head == sample[0]
    assert [row[1:] for row in rows if row[0] == "0049"] == cells
    assert len(rows) == (1 if len(head) > 4 else 12)


@pytest.mark.parametrize("detector", ["retinanet/test_resnet", "fasterrcnn/test_resnet", "fcos/resnet18"])
def test_every_detector_trains_and_is_loaded_as_it_was(
    opened: Open, workshop: Workshop, detector: str
) -> None:
    import torch

    model = workshop.plan(KIND)["model"] | {"name": detector}
    script = opened(KIND, unchanged, model=model, epochs=1, folds=1)
    data = script.read_data()
    script.state.out_dir.mkdir()
    rows = np.arange(len(data.targets))
    result = script.train_fold(1, data, rows[:8], rows[8:12], None)
    assert result["valid"].shape == (4, 600)
    again = script.predict_fold(data, script.state.out_dir / "fold_1.pt", float("inf"), None)
    assert again["complete"]
    torch.manual_seed(1)
    assert np.isfinite(again["test"]).all()


def test_weights_of_coco_are_taken_less_the_classes_and_frozen_layers_come_back(
    opened: Open, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torchvision.models.detection import fcos_resnet50_fpn

    torch.manual_seed(0)
    coco = fcos_resnet50_fpn(weights=None, weights_backbone=None, num_classes=91).state_dict()
    (tmp_path / "weights").mkdir()
    torch.save(coco, tmp_path / "weights" / "fcos_resnet50_fpn_coco.pth")
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "weights"))
    model = workshop.plan(KIND)["model"] | {"name": "fcos/resnet50", "pretrained": True}
    script = opened(KIND, unchanged, model=model)
    checkpoint = {"outputs": ["red", "blue"]}
    trained = script.build_model(checkpoint, True)
    own = trained.state_dict()
    alike = {name for name, value in own.items() if name in coco and torch.equal(value, coco[name])}
    other = {name for name in own if name not in alike}
    assert {name.rpartition(".")[0] for name in other} == {"head.classification_head.cls_logits"}
    assert not trained.backbone.body.conv1.weight.requires_grad
    again = script.build_model(checkpoint, False)
    script.restore(again, script.state_of(trained))
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        one, two = (script.boxes_in(each.eval(), images)[0] for each in (trained, again))
    assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.slow
def test_a_yolo_trains_in_the_same_loop_from_weights_of_a_folder(workshop: Workshop, tmp_path: Path) -> None:
    tasks = pytest.importorskip("ultralytics.nn.tasks")
    import torch

    torch.save({"model": tasks.DetectionModel("yolov8n.yaml", verbose=False).half()}, tmp_path / "yolov8n.pt")
    model = workshop.plan(KIND)["model"] | {"name": "yolov8n", "library": "ultralytics", "pretrained": True}
    own = {"WEIGHTS": str(tmp_path), "YOLO_CONFIG_DIR": str(tmp_path)}
    settings: dict[str, Any] = {"epochs": 40, "early_stopping_patience": 40, "folds": 1, "optimizer": "adamw"}
    trial = workshop.trial(KIND, size=Size(48, 12), model=model, own=own, learning_rate=2e-3, **settings)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0.1, ended.log
