"""Are images and sounds what is in their files, and are their files found? Functions of a script are called,
nothing is trained."""

from __future__ import annotations

import types
import wave
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from memory_service.train import reading
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def test_greys_of_sixteen_bits_keep_their_shades_and_masks_their_object(opened: Open, tmp_path: Path) -> None:
    script = opened("image-segmentation", lambda folder: None)
    ramp = np.tile(np.linspace(900, 3900, 50).astype(np.uint16), (20, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    shades = np.asarray(script.read_image(tmp_path / "ramp.png"))
    assert (shades.min(), shades.max(), shades.shape) == (0, 255, (20, 50, 3))
    assert len(np.unique(shades)) == 50
    there = np.zeros((20, 50), bool)
    there[5:9, 10:30] = True
    painted = np.dstack([there * 255] * 3 + [np.full_like(there, 255, dtype=int)]).astype(np.uint8)
    black = Image.fromarray(there.astype(np.uint8)).convert("P")
    black.putpalette([0, 0, 0] * 256)
    for mask in (Image.fromarray(there.astype(np.uint16)), Image.fromarray(painted), black):
        mask.save(tmp_path / "mask.png")
        assert (np.asarray(script.read_mask(str(tmp_path / "mask.png"))) == 255 * there).all()
    Image.fromarray(255 * there.astype(np.uint8)).save(tmp_path / "mask.jpg", quality=60)
    assert (np.asarray(script.read_mask(str(tmp_path / "mask.jpg"))) == 255 * there).all()


def test_a_photograph_is_decoded_as_large_as_it_is_needed(opened: Open, tmp_path: Path) -> None:
    script = opened("image-classification", lambda folder: None)
    ramp = np.tile(np.linspace(0, 255, 1600), (1200, 1)).astype(np.uint8)
    for mode, ending in (("RGB", "jpg"), ("L", "jpg"), ("RGB", "png")):
        Image.fromarray(ramp).convert(mode).save(tmp_path / f"ramp.{ending}", quality=95)
        decoded = script.read_image(tmp_path / f"ramp.{ending}", side=280)
        assert decoded.size == ((400, 300) if ending == "jpg" else (1600, 1200))
        whole = Image.fromarray(ramp).convert("RGB").resize((64, 64))
        assert np.abs(np.asarray(decoded.resize((64, 64)), int) - np.asarray(whole, int)).max() < 6


@pytest.mark.parametrize("kind", ["image-classification", "object-detection"])
def test_a_photograph_that_was_taken_on_its_side_is_upright(opened: Open, tmp_path: Path, kind: str) -> None:
    script = opened(kind, lambda folder: None)
    upright = np.zeros((64, 48, 3), dtype=np.uint8)
    upright[:32] = 200
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    lying = Image.fromarray(np.rot90(upright).copy())
    for name, said in (("turned.jpg", exif.tobytes()), ("broken.jpg", b"Exif\0\0nothing")):
        lying.save(tmp_path / name, exif=said, quality=95)
    seen = np.asarray(script.read_image(tmp_path / "turned.jpg"), dtype=int)
    assert seen.shape == upright.shape
    assert np.abs(seen - upright).mean() < 3
    assert script.read_image(tmp_path / "broken.jpg").size == (64, 48)


def test_of_a_picture_that_is_cut_off_the_readable_part_counts_if_there_is_one(
    opened: Open, tmp_path: Path
) -> None:
    script = opened("image-classification", lambda folder: None)
    ramp = np.tile(np.linspace(0, 255, 400).astype(np.uint8), (400, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.jpg")
    Image.fromarray(np.full_like(ramp, 9)).save(tmp_path / "plain.jpg")
    whole = (tmp_path / "ramp.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "head.jpg").write_bytes(whole[: whole.index(b"\xff\xda") + 12])  # no pixel
    assert len(np.unique(np.asarray(script.read_image(tmp_path / "half.jpg", partial=True)))) > 200
    assert np.unique(np.asarray(script.read_image(tmp_path / "plain.jpg", partial=True))).tolist() == [9]
    with pytest.raises(OSError, match="truncated"):
        script.read_image(tmp_path / "head.jpg", partial=True)


def test_images_may_lie_in_train_images_and_a_missing_folder_is_named(opened: Open) -> None:
    script = opened("image-classification", lambda folder: (folder / "train").rename(folder / "train_images"))
    assert all(path.exists() for path in script.read_data().inputs)
    for path in (script.DATA_DIR / "train_images").iterdir():
        path.unlink()
    (script.DATA_DIR / "train_images").rmdir()
    for path in (script.DATA_DIR / "test").iterdir():
        path.rename(path.with_stem(f"t{path.stem}"))
    reading.FILES.clear()
    with pytest.raises(FileNotFoundError, match="train is not there, but test: change read_data"):
        script.read_data()


def test_files_are_found_in_any_folder_by_the_column_that_names_them(opened: Open) -> None:
    """One folder of pictures for both tables, whose ids are no names of files."""

    def spoil(folder: Path) -> None:
        (folder / "pictures" / "all").mkdir(parents=True)
        for part in ("train", "test"):
            for path in (folder / part).iterdir():
                path.rename(folder / "pictures" / "all" / f"{part[:2]}{path.name}")
            (folder / part).rmdir()
            head, *rows = rows_of(folder / f"{part}.csv")
            named = [[str(n), f"pictures/all/{part[:2]}{row[0]}.jpg", *row[1:]] for n, row in enumerate(rows)]
            write_rows(folder / f"{part}.csv", [["row", "where", *head[1:]], *named])

    data = opened("image-classification", spoil).read_data()
    assert [path.name for path in (data.inputs[0], data.test_inputs[0])] == ["tr0000.jpg", "te0048.jpg"]
    assert all(path.exists() for path in (*data.inputs, *data.test_inputs))


def test_images_are_found_by_the_column_that_names_their_files_where_ids_do_not(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        for name in ("train.csv", "test.csv"):
            head, *rows = rows_of(folder / name)
            named = [[f"post_{row[0]}", "7", f"{row[0]}.jpg", *row[1:]] for row in rows]
            write_rows(folder / name, [["posting_id", "image_width", "image", *head[1:]], *named])

    data = opened("image-retrieval", spoil).read_data()
    assert data.ids[:2] == ["post_000", "post_001"]
    assert [path.name for path in data.inputs[:2]] == ["000.jpg", "001.jpg"]
    assert all(path.exists() for path in (*data.inputs, *data.test_inputs))


@pytest.mark.parametrize(("shown", "right"), [("g3 g4", False), ("100 g4", True), ("", True)])
def test_a_sample_of_groups_wants_no_ids_of_test_images(opened: Open, shown: str, right: bool) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "sample_submission.csv")
        write_rows(folder / "sample_submission.csv", [head, *([row[0], shown] for row in rows)])

    script = opened("image-retrieval", spoil)
    with nullcontext() if right else pytest.raises(ValueError, match=r"g3, g4: .* image-classification"):
        assert len(script.read_data().test_ids) == 24


def test_files_of_which_none_can_be_read_end_the_training_at_once(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        for path in (folder / "train").iterdir():
            path.write_bytes(b"no picture")

    script = opened("image-classification", spoil)
    data = script.read_data()
    rows = np.arange(len(data.targets))
    with pytest.raises(OSError, match="none of 48 samples could be read"):
        script.train_fold(1, data, rows, rows[:8], None)


def test_a_sound_is_read_by_soundfile_where_there_is_one(opened: Open) -> None:
    script = opened("audio-classification", lambda folder: None)
    ramp = np.linspace(0, 1, 8_000)  # a second, in one of two channels
    begun: list[int] = []
    file = types.SimpleNamespace(samplerate=8_000, frames=8_000, seek=begun.append)
    file.read = lambda frames, **_: np.stack([ramp, 0 * ramp], axis=1)[begun[-1] : begun[-1] + frames]
    script.module.soundfile = types.SimpleNamespace(SoundFile=lambda path: nullcontext(file))
    for place in (0.0, 0.5, 1.0):
        sound = script.read_sound(Path("any.flac"), 0.1, place, 32_000)
        assert sound.shape == (3204,)
        assert sound[[5, -5]] == pytest.approx([0.45 * place, 0.05 + 0.45 * place], abs=2e-3)


def test_test_files_that_are_not_there_are_counted_before_anything_is_learned(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("audio-classification", lambda folder: next((folder / "test").iterdir()).unlink())
    data = script.read_data()
    assert f"WARNING: 1 of {len(data.test_ids)} files of the test set are not in" in capsys.readouterr().out
    for path in (script.DATA_DIR / "test").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="change read_data"):
        script.read_data()


def test_a_part_of_a_sound_is_read_and_what_is_too_high_for_the_rate_is_not_heard_lower(
    opened: Open, tmp_path: Path
) -> None:
    """A minute of 20 kHz that ends in a second of 1 kHz, at 48 kHz."""
    script = opened("audio-classification", lambda folder: None)
    moments = np.arange(60 * 48_000) / 48_000
    pitch = np.where(moments < 59, 20_000, 1_000)
    with wave.open(str(tmp_path / "long.wav"), "wb") as file:
        file.setparams((1, 2, 48_000, 0, "NONE", "NONE"))
        file.writeframes((20_000 * np.sin(2 * np.pi * pitch * moments)).astype("<i2").tobytes())
    high, low = (script.read_sound(tmp_path / "long.wav", 0.5, place, 32_000) for place in (0.3, 1.0))
    assert len(high) == len(low) == pytest.approx(16_000, abs=2)
    assert np.std(high) < 0.01
    assert np.std(low) == pytest.approx(20_000 / 2**15.5, rel=0.01)


def test_a_short_sound_repeats_and_one_with_values_that_are_no_numbers_is_not_read(opened: Open) -> None:
    script = opened("audio-classification", lambda folder: None)
    part = np.arange(100, dtype=np.float32)
    script.plan.read_sound = lambda path, *_: part if path == "short" else np.append(part, np.nan)
    sounds = script.Sounds("test", types.SimpleNamespace(test_inputs=["short", "bad"]), np.arange(2), {})
    heard, _, readable = sounds[0]
    assert (heard[:300].reshape(3, 100).numpy() == part).all()
    assert readable
    assert not sounds[1][2]


def five_bands(folder: Path) -> None:
    """Arrays of five bands, four times as wide as high, in place of pictures."""
    for path in [*(folder / "train").iterdir(), *(folder / "test").iterdir()]:
        colours = np.tile(np.asarray(Image.open(path), np.float32), (1, 4, 1))
        np.save(path.with_suffix(".npy"), np.dstack([colours, colours[..., :2]]))
        path.unlink()


def bands_of(workshop: Workshop, name: str, **more: object) -> dict[str, Any]:
    return {**workshop.plan(name)["model"], "bands": 5, **more}


def test_a_network_of_five_bands_learns_strips_as_wide_as_they_are(workshop: Workshop) -> None:
    model = bands_of(workshop, "image-classification", image_shape=[64, 32])
    trial = workshop.trial("image-classification", spoil=five_bands, model=model)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "WARNING" not in ended.log
    assert "in the file of each id" not in ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log
    weights = torch.load(trial.out / trial.checkpoints()[0], map_location="cpu")["model"]
    assert next(each for each in weights.values() if each.ndim == 4).shape[1] == 5


def test_bands_are_scaled_by_training_pictures_and_another_number_of_them_is_told(
    opened: Open, workshop: Workshop, tmp_path: Path
) -> None:
    model = bands_of(workshop, "image-classification", image_shape=[64, 32])
    script = opened("image-classification", five_bands, model=model)
    data, plan = script.read_data(), script.plan
    assert plan.IMAGE_SHAPE == (32, 64)
    seen = plan.make_dataset("valid", data, range(len(data.inputs)), {})
    pixels = torch.stack([seen[row][0] for row in range(len(data.inputs))])
    assert pixels.shape[1:] == (5, 32, 64)
    assert pixels.mean((0, 2, 3)).abs().max() < 0.2
    assert pixels.std((0, 2, 3)).sub(1).abs().max() < 0.3
    np.save(tmp_path / "four.npy", np.zeros((4, 9, 9)))
    with pytest.raises(ValueError, match=r"four.npy has the shape .* not 5 bands"):
        plan.read_image(tmp_path / "four.npy")
    np.save(tmp_path / "first.npy", np.zeros((5, 9, 7)))
    assert plan.read_image(tmp_path / "first.npy").size == (7, 9)


def test_masks_of_pictures_with_five_bands_are_cut_as_these_are(opened: Open, workshop: Workshop) -> None:
    script = opened("image-segmentation", five_bands, model=bands_of(workshop, "image-segmentation"))
    data = script.read_data()
    (pixels, mask), _, readable = script.Masks(data.inputs, [3], data.targets, True)[0]
    assert (pixels.shape, mask.shape, readable) == ((5, 32, 32), (1, 32, 32), 1.0)
    assert script.build_model({"outputs": [0]}, False).eval()(pixels[None]).shape == (1, 1, 32, 32)
