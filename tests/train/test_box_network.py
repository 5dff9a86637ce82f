"""Boxes without weights: small made-up pictures of bright rectangles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train import box_network, detection, masks
from memory_service.train.networks import Augmentation
from memory_service.train.reading import read_tables
from tests.train.conftest import Prepare

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
SIZE = (64, 48)
BOX_SETTINGS = {"MAX_BOXES": 20, "MIN_SCORE": 0.01, "FUSE_IOU": 0.55, "FLIP": 0.5, "K": 50}


def _picture(rng: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """A rectangle, red (class 0) or blue, on a dark ground."""
    kind, (wide, high) = int(rng.integers(2)), rng.integers(10, 20, 2)
    x, y = int(rng.integers(SIZE[0] - wide)), int(rng.integers(SIZE[1] - high))
    pixels = rng.normal(60, 8, (*SIZE[::-1], 3))
    pixels[y : y + high, x : x + wide, 2 * kind] += 150
    return pixels.clip(0, 255).astype(np.uint8), [kind, x, y, x + wide, y + high]


def test_boxes_move_with_their_pictures(prepared: Prepare):
    prepared("boxes", **BOX_SETTINGS)
    rng = np.random.default_rng(0)
    drawn = [_picture(rng) for _ in range(20)]
    x = torch.tensor(np.stack([pixels for pixels, _ in drawn]).transpose(0, 3, 1, 2)).float()
    boxes = box_network.boxes_within([np.array([box]) for _, box in drawn], [SIZE] * 20)
    augment = Augmentation(shift=0.1, scale=0.25, mirrored=True)
    moves = augment.moves(20, rng)
    shown, places = augment(x, rng, moves=moves), box_network.moved(boxes, moves)
    for picture, (kind, *place) in zip(shown.amax(1), places[:, 0].numpy(), strict=True):
        down, across = np.nonzero(picture.numpy() > 140)
        ends = [(2 * at + 1) / side - 1 for side, at in zip(SIZE, (across, down), strict=True)]
        if kind >= 0:
            middle = [(each.min() + each.max()) / 2 for each in ends]
            sides = [each.max() - each.min() for each in ends]
            np.testing.assert_allclose(place, [*middle, *sides], atol=0.12)


def test_maps_that_lose_nothing_are_read_as_the_boxes(prepared: Prepare):
    prepared("boxes", **BOX_SETTINGS)
    truth = np.array([[1, 8.0, 10.0, 30.0, 26.0], [0, 40.0, 20.0, 60.0, 44.0]])
    boxes = box_network.boxes_within([truth], [SIZE])
    maps = torch.zeros(1, 6, 12, 16, requires_grad=True)
    optimiser = torch.optim.Adam([maps], 0.1)
    for _ in range(200):
        optimiser.zero_grad()
        box_network.loss_of(maps, boxes).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    found = box_network.boxes_in([lambda _: maps.detach()], torch.zeros(1, 3, 48, 64), [SIZE], False)
    best = found.reshape(-1, 6)[:2]
    best = best[np.argsort(-best[:, 1])]
    np.testing.assert_array_equal(best[:, 1], truth[:, 0])
    np.testing.assert_allclose(best[:, 2:], truth[:, 1:], atol=1.0)


def test_a_small_network_learns_where_rectangles_are(prepared: Prepare):
    prepared("boxes", **BOX_SETTINGS)
    rng = np.random.default_rng(1)
    drawn = [_picture(rng) for _ in range(16)]
    x = torch.tensor(np.stack([pixels for pixels, _ in drawn]).transpose(0, 3, 1, 2))
    boxes = box_network.boxes_within([np.array([box]) for _, box in drawn], [SIZE] * 16)
    torch.manual_seed(0)
    network = masks.unet(8, 6, box_network.FINE)
    optimiser, losses = torch.optim.AdamW(network.parameters(), 3e-3), []
    for _ in range(40):
        optimiser.zero_grad()
        loss = box_network.loss_of(network(masks.small_levels(x)), boxes)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


def test_a_run_writes_boxes_as_the_sample_shows_and_those_held_out(prepared: Prepare, tmp_path: Path):
    plan = prepared("boxes", MINUTES=0.12, FOLDS=5, METRIC="mAP@0.5", HIGHER_IS_BETTER=True, **BOX_SETTINGS)
    plan.score_of, rng, rows = detection.score_map_iou, np.random.default_rng(2), []
    for number in range(30):
        part = "train" if number < 24 else "test"
        (tmp_path / "data" / part).mkdir(exist_ok=True)
        pixels, (kind, *box) = _picture(rng)
        Image.fromarray(pixels).save(tmp_path / "data" / part / f"{number}.png")
        rows.append((number, ("red", "blue")[int(kind)], *box))
    columns = ["id", "label", "xmin", "ymin", "xmax", "ymax"]
    train, test = pd.DataFrame(rows[:24], columns=columns), pd.DataFrame(rows[24:], columns=columns)
    train.to_csv(tmp_path / "data" / "train.csv", index=False)
    test.assign(score=0.5)[["id", "xmin", "ymin", "xmax", "ymax", "score", "label"]].to_csv(
        tmp_path / "data" / "sample_submission.csv", index=False
    )
    data = detection.read_boxes(*read_tables("test.csv or sample_submission.csv"))
    (score,) = box_network.train_boxes(data, None)
    assert 0 <= score <= 1
    found, held = (pd.read_csv(tmp_path / "out" / name) for name in ("submission.csv", "oof.csv"))
    assert found.columns.tolist() == held.columns.tolist()
    assert set(found["id"]) <= set(test["id"])
    assert set(held["id"]) <= set(train["id"])
    assert set(found["label"]) <= {"red", "blue"}
    assert (found["xmax"] > found["xmin"]).all()
    assert (found[["xmax", "ymax"]].to_numpy() <= SIZE).all()
