"""Boxes without pretrained weights: a small network that says where the middles of objects are (CenterNet;
Zhou et al., 2019) and, all around a middle, how far off the sides are (TTFNet; Liu et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_service.train.budget import Deadline, plan, report, state
from memory_service.train.detection import fused_boxes, table_of, write_held_out
from memory_service.train.folds import score_predictions, split
from memory_service.train.masks import (
    FIRST,
    MASK_AUGMENTATION,
    has_begun,
    read_small,
    size_that_fits,
    small_levels,
    unet,
)
from memory_service.train.media_files import flips, take_pictures
from memory_service.train.networks import train_small
from memory_service.train.reading import Data
from memory_service.train.writing import save_result, write_submission

if TYPE_CHECKING:
    from torch import Tensor

BOX_SIZES = ((256, 24), (224, 24), (192, 24), (160, 24), (160, 16), (128, 16), (96, 16), (64, 16))
FINE = 1  # maps are of a quarter of the picture's sides
SPREAD = 0.1  # of a middle, as a share of its box's sides
LEAST_SEEN = 0.3  # share of a box, that is one where the edge cuts it
SIDES = 5.0  # weight of the loss of sides beside that of middles

Sizes = Sequence[tuple[int, int]]


def boxes_within(targets: Sequence[np.ndarray] | np.ndarray, sizes: Sizes) -> Tensor:
    """float32 (pictures, boxes, 5): class, or -1 of none, middle and sides, where a picture of `sizes`,
    (width, height), reaches from -1 to 1."""
    import torch

    found = np.full((len(sizes), max(1, *map(len, targets)), 5), -1.0, np.float32)
    for row, (boxes, size) in enumerate(zip(targets, sizes, strict=True)):
        corners = boxes[:, 1:].reshape(-1, 2, 2) / size
        middle, sides = corners.sum(1) - 1, 2 * (corners[:, 1] - corners[:, 0])
        found[row, : len(boxes)] = np.column_stack([boxes[:, 0], middle, sides])
    return torch.from_numpy(found)


def moved(boxes: Tensor, moves: np.ndarray) -> Tensor:
    """The boxes where `Augmentation` moves their pictures, which it does not turn, cut at the edges."""
    import torch

    theta = torch.tensor(moves, dtype=torch.float32)
    by, to = theta[:, None, [0, 1], [0, 1]], theta[:, None, :, 2]
    middle, half = (boxes[..., 1:3] - to) / by, boxes[..., 3:] / by.abs() / 2
    low, high = (middle - half).clamp(-1, 1), (middle + half).clamp(-1, 1)
    seen = (high - low).prod(-1) > LEAST_SEEN * (2 * half).prod(-1)
    kinds = boxes[..., 0].where(seen, torch.tensor(-1.0))
    return torch.cat([kinds[..., None], (low + high) / 2, high - low], -1)


def loss_of(maps: Tensor, boxes: Tensor) -> Tensor:
    """Of maps (pictures, classes and 4, height, width): the focal loss of middles, and the generalised
    overlap (Rezatofighi et al., 2019) of the boxes all around them."""
    import torch
    from torch.nn.functional import logsigmoid

    (height, width), kinds = maps.shape[2:], maps.shape[1] - 4
    across, down = (((torch.arange(n) + 0.5) * 2 / n - 1) for n in (width, height))
    kind, x, y, wide, high = boxes[..., None, None].unbind(2)
    left, top = (each.expand(*x.shape[:2], height, width) for each in (across - x, down[:, None] - y))
    off = (left / (SPREAD * wide).clamp(min=0.6 / width)) ** 2
    off = off + (top / (SPREAD * high).clamp(min=0.6 / height)) ** 2
    near = torch.exp((off.amin((2, 3), keepdim=True) - off) / 2) * (kind >= 0)  # 1 in the middle
    truth = torch.stack([(near * (kind == k)).amax(1) for k in range(kinds)], 1)
    logits, middles = maps[:, :kinds], truth > 0.999
    given = logits.sigmoid()
    right, wrong = (1 - given) ** 2 * logsigmoid(logits), (1 - truth) ** 4 * given**2 * logsigmoid(-logits)
    focal = -torch.where(middles, right, wrong).sum() / middles.sum().clamp(min=1)
    weight, nearest = near.max(1, keepdim=True)
    weight = (weight * (weight > 0.2))[:, 0]
    four = (left + wide / 2, top + high / 2, wide / 2 - left, high / 2 - top)
    true = torch.cat([side.gather(1, nearest) for side in four], 1).clamp(min=1e-4)
    found = sides_in(maps)
    parts = (true, found, torch.minimum(true, found), torch.maximum(true, found))
    area, own, common, around = ((part[:, 0] + part[:, 2]) * (part[:, 1] + part[:, 3]) for part in parts)
    whole = area + own - common
    lost = 1 - common / whole + (around - whole) / around
    return focal + SIDES * (lost * weight).sum() / weight.sum().clamp(min=1e-3)


def sides_in(maps: Tensor) -> Tensor:
    """How far off a box's left, top, right and bottom are, (pictures, 4, height, width)."""
    return maps[:, -4:].clamp(-8, 3).exp()


