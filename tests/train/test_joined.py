"""Rows that name pictures and videos: what is read of them, and what the members get."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train import media
from memory_service.train.budget import state
from memory_service.train.engine import members_of, problem_of
from tests.train.conftest import Prepare

ROWS, TEST = 40, 10


def write(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Red and blue pictures beside a text and a number; the first row has no target."""
    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    red = rng.integers(0, 2, ROWS + TEST)
    for n, kind in enumerate(red):
        pixels = rng.normal((200, 60, 60) if kind else (60, 60, 200), 10, (24, 24, 3))
        Image.fromarray(np.uint8(pixels.clip(0, 255))).save(folder / "photos" / f"p{n}.png")
    table = pd.DataFrame({
        "id": [f"r{n}" for n in range(ROWS + TEST)],
        "image": [f"photos/p{n}.png" for n in range(ROWS + TEST)],
        "text": [" ".join(rng.choice(["a", "good", "bad", "film", "book", "day"], 6)) for _ in red],
        "size": rng.normal(size=ROWS + TEST),
        "price": np.where(np.arange(ROWS + TEST) == 0, np.nan, red + rng.normal(0, 0.05, ROWS + TEST)),
    })  # fmt: skip
    return table[:ROWS], table[ROWS:].drop(columns="price").reset_index(drop=True)


def test_pictures_texts_and_numbers_are_learned_together(tmp_path: Path, prepared: Prepare):
    prepared("values", TASK="multimodal", WEIGHTS="none", file_members=media.BLOCK_MEMBERS)
    train, test = write(tmp_path / "data")
    data = media.read_joined(train, test, None)
    assert [path.name for path in data.media["image"]][:2] == ["p1.png", "p2.png"], "row 0 is left out"
    assert [*data.columns] == ["text", "size"]
    problem = problem_of(data)
    media.add_media(problem, data)
    assert all(len(block) == ROWS - 1 + TEST for block in problem.blocks)
    assert len(problem.blocks) == 5, "gradients, thumbnails, colours, topics, the number"
    assert sum("image: " in name for name in problem.inputs) > 20
    names = [member.name for member in members_of(problem)]
    assert {"LightGBM", "features, linear", "words and characters, linear"} <= {*names}
    fit = media.BLOCK_MEMBERS[0].fit(problem, np.arange(30), np.arange(30, 39), 0, None, {})
    off = fit.valid[:, 0] - data.targets[30:, 0]
    assert (off**2).mean() < 0.3 * data.targets.var()


def test_a_run_that_ends_reads_nothing_and_blends_what_was_fitted(tmp_path: Path, prepared: Prepare):
    prepared("values", TASK="multimodal", WEIGHTS="none", file_members=media.BLOCK_MEMBERS)
    data = media.read_joined(*write(tmp_path / "data"), None)
    state.stop, problem = True, problem_of(data)
    for path in (tmp_path / "data" / "photos").iterdir():
        path.unlink()
    media.add_media(problem, data)
    assert {"LightGBM", "features, linear"} <= {member.name for member in members_of(problem)}


def test_the_plans_encoder_looks_where_its_weights_are(tmp_path: Path, prepared: Prepare):
    torch, timm = pytest.importorskip("torch"), pytest.importorskip("timm")
    state.minutes = 10.0
    (tmp_path / "weights").mkdir()
    torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "weights" / "test_resnet.pth")
    prepared("values", MODEL="image+tabular/test_resnet", WEIGHTS=str(tmp_path / "weights"))
    shown = [Image.new("RGB", (20, 30), colour) for colour in ("red", "blue", "red")]
    found = media.encoded_pictures([*shown, tmp_path / "none.png"])
    assert found is not None
    assert found[0] == pytest.approx(found[2])
    assert np.abs(found[0] - found[1]).max() > 1e-4
    prepared("values", MODEL="image+tabular/test_resnet", WEIGHTS=str(tmp_path))
    (tmp_path / "weights" / "test_resnet.pth").unlink()
    assert media.encoded_pictures(shown) is None, "without weights others learn"


def test_a_video_that_is_missing_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepare
):
    prepared("labels", WEIGHTS="none")
    monkeypatch.setitem(sys.modules, "cv2", None)
    (tmp_path / "film").mkdir()
    Image.new("RGB", (32, 32), (99, 0, 0)).save(tmp_path / "film" / "0.png")
    (tmp_path / "film.mp4").write_bytes(b"no film")
    films = [tmp_path / name for name in ("none", "film", "film.mp4", "none.mp4")]
    found = media.features_of_media(films, np.arange(4))
    assert all(len(block) == 4 and np.isfinite(block).all() for block in found.values())
    with pytest.raises(ValueError, match="no video can be read"):
        media.features_of_media([tmp_path / "film.mp4"], np.arange(1))


def test_frames_of_a_folder_and_of_a_gif_tell_what_moves(tmp_path: Path):
    shown = [Image.new("RGB", (32, 32), (shade, 0, 0)) for shade in range(0, 200, 10)]
    shown[0].save(tmp_path / "film.gif", save_all=True, append_images=shown[1:])
    (tmp_path / "film").mkdir()
    for n, image in enumerate(shown):
        image.save(tmp_path / "film" / f"{n:02d}.png")
    assert len(media.frames_of(tmp_path / "film.gif")) == len(media.frames_of(tmp_path / "film")) == 8
    assert media.frames_of(tmp_path / "none.gif") == []
    moved = media.over_time(np.array([[0.0], [1.0], [5.0]]), np.array([0, 2, 3]))
    assert moved.tolist() == [[0.5, 0.5, 1.0], [5.0, 0.0, 0.0]]


def test_what_moves_shows_in_where_the_change_is():
    def film(steps: list[int]) -> np.ndarray:
        frames = np.full((len(steps), media.SIDE, media.SIDE), 40.0)
        for frame, left in zip(frames, steps, strict=True):
            frame[12:24, left : left + 12] = 220
        return frames

    films = [film(steps) for steps in ([*range(4, 44, 5)], [*range(44, 4, -5)], [20, 20])]
    found = media.motion_features(np.concatenate(films), np.array([0, 8, 16, 18]))
    assert np.isfinite(found).all()
    assert found.shape[0] == 3
    rises = found[0] - found[1]
    assert rises.max() > 0.2
    assert rises.min() < -0.2
    np.testing.assert_allclose(found[2], media.motion_features(films[2], np.array([0, 2]))[0], rtol=1e-4)
