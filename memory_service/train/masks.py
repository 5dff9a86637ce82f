"""Segmentation without pretrained weights: a small U-Net, and the threshold that a held-out part asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_service.train.budget import Deadline, plan, report, state, usable_cores
from memory_service.train.folds import split
from memory_service.train.media_files import USUAL_LEVELS, as_colours, read_image, read_mask, take_pictures
from memory_service.train.networks import Augmentation, multiplications, speed, train_small
from memory_service.train.problem import Clock
from memory_service.train.reading import Data
from memory_service.train.writing import add_out_of_fold, mask_table, run_lengths, write_submission

if TYPE_CHECKING:
    from torch import Tensor

MASK_SIZES = ((256, 16), (192, 16), (192, 12), (160, 12), (128, 12), (96, 8))
THRESHOLDS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)
AREAS = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03)
MASK_AUGMENTATION = Augmentation(degrees=5, shift=0.1, scale=0.25, light=0.3, mirrored=True)
FIRST = 0.35


@dataclass
class MaskPrediction:
    """Masks of the rows that validate, at their own size, (kinds, height, width), and run lengths of the test
    pictures, a line for each kind.

    score       mean Dice of the rows that validate; of none, None
    threshold   of each kind, of the probability of a pixel
    smallest    of each kind the share of the picture below which a mask is left out
    """

    valid: list[np.ndarray]
    test: list[str]
    score: float | None
    threshold: list[float] = field(default_factory=list)
    smallest: list[float] = field(default_factory=list)
    complete: bool = True
    passes: list[float] = field(default_factory=list)


def dice(truth: Any, mask: Any) -> float:
    """Of two empty masks 1."""
    both = float(truth.sum() + mask.sum())
    return 1.0 if both == 0 else 2 * float((truth & mask).sum()) / both


def hold_out(images: Sequence[Path], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that train and that validate, a fifth: pictures that look alike stay together."""
    from sklearn.cluster import KMeans

    small = [np.asarray(read_image(p, side=64).resize((16, 16)), np.float32).reshape(-1) for p in images]
    clusters = int(np.clip(len(images) // 8, 2, 100))
    groups = KMeans(clusters, n_init=1, random_state=seed).fit_predict(np.stack(small))
    names, numbers = np.unique(groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    sizes = np.cumsum(np.bincount(numbers)[order])
    held = order[: max(1, int(np.searchsorted(sizes, 0.2 * len(images))))]
    valid = np.isin(numbers, held)
    return np.flatnonzero(~valid), np.flatnonzero(valid)


def unet(width: int, kinds: int = 1, fine: int = -1) -> Any:
    """Of three colours, or BANDS: five levels from half the size on; what is above is added to what is below,
    each by one convolution. Answers are as large as the picture, or as its level `fine`."""
    from torch import nn
    from torch.nn import functional

    def layer(inside: int, outside: int, size: int = 3, stride: int = 1) -> Any:
        weights = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
        return nn.Sequential(weights, nn.BatchNorm2d(outside), nn.ReLU(inplace=True))

    widths = [width * min(2**k, 8) for k in range(5)]

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(zip([width, *widths[:-1]], widths, strict=True))
            self.stem = layer(plan.channels, width, 5, 2)
            self.down = nn.ModuleList(nn.Sequential(layer(a, b), layer(b, b)) for a, b in pairs)
            self.across = nn.ModuleList(layer(b, a, 1) for a, b in pairs[1:])
            self.up = nn.ModuleList(layer(a, a) for a in widths[:-1])
            self.last = nn.Conv2d(widths[max(fine, 0)], kinds, 1)

        def forward(self, x: Tensor) -> Tensor:
            size, kept, x = x.shape[2:], [], self.stem(x)
            for level, down in enumerate(self.down):
                x = down(functional.max_pool2d(x, 2) if level else x)
                kept.append(x)
            for level in range(3, max(fine, 0) - 1, -1):
                above = functional.interpolate(self.across[level](x), kept[level].shape[2:], mode="bilinear")
                x = self.up[level](above + kept[level])
            x = self.last(x)
            return x if fine >= 0 else functional.interpolate(x, size, mode="bilinear")

    network = UNet()
    network.last.bias.data.fill_(-2.0)  # type: ignore[union-attr]
    return network


def read_small(
    images: Sequence[Path], masks: Sequence[str] | None, side: int, shape: tuple[int, int]
) -> tuple[Tensor, list[tuple[int, int]]]:
    """uint8 (pictures, colours or bands and the masks, height, width), and the own sizes: (width, height)."""
    import torch
    from PIL import Image

    kinds, read = 0 if masks is None else kinds_in(masks), plan.channels
    out = np.zeros((len(images), read + kinds, *shape), np.uint8)
    sizes: list[tuple[int, int]] = []
    for i, path in enumerate(images):
        try:
            sizes.append(picture_size(path))
            shown = np.asarray(read_image(path, side=2 * side, upright=False).resize(shape[::-1]))
            out[i, :read] = as_colours(shown, plan.BAND_LEVELS).clip(0, 255).transpose(2, 0, 1)
        except (OSError, ValueError, SyntaxError):
            sizes[i:] = [sizes[-1] if sizes else shape[::-1]]
        if masks is not None:
            for kind, text in enumerate(masks[i].split("\n"), read):
                mask = read_mask(text, sizes[i])
                out[i, kind] = np.asarray(mask.resize(shape[::-1], Image.Resampling.BOX))
    return torch.from_numpy(out), sizes


def kinds_in(masks: Sequence[str]) -> int:
    return masks[0].count("\n") + 1


def true_masks(masks: str, size: tuple[int, int]) -> np.ndarray:
    """(kinds, height, width) of a picture of `size`, (width, height)."""
    return np.stack([np.asarray(read_mask(text, size)) > 0 for text in masks.split("\n")])


def picture_size(path: Path) -> tuple[int, int]:
    """(width, height) in pixels, not turned by EXIF."""
    from PIL import Image

    if plan.BANDS:
        return read_image(path).size
    with Image.open(path) as file:
        return file.size


def usual_shape(images: Sequence[Path], side: int) -> tuple[int, int]:
    """Height and width with the usual ratio of the pictures, `side` the longer one, in steps of 32."""
    ratios = []
    for path in images[:: max(1, len(images) // 50)]:
        with suppress(OSError, ValueError):
            width, height = picture_size(path)
            ratios.append(width / height)
    ratio = float(np.median(ratios)) if ratios else 1.0
    both = (side / max(ratio, 1), side * min(ratio, 1))
    return max(32, round(both[0] / 32) * 32), max(32, round(both[1] / 32) * 32)


def size_that_fits(
    images: Sequence[Path],
    sizes: Sequence[tuple[int, int]],
    network: Callable[[int], Any],
    wanted: float,
    asked: int,
    clock: Clock,
    twice: bool = True,
) -> tuple[int, int, tuple[int, int], float]:
    """(longer side, width, (height, width), seconds a picture forward) of the first of `sizes` of which a
    network sees `wanted` pictures and the `asked` ones in the time; twice: another one has FIRST of it."""
    per_second = speed(network(sizes[-1][1]), (plan.channels, 96, 96), clock, 8)
    for side, width in sizes:
        shape = usual_shape(images, side)
        cost = multiplications(network(width), (plan.channels, *shape)) / per_second
        if cost * (3 * wanted + 2 * asked) < (1 - FIRST * twice) * 0.85 * clock.left():
            break
    return side, width, shape, cost


def fit_masks(
    images: Sequence[Path],
    masks: Sequence[str],
    test_images: Sequence[Path],
    train_rows: np.ndarray,
    valid_rows: np.ndarray,
    seed: int,
    clock: Clock,
) -> MaskPrediction:
    """Masks of the test pictures by a small U-Net.

    With `valid_rows` a third of the time goes to a network that has not seen them: threshold and
    smallest area are those with the best mean Dice. The rest of the time trains a network on all rows.
    """
    import torch

    torch.manual_seed(seed)
    rows, n = np.concatenate([train_rows, valid_rows]), len(test_images) + len(valid_rows)
    wanted = float(np.clip(15 * len(rows), 3000, 60_000))
    kinds = kinds_in(masks)
    side, width, shape, cost = size_that_fits(images, MASK_SIZES, unet, wanted, n, clock, len(valid_rows) > 0)
    x, sizes = read_small(images, masks, side, shape)
    test, test_sizes = read_small(test_images, None, side, shape)
    result = MaskPrediction([], [], None, [0.5] * kinds, [0.0] * kinds)
    reserve = 2.5 * cost * n + 1 + 2e-7 * sum(w * h for w, h in test_sizes)
    seconds = clock.left() - reserve
    nets = []
    if len(valid_rows):
        nets.append(_train(x[train_rows], width, clock, FIRST * seconds, seed, result))
        maps = _maps(nets[0], x[valid_rows, : plan.channels])
        truth = [true_masks(masks[i], sizes[i]) for i in valid_rows]
        for kind in range(kinds):
            _choose(result, maps[:, kind], [each[kind] for each in truth], kind)
        result.valid = [_mask(m, sizes[i], result) for m, i in zip(maps, valid_rows, strict=True)]
        pairs = [pair for t, m in zip(truth, result.valid, strict=True) for pair in zip(t, m, strict=True)]
        result.score = float(np.mean([dice(*pair) for pair in pairs]))
    nets.append(_train(x[rows], width, clock, clock.left() - reserve, seed + 1, result))
    for i in range(0, len(test), 100):
        maps = _maps(nets[-1], test[i : i + 100])
        found = [_mask(*pair, result) for pair in zip(maps, test_sizes[i : i + 100], strict=True)]
        result.test += ["\n".join(map(run_lengths, each)) for each in found]
    result.complete = result.passes[-1] * len(rows) > 0.6 * wanted
    return result


def small_levels(x: Tensor) -> Tensor:
    """As networks take them, of 0 to 255."""
    return (x.float() - USUAL_LEVELS[0]) / USUAL_LEVELS[1]


def _train(x: Tensor, width: int, clock: Clock, seconds: float, seed: int, result: MaskPrediction) -> Any:
    from torch import cat
    from torch.nn.functional import binary_cross_entropy_with_logits

    read = plan.channels
    augment = replace(MASK_AUGMENTATION, colours=read)

    def loss(network: Any, now: np.ndarray, rng: np.random.Generator) -> Any:
        batch = augment(cat([small_levels(x[now, :read]), x[now, read:].float() / 255], 1), rng)
        logits, truth = network(batch[:, :read]), batch[:, read:]
        given = logits.sigmoid()
        overlap = (2 * (given * truth).sum((2, 3)) + 1) / ((given + truth).sum((2, 3)) + 1)
        return binary_cross_entropy_with_logits(logits, truth) + 1 - overlap.mean()

    network = unet(width, x.shape[1] - read)
    seen = train_small(network, len(x), loss, clock, seconds, seed, int(np.clip(len(x) // 20, 4, 8)))
    result.passes.append(seen / len(x))
    return network


def _maps(network: Any, x: Tensor) -> np.ndarray:
    """Probabilities, float32 (pictures, kinds, height, width): the mean with those of mirrored pictures."""
    import torch

    out = []
    with torch.no_grad():
        for i in range(0, len(x), 16):
            batch = small_levels(x[i : i + 16])
            both = network(batch).sigmoid() + network(batch.flip(3)).sigmoid().flip(3)
            out.append(both.numpy() / 2)
    return np.concatenate(out)


def _large(probabilities: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(probabilities).resize(size, Image.Resampling.BILINEAR))


def _mask(probabilities: np.ndarray, size: tuple[int, int], choice: MaskPrediction) -> np.ndarray:
    found = []
    for one, threshold, smallest in zip(probabilities, choice.threshold, choice.smallest, strict=True):
        mask = _large(one, size) > threshold
        found.append(mask if mask.mean() >= smallest else np.zeros_like(mask))
    return np.stack(found)


def _choose(result: MaskPrediction, maps: np.ndarray, truth: list[np.ndarray], kind: int) -> None:
    """Of a kind threshold and smallest area with the best mean Dice; later ones must be better by 0.001."""
    best = -1.0
    pairs = zip(maps, truth, strict=True)
    large = [np.asarray(_large(m, t.shape[::-1]) * 255).astype(np.uint8) for m, t in pairs]
    for threshold in THRESHOLDS:
        shown: list[np.ndarray] = [m > threshold * 255 for m in large]
        scores = np.array([dice(t, np.asarray(m)) for t, m in zip(truth, shown, strict=True)])
        areas = np.array([m.mean() for m in shown])
        empty = np.array([not t.any() for t in truth])
        for area in AREAS:
            score = float(np.where(areas < area, empty, scores).mean())
            if score > best + 0.001:
                best, result.threshold[kind], result.smallest[kind] = score, threshold, area


def has_begun() -> bool:
    """Whether there is time to learn; then all cores and minutes are used, but few for writing."""
    import torch

    state.predict_seconds = 1e-3
    state.reserve_minutes = min(state.reserve_minutes, 0.04 * state.minutes + 0.05)
    torch.set_num_threads(usable_cores())
    torch.manual_seed(plan.SEED)
    return not state.stop and state.seconds_left() >= 1


def train_masks(data: Data, run: Any) -> list[float]:
    """Train as long as there is time, write the submission and oof.csv; the mean Dice of the rows that were
    held out: whole groups of GROUP_BY, or pictures that look like none of the others."""
    if not has_begun():
        return []
    images = [Path(each) for each in data.inputs]
    sides = split(data)[0] if data.groups is not None else hold_out(images, plan.SEED)
    masks = [str(each) for each in data.targets]
    found = fit_masks(images, masks, [Path(each) for each in data.test_inputs], *sides, plan.SEED, Deadline())
    write_submission(data, mask_table(data, found.test), state.out_dir)
    held = {}
    for row, mask in zip(sides[1], found.valid, strict=True):
        truth = true_masks(masks[row], mask.shape[:0:-1])
        held[data.ids[row]] = ["\n".join(map(run_lengths, each)) for each in (truth, mask)]
    add_out_of_fold(data, held)
    told = f"Dice={found.score:.4g} of {len(sides[1])} pictures held out, thresholds {found.threshold}"
    print(f"small U-Net: {told}, smallest shares {found.smallest}", flush=True)
    report(run, "note", told)
    return [] if found.score is None else [found.score]


plan.learn_pictures = take_pictures
