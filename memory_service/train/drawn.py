"""Pictures that are written as numbers: in an array, a cell or a column for each pixel."""

from __future__ import annotations

import re
import tempfile
import zlib
from functools import lru_cache
from math import isqrt
from pathlib import Path

import numpy as np
import pandas as pd

PIXELS = re.compile(r"(?:pixels?|pix|px|p)?[_ .-]?\d{1,6}(?:x\d{1,6})?", re.IGNORECASE)  # a column
LEAST_SIDE = 8
LIGHT = 100  # the lightest pixel of bytes that are pictures: others are counts or bits
DRAWN: dict[str, np.ndarray] = {}  # name -> height, width and perhaps colours


@lru_cache(maxsize=1)
def drawn_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="memory-pictures-")  # it goes with the process


def drawn_file(name: str) -> Path | None:
    """Of one of `drawn_names`."""
    if (pixels := DRAWN.get(name)) is None:
        return None
    path = Path(drawn_folder().name) / name
    if not path.exists():
        from PIL import Image

        Image.fromarray(pixels).save(path, compress_level=1)
    return path


def as_pictures(array: np.ndarray) -> np.ndarray | None:
    """uint8 (pictures, height, width[, 3]) of an array of them or of their pixels; None of something else."""
    if array.ndim == 2 and array.dtype == np.uint8 and array.size and array.max() > LIGHT:
        side, colours = isqrt(array.shape[1]), isqrt(array.shape[1] // 3)
        if side**2 == array.shape[1]:
            array = array.reshape(-1, side, side)
        elif 3 * colours**2 == array.shape[1]:
            array = array.reshape(-1, colours, colours, 3)
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] > 4:
        array = np.moveaxis(array, 1, 3)
    several = array.ndim == 4 and array.shape[3] in (1, 3, 4)
    if not (several or (array.ndim == 3 and array.dtype == np.uint8)) or min(array.shape[1:3]) < LEAST_SIDE:
        return None
    if array.dtype != np.uint8:
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        usual = [(a, b) for a, b in ((0, 1), (0, 255), (-1, 1)) if a <= low and b / 4 < high <= b]
        if usual:  # else one pixel far off would make training and test pictures of different light
            low, high = usual[0]
        else:
            low, high = np.nanquantile(array[:: 1 + len(array) // 1000], (0.001, 0.999))
        array = (np.nan_to_num(array) - low) / max(high - low, 1e-9)
        array = (array.clip(0, 1) * 255).astype(np.uint8)
    return array[..., 0] if several and array.shape[3] == 1 else array[..., :3] if several else array


def drawn_names(pictures: np.ndarray, name: str) -> list[str]:
    """By what they show, too: other arrays of this name have other pictures."""
    mark = zlib.crc32(np.ascontiguousarray(pictures).data)
    names = [f"{re.sub(r'[^0-9A-Za-z]', '_', name)}_{mark:08x}_{row}.png" for row in range(len(pictures))]
    DRAWN.update(zip(names, pictures, strict=True))
    return names


def whole_bytes(numbers: np.ndarray) -> np.ndarray | None:
    """As uint8, where they are whole and as dark and light as those of pictures are."""
    light = (
        len(numbers) and np.isfinite(numbers).all() and numbers.min() >= 0 and LIGHT < numbers.max() <= 255
    )
    return numbers.astype(np.uint8) if light and (numbers % 1 == 0).all() else None


def with_pixels(
    train: pd.DataFrame, test: pd.DataFrame, names: list[str], image: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns of whole numbers that make a square, such as pixel0, pixel1 ..., as one of pictures."""
    if len(names) < LEAST_SIDE**2:
        return train, test
    found = [whole_bytes(table[names].to_numpy(float, na_value=np.nan)) for table in (train, test)]
    pictures = [each for one in found if one is not None and (each := as_pictures(one)) is not None]
    if len(pictures) < 2:
        return train, test
    print(f"NOTE: {len(names)} numbers of a row are read as pixels of a picture", flush=True)
    drawn = [
        drawn_names(each, f"{role}_{image}") for role, each in zip(("train", "test"), pictures, strict=True)
    ]
    return tuple(
        t.drop(columns=names).assign(**{image: each}) for t, each in zip((train, test), drawn, strict=True)
    )


def with_pixel_columns(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = [name for name in train.columns if name in test.columns and PIXELS.fullmatch(str(name))]
    return with_pixels(train, test, names, "image")
