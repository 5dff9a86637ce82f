"""Pictures of more bands than three colours: arrays, .tif with rasterio or tifffile, what Pillow reads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.train.budget import plan

MOST_LEVELS = 200  # pictures that the mean of each band is taken of


class BandPicture:
    """float32 (height, width, bands), with what scripts ask of a picture of Pillow."""

    def __init__(self, levels: np.ndarray) -> None:
        self.levels, (self.height, self.width) = levels, levels.shape[:2]
        self.size = self.width, self.height

    def resize(self, size: tuple[int, int], box: Any = None) -> np.ndarray:
        from PIL import Image

        bands = (Image.fromarray(np.ascontiguousarray(band)) for band in np.moveaxis(self.levels, 2, 0))
        return np.stack([np.asarray(band.resize(size, Image.Resampling.BILINEAR, box)) for band in bands], 2)


def read_bands(path: Path | str) -> BandPicture:
    """The bands may be the first axis or the last; other numbers of them are a ValueError."""
    kind = Path(path).suffix.lower()
    if kind in (".npy", ".npz"):
        found = np.load(path, allow_pickle=False)
        levels = found if kind == ".npy" else found[found.files[0]]
    else:
        levels = read_tif(path) if kind in (".tif", ".tiff") else _read_colours(path)
    if levels.ndim == 3 and levels.shape[2] != plan.BANDS:
        levels = np.moveaxis(levels, 0, 2)
    if levels.ndim != 3 or levels.shape[2] != plan.BANDS:
        raise ValueError(f"{Path(path).name} has the shape {levels.shape}, not {plan.BANDS} bands")
    return BandPicture(np.nan_to_num(levels.astype(np.float32)))


def read_tif(path: Path | str) -> np.ndarray:
    with suppress(ImportError):
        import rasterio  # type: ignore[import-not-found]

        with rasterio.open(path) as file:
            return np.asarray(file.read())
    with suppress(ImportError):
        import tifffile  # type: ignore[import-not-found]

        return np.asarray(tifffile.imread(path))
    raise SystemExit(
        "A .tif of more than three bands needs the package rasterio or tifffile; .npy needs none"
    )


def _read_colours(path: Path | str) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as file:
        return np.asarray(file)


def band_levels(paths: list) -> tuple[np.ndarray, np.ndarray]:
    """(mean, deviation) of each band over some of the files, in 255ths as of colours."""
    found = []
    for path in paths[:: max(1, len(paths) // MOST_LEVELS)]:
        with suppress(OSError, ValueError):
            levels = read_bands(path).levels.reshape(-1, plan.BANDS).astype(float)
            found.append((levels.mean(0), (levels**2).mean(0)))
    if not found:
        raise OSError(f"none of the pictures can be read as {plan.BANDS} bands, such as {paths[0]}")
    mean, square = np.mean(found, axis=0)
    deviation = np.sqrt(np.maximum(square - mean**2, 1e-12))
    return (mean / 255).astype(np.float32), (deviation / 255).astype(np.float32)
