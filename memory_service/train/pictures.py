"""Pictures without pretrained weights: gradients and colours with a kernel or trees, and a small network."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.train.kernels import FileMember, kernel_regression, random_trees, targets_of
from memory_service.train.media_files import read_image
from memory_service.train.networks import Augmentation, fit_network, samples_wanted
from memory_service.train.problem import Problem

STORE = 96
MOST_COMPARED, NEIGHBOURS, LEAST_COPIES = 8_000, 10, 0.02
PICTURE_SIZES = ((96, 32), (64, 32), (64, 24), (48, 24), (48, 16), (32, 24), (32, 16), (24, 12))
PICTURE_FILES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


def read_pictures(paths: Sequence[Any], pixels: int) -> np.ndarray:
    """uint8 (pictures, 1 or 3, pixels, pixels). A file that cannot be read is the mean of the others."""
    out = np.zeros((len(paths), 3, pixels, pixels), np.uint8)
    broken = []
    for i, path in enumerate(paths):
        try:
            shown = read_image(path, side=2 * STORE) if isinstance(path, str | Path) else path
            out[i] = np.asarray(shown.resize((pixels, pixels), reducing_gap=3.0)).transpose(2, 0, 1)
        except (OSError, ValueError, SyntaxError, MemoryError) as error:
            broken.append(i)
            reason = f"{path}: {error}"
    if broken:
        told = f"{len(broken)} of {len(paths)} pictures cannot be read, for example {reason}"
        print(f"WARNING: {told}", flush=True)
        good = np.setdiff1d(np.arange(len(paths)), broken)
        out[broken] = np.uint8(out[good[:: max(1, len(good) // 1000)]].mean(0)) if len(good) else 0
    grey = all(np.array_equal(out[:, 0], out[:, c]) for c in (1, 2))
    return out[:, :1].copy() if grey else out


def gradients(pictures: np.ndarray, cells: int, bins: int = 9) -> np.ndarray:
    """Histograms of oriented gradients of square pictures, (pictures, channels, pixels, pixels).

    Of `cells` cells a side, blocks of 2 x 2 cells are normalised, clipped at 0.2 and normalised again.
    """
    grey = np.sqrt(pictures.mean(1, dtype=np.float32) / 255)
    n, pixels = grey.shape[:2]
    down, across = np.zeros_like(grey), np.zeros_like(grey)
    down[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    across[:, :, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2]
    length, angle = np.hypot(across, down), np.arctan2(down, across) * (bins / np.pi)
    each = pixels // cells
    histogram = np.empty((n, bins, cells, cells), np.float32)
    for b in range(bins):
        off = np.abs((angle - b + bins / 2) % bins - bins / 2)
        share = (length * np.maximum(1 - off, 0))[:, : cells * each, : cells * each]
        histogram[:, b] = share.reshape(n, cells, each, cells, each).mean((2, 4))
    parts = [histogram[:, :, a : cells - 1 + a, b : cells - 1 + b] for a in (0, 1) for b in (0, 1)]
    blocks = np.concatenate(parts, 1)
    for limit in (0.2, 1.0):
        blocks = np.minimum(blocks / (np.sqrt((blocks**2).sum(1, keepdims=True)) + 0.01), limit)
    return blocks.reshape(n, -1)


def picture_features(pictures: np.ndarray) -> list[np.ndarray]:
    """Gradients, and of colour pictures a thumbnail and the histogram of each channel."""
    parts = [pictures[i : i + 500] for i in range(0, len(pictures), 500)]
    shape = [np.concatenate([np.hstack([gradients(p, 8), gradients(p, 4)]) for p in parts])]
    if pictures.shape[1] == 1:
        return shape
    size = pictures.shape[2] // 8
    small = [p.reshape(len(p), 3, 8, size, 8, size).mean((3, 5)).reshape(len(p), -1) for p in parts]
    levels = [[(p // 16 == k).mean((2, 3)) for k in range(16)] for p in parts]
    colours = [np.sqrt(np.hstack(level)) for level in levels]
    return [*shape, np.concatenate(small), np.concatenate(colours)]


def smaller(pixels: int) -> Callable[[Any], Any]:
    """A function that makes uint8 pictures smaller, by areas."""

    def shrink(x: Any) -> Any:
        from torch import cat
        from torch.nn.functional import interpolate

        if x.shape[2] <= pixels or not len(x):
            return x
        parts = [interpolate(p.float(), (pixels, pixels), mode="area") for p in x.split(1000)]
        return cat([p.round().byte() for p in parts])

    return shrink


def flips_that_help(
    problem: Problem, pictures: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> tuple[bool, bool]:
    """Whether pictures that are flipped left to right, and then also upside down and turned by 90 degrees,
    teach what holds for others.

    A ridge regression of coarse gradients learns from 1500 rows at most with and without them; they are
    kept where the error of 500 others falls by more than half a standard error.
    """
    rows = rng.permutation(rows)[:2000]
    cut = len(rows) * 3 // 4
    y = targets_of(problem)[rows]
    y = (y - y[:cut].mean(0)) / (y[:cut].std() + 1e-9)

    def features(x: np.ndarray) -> np.ndarray:
        coarse = x.reshape(len(x), x.shape[1], 8, x.shape[2] // 8, 8, x.shape[3] // 8).mean((3, 5))
        return np.hstack([gradients(x, 4), coarse.reshape(len(x), -1) / 255 * (x.shape[1] == 3)])

    def errors(shown: list[np.ndarray]) -> np.ndarray:
        """Of each held-out row, at the ridge with the least mean."""
        x, many = np.concatenate(shown), len(shown)
        inside = x.T @ x
        off = []
        for ridge in (0.01, 0.1, 1.0):
            matrix = inside + ridge * many * np.eye(x.shape[1])
            weights = np.linalg.solve(matrix, x.T @ np.tile(y[:cut], (many, 1)))
            off.append(((held @ weights - y[cut:]) ** 2).mean(1))
        return min(off, key=lambda each: float(each.mean()))

    def gains(before: np.ndarray, after: np.ndarray) -> bool:
        gain = before - after
        return bool(gain.mean() > 0.5 * gain.std() / len(gain) ** 0.5)

    import torch

    few = smaller(32)(torch.from_numpy(pictures[rows])).numpy()
    known = few[:cut]
    plain, held = features(known), features(few[cut:])
    mirrored = [plain, features(known[..., ::-1])]
    turns = (known[..., ::-1, :], known[..., ::-1, ::-1], *(np.rot90(known, k, (2, 3)) for k in (1, 3)))
    as_is, flipped = errors([plain]), errors(mirrored)
    turned = errors([*mirrored, *(features(turn) for turn in turns)])
    return gains(as_is, flipped), gains(min(as_is, flipped, key=np.mean), turned)


@lru_cache(maxsize=1)
def _small(paths: tuple[Path | str, ...]) -> np.ndarray:
    return read_pictures(paths, 64)


def near_copies(paths: Sequence[Path | str], others: Sequence[Path | str]) -> np.ndarray | None:
    """A number for each of `paths`: those of one picture and its near copies (other colours, cut or saved
    anew) have the same. Near are pictures whose gradients differ four times less than those of the tenth
    nearest one. None where there are hardly any, or where all pictures are alike. `others` are read, too.
    """
    if not 2 * NEIGHBOURS < len(paths) <= MOST_COMPARED:
        return None
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import NearestNeighbors

    shapes = gradients(_small((*paths, *others))[: len(paths)], 8)
    off, rows = NearestNeighbors(n_neighbors=NEIGHBOURS, metric="cosine").fit(shapes).kneighbors()
    one, place = np.nonzero(off < off.max(axis=1, keepdims=True) / 4)
    pairs = csr_matrix((np.ones(len(one)), (one, rows[one, place])), (len(paths), len(paths)))
    groups: np.ndarray = connected_components(pairs, directed=False)[1]
    sizes = np.bincount(groups)
    few = (sizes[groups] > 1).mean() < LEAST_COPIES
    return None if few or sizes.max() > max(20, len(paths) // 50) else groups


def _read_gradients(problem: Problem, _rows: np.ndarray) -> list[np.ndarray]:
    found = picture_features(_small((*problem.inputs, *problem.test_inputs)))
    _small.cache_clear()  # pictures take more room than their features
    return found


def _read_looks(problem: Problem, rows: np.ndarray) -> list[np.ndarray]:
    """What `_read_gradients` reads, sizes of the files, and what share of a picture is of its commonest hues,
    lights and saturations."""
    paths = [*problem.inputs, *problem.test_inputs]
    looks = np.zeros((len(paths), 4 + 3 * 14), np.float32)
    for place, path in enumerate(paths):
        with suppress(OSError, ValueError, SyntaxError, MemoryError):
            image = read_image(path, side=64)
            width, height = image.size
            levels = np.asarray(image.resize((48, 48)).convert("HSV"), np.float32).reshape(-1, 3)
            colours = len(np.unique(levels.astype(int) // 32 @ [1, 8, 64]))
            parts = [np.histogram(levels[:, c], 12, (0, 256))[0] / len(levels) for c in range(3)]
            spread = [*levels.mean(0), *levels.std(0)]
            looks[place] = [width, height, width / height, colours, *spread, *np.concatenate(parts)]
    return [*_read_gradients(problem, rows), looks]


def _small_pictures(problem: Problem, rows: np.ndarray) -> tuple[np.ndarray, Augmentation, list[Any]]:
    paths = [*problem.inputs, *problem.test_inputs]
    pictures = read_pictures(paths, STORE if len(paths) <= 40_000 else 64)
    mirrored, turned = flips_that_help(problem, pictures, rows, np.random.default_rng(0))
    light = 0.2 if pictures.shape[1] == 3 else 0.0
    augment = Augmentation(10.0, bend=0.01, light=light, mirrored=mirrored, turned=turned)
    return pictures, augment, [(smaller(pixels), width) for pixels, width in PICTURE_SIZES]


PICTURE_GRADIENTS = FileMember(
    "gradients of pictures, kernel", PICTURE_FILES, "PIL", _read_gradients, kernel_regression,
    lambda _n, files: 12.0 + 0.008 * files, alike=near_copies,
)  # fmt: skip
PICTURE_TREES = FileMember(
    "gradients and colours of pictures, random trees", PICTURE_FILES, "PIL", _read_looks, random_trees,
    lambda n, files: 4.0 + 0.012 * files + 0.01 * n, alike=near_copies,
)  # fmt: skip
PICTURE_NETWORK = FileMember(
    "small network, pictures", PICTURE_FILES, "torch", _small_pictures, fit_network,
    lambda n, _files: 10.0 + 2.5e-3 * samples_wanted(n), anytime=True, seeded=True,
)  # fmt: skip

PICTURE_MEMBERS = (PICTURE_GRADIENTS, PICTURE_NETWORK, PICTURE_TREES)