def boxes_in(networks: Sequence[Any], x: Tensor, sizes: Sizes, mirrored: bool) -> np.ndarray:
    """What the networks together find in pictures of these sizes, (pictures, 6 x MAX_BOXES), in their pixels;
    mirrored: in mirrored ones, too."""
    import torch
    from torch.nn.functional import max_pool2d

    found = np.zeros((len(x), plan.MAX_BOXES, 6), np.float32)
    for start in range(0, len(x), 32):
        shown = small_levels(x[start : start + 32])
        with torch.no_grad():
            each = [network(shown) for network in networks]
            kinds = each[0].shape[1] - 4
            swapped = [*range(kinds), kinds + 2, kinds + 1, kinds, kinds + 3]
            if mirrored:
                each += [network(shown.flip(3)).flip(3)[:, swapped] for network in networks]
        heat = torch.stack([maps[:, :kinds].sigmoid() for maps in each]).mean(0)
        sides = sides_in(torch.stack(each).mean(0)).flatten(2).numpy() / 2
        heat, (height, width) = heat * (heat == max_pool2d(heat, 3, 1, 1)), heat.shape[2:]
        best = heat.flatten(1).topk(min(2 * plan.MAX_BOXES, heat[0].numel()))
        for at, scores, places in zip(range(len(heat)), *(part.numpy() for part in best), strict=True):
            kind, place = np.divmod(places[scores > plan.MIN_SCORE], height * width)
            middle = np.column_stack([(place % width + 0.5) / width, (place // width + 0.5) / height])
            corners = np.hstack([middle - sides[at, :2, place], middle + sides[at, 2:, place]]).clip(0, 1)
            boxes = np.column_stack([scores[: len(kind)], kind, corners * (sizes[start + at] * 2)])
            boxes = fused_boxes(boxes, np.zeros(len(boxes), int), 1)[: plan.MAX_BOXES]
            found[start + at, : len(boxes)] = boxes
    return found.reshape(len(x), -1)


def train_boxes(data: Data, run: Any) -> list[float]:
    """Train as long as there is time, write the submission and oof.csv; the score of what was held out: of
    a network that has not seen that in a part of the time; the rest goes to one of all rows."""
    if not has_begun():
        return []
    images, asked = ([Path(each) for each in paths] for paths in (data.inputs, data.test_inputs))
    train_rows, valid_rows = split(data)[0]
    clock, kinds, mirrored = Deadline(), len(data.outputs) + 4, flips(data.outputs) > 0
    n, wanted = len(asked) + len(valid_rows), float(np.clip(40 * len(images), 6000, 100_000))

    def network_of(width: int) -> Any:
        return unet(width, kinds, FINE)

    side, width, shape, cost = size_that_fits(images, BOX_SIZES, network_of, wanted, 2 * n, clock)
    (x, sizes), (test, test_sizes) = (read_small(paths, None, side, shape) for paths in (images, asked))
    boxes, reserve = boxes_within(data.targets, sizes), 5 * cost * n + 1 + 2e-3 * n
    augment = replace(MASK_AUGMENTATION, degrees=0, mirrored=mirrored, colours=plan.channels)

    def learned(rows: np.ndarray, share: float, seed: int) -> Any:
        def loss(network: Any, now: np.ndarray, rng: np.random.Generator) -> Any:
            moves = augment.moves(len(now), rng)
            shown = augment(small_levels(x[rows[now]]), rng, moves=moves)
            return loss_of(network(shown), moved(boxes[rows[now]], moves))

        network, batch = network_of(width), int(np.clip(len(rows) // 20, 4, 16))
        train_small(network, len(rows), loss, clock, share * (clock.left() - reserve), seed, batch)
        return network

    networks = [learned(train_rows, FIRST, plan.SEED)]
    valid = boxes_in(networks, x[valid_rows], [sizes[row] for row in valid_rows], mirrored)
    save_result(1, {"rows": valid_rows, "valid": valid})
    score, _ = score_predictions(data, data.targets[valid_rows], valid)
    if clock.left() > 2 * reserve:
        networks.append(learned(np.arange(len(images)), 1.0, plan.SEED + 1))
    found = boxes_in(networks, test, test_sizes, mirrored)
    write_submission(data, table_of(data, data.test_ids, found), state.out_dir)
    write_held_out(data)
    told = f"{plan.METRIC}={score:.4g} of {len(valid_rows)} pictures held out"
    print(f"small network, {shape[1]} x {shape[0]} pixels: {told}", flush=True)
    report(run, "note", told)
    return [score]


plan.learn_pictures = take_pictures
