"""Masks: which file is whose, what a mask means, and how it is submitted. Nothing is trained."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.scripts.harness.workshop import rows_of, write_rows
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def named_as_photographs(folder: Path) -> None:
    """Ids have the ending of an image, and every second mask is `<id>_mask`."""
    for name in ("train.csv", "test.csv", "sample_submission.csv"):
        head, *rows = rows_of(folder / name)
        write_rows(folder / name, [head, *([f"{row[0]}.jpg", *row[1:]] for row in rows)])
    for path in sorted((folder / "train_masks").iterdir())[::2]:
        path.rename(path.with_stem(f"{path.stem}_mask"))


def test_masks_are_found_by_ids_that_have_another_ending(opened: Open) -> None:
    data = opened("image-segmentation", named_as_photographs).read_data()
    for name, image, mask in zip(data.ids, data.inputs, data.targets, strict=True):
        assert Path(mask).exists()
        assert image.stem == Path(mask).stem.removesuffix("_mask") == Path(name).stem


def test_a_sample_that_asks_for_more_than_run_lengths_ends_the_run_at_once(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "sample_submission.csv")
        table = [[head[0], "class", head[1]], *([row[0], "1", row[1]] for row in rows)]
        write_rows(folder / "sample_submission.csv", table)

    with pytest.raises(ValueError, match="'class', 'rle_mask'"):
        opened("image-segmentation", spoil).read_data()


def test_an_image_without_a_mask_is_learned_from_as_empty(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    script = opened("image-segmentation", lambda folder: (folder / "train_masks" / "0003.png").unlink())
    data = script.read_data()
    assert f"1 of {len(data.ids)} images have no mask" in capsys.readouterr().out
    for train in (True, False):
        (_, mask), row, readable = script.Masks(data.inputs, [3], data.targets, train)[0]
        assert (row, readable, mask.shape, float(mask.sum())) == (3, 1.0, (1, 32, 32), 0.0)
    assert script.run_lengths(np.asarray(script.read_mask(data.targets[3])) > 0) == ""
    for path in (script.DATA_DIR / "train_masks").iterdir():
        path.rename(path.with_stem(f"m{path.stem}"))
    with pytest.raises(FileNotFoundError, match="no file of train_masks is named"):
        script.read_data()


def test_masks_without_an_object_are_shared_alike_among_the_folds(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        for path in sorted((folder / "train_masks").iterdir())[:18]:
            path.unlink()

    script = opened("image-segmentation", spoil, folds=3)
    script.plan.SPLIT = "stratified"
    data = script.read_data()
    for seed in range(3):
        assert [sum(valid < 18) for _, valid in script.split_once(data, seed)] == [6, 6, 6]


def test_masks_for_which_there_is_no_time_stay_as_they_were(opened: Open) -> None:
    script = opened("image-segmentation", lambda folder: None)
    data = script.read_data()
    script.state.out_dir.mkdir()
    count = len(data.test_ids)
    first = [f"{n} 1" for n in range(count)]
    assert script.with_earlier(data, [None, *first[1:]])[:2] == ["", "1 1"], "there is no submission yet"
    script.write_submission(data, script.mask_table(data, first), script.state.out_dir)
    assert script.with_earlier(data, ["5 5", "", *[None] * (count - 2)]) == ["5 5", "", *first[2:]]


def test_the_time_that_full_size_masks_take_is_measured(opened: Open, tmp_path: Path) -> None:
    script = opened("image-segmentation", lambda folder: None)
    Image.new("RGB", (64, 32)).save(tmp_path / "wide.png")
    sizes: list[tuple[int, ...]] = []

    def noted(mask: np.ndarray) -> str:
        sizes.append(mask.shape)
        return ""

    script.module.run_lengths = noted
    assert script.seconds_to_encode(tmp_path / "wide.png") > 0
    assert sizes == [(32, 64)] * 3
    assert script.seconds_to_encode(tmp_path / "none.png") == 0


def test_kinds_of_masks_are_grey_values_of_files_or_columns_of_their_own(opened: Open) -> None:
    def spoil(folder: Path) -> None:
        for path in (folder / "train_masks").iterdir():
            levels = np.zeros((32, 32), np.uint8)
            levels[:4], levels[20:] = 1, 2
            Image.fromarray(levels).save(path)
        head, *rows = rows_of(folder / "sample_submission.csv")
        table = [[row[0], kind, ""] for row in rows for kind in ("sky", "sea")]
        write_rows(folder / "sample_submission.csv", [[head[0], "class", head[1]], *table])

    script = opened("image-segmentation", spoil)
    data = script.read_data()
    assert data.outputs == ["sky", "sea"]
    (_, masks), _, _ = script.Masks(data.inputs, [3], data.targets)[0]
    assert masks.mean((1, 2)).tolist() == [4 / 32, 12 / 32]
    table = script.mask_table(data, [f"{n} 1\n{n} 2" for n in range(len(data.test_ids))])
    assert table.columns.tolist() == ["id", "class", "rle_mask"]
    first = data.test_ids.index(table["id"][0])
    assert table["rle_mask"][:2].tolist() == [f"{first} 1", f"{first} 2"]


def test_a_mask_for_which_memory_ran_out_is_made_again(opened: Open) -> None:
    module = opened("image-segmentation", lambda folder: None).module
    texts = [RuntimeError("out of memory"), "1 2"]

    def encoded(*_: object) -> object:
        if isinstance(found := texts.pop(0), RuntimeError):
            raise found
        return found

    module.found_masks = lambda *_: [(0, torch.ones(1, 2, 2), [2, 2])]
    module.encode_mask, module.recover = encoded, lambda *_: None
    assert module.encode_all([None], ["one.png"], math.inf, None) == ["1 2"]
