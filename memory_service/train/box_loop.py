"""What scripts of networks for boxes share: samples that are moved with their boxes, batches, predictions.

`build_model`, `boxes_in` and `loss_of` are of a network; a `read_image` of train.py goes before that of
media_files.
"""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

from memory_service.train.budget import plan
from memory_service.train.detection import no_boxes, ranked_boxes
from memory_service.train.media_files import as_colours, flips, read_image, take_pictures
from memory_service.train.reading import Data
from memory_service.train.torch_loop import Samples, autocast, device, memory_format

GREY = 114  # beside and below an image that is no square


class Boxes(Samples):
    """(pixels, boxes, [scale, width, height]) of the rows. In training an image is moved at random, and its
    boxes with it; else it lies in the upper left."""

    def __init__(self, part: str, data: Data, rows, checkpoint: dict) -> None:
        super().__init__(data.test_inputs if part == "test" else data.inputs, rows)
        self.targets, self.levels = data.targets if part == "train" else None, plan.BAND_LEVELS
        self.partial, self.flip, self.side = part == "test", flips(data.outputs), plan.IMAGE_SIZE

    def sample(self, row: int) -> tuple[torch.Tensor, ...]:
        image, boxes = plan.read_image(self.paths[row], self.partial), np.zeros((0, 5))
        scale = self.side / max(image.size)
        if self.targets is None:
            canvas = self.placed(image, scale, (0, 0))
        else:
            canvas, boxes = self.moved(image, self.targets[row])
        pixels = torch.from_numpy(canvas.copy()).permute(2, 0, 1)
        return pixels, torch.from_numpy(boxes).float(), torch.tensor([scale, *image.size])

    def unreadable(self) -> tuple[torch.Tensor, ...]:
        kind = torch.float32 if plan.BANDS else torch.uint8
        pixels = torch.full((plan.channels, self.side, self.side), GREY, dtype=kind)
        return pixels, torch.zeros(0, 5), torch.tensor([1.0, self.side, self.side])

    def placed(self, image: Any, scale: float, corner: tuple[int, ...]) -> np.ndarray:
        """The image at this scale, its upper left at `corner`; what lies outside is cut off."""
        size, (left, top) = [max(1, round(scale * side)) for side in image.size], corner
        pixels = as_colours(np.asarray(image.resize(size)), self.levels)
        canvas = np.full((self.side, self.side, pixels.shape[2]), GREY, pixels.dtype)
        seen = pixels[max(-top, 0) : self.side - top, max(-left, 0) : self.side - left]
        top, left = max(top, 0), max(left, 0)
        canvas[top : top + seen.shape[0], left : left + seen.shape[1]] = seen
        return canvas

    def moved(self, image: Any, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(another scale, place and light of the image, mirrored for a share; its boxes there)."""
        scale = random.uniform(*plan.SCALE) * plan.IMAGE_SIZE / max(image.size)
        size = [max(1, round(scale * side)) for side in image.size]
        corner = tuple(random.randint(*sorted((0, self.side - side))) for side in size)  # more is cut off
        canvas = self.placed(image, scale, corner)
        bright = canvas * np.float32(random.uniform(0.8, 1.2))
        canvas = bright if plan.BANDS else bright.clip(0, 255).astype(np.uint8)
        places = boxes[:, 1:].clip(0, image.size * 2) * scale + corner * 2
        inside = places.clip(0, plan.IMAGE_SIZE)
        sides, whole = (each[:, 2:] - each[:, :2] for each in (inside, places))
        seen = (sides.prod(axis=1) > 0.25 * whole.prod(axis=1)) & (sides >= 1).all(axis=1)
        if random.random() < self.flip:
            canvas = canvas[:, ::-1]
            inside[:, [0, 2]] = plan.IMAGE_SIZE - inside[:, [2, 0]]
        return canvas, np.column_stack([boxes[:, 0], inside])[seen]


make_dataset = Boxes


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[None, dict]:
    """(no targets: boxes come with their images, what a checkpoint keeps)."""
    return None, {"prior": no_boxes(data.targets, 0).tolist()}


def collate(samples: list) -> tuple:
    """((pixels, boxes of each image, [scale, width, height] of each), rows, whether they could be read)."""
    inputs, rows, readable = zip(*samples, strict=True)
    pixels, boxes, frames = zip(*inputs, strict=True)
    return (torch.stack(pixels), list(boxes), torch.stack(frames)), torch.tensor(rows), torch.tensor(readable)


def load_fitting(part: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Those that have a weight's name and shape there."""
    own = part.state_dict()
    fitting = {key: one for key, one in weights.items() if key in own and own[key].shape == one.shape}
    part.load_state_dict(fitting, strict=False)


def as_shares(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.to(device, non_blocking=True).float().div(255).contiguous(memory_format=memory_format())


def take_bands(network: nn.Module) -> None:
    """Its first convolution reads BANDS; what it has learned of three colours is spread over them."""
    if plan.BANDS:
        first = next(each for each in network.modules() if isinstance(each, nn.Conv2d))
        colours, first.in_channels = first.weight.detach(), plan.BANDS
        spread = colours.repeat(1, -(-plan.BANDS // 3), 1, 1)[:, : plan.BANDS] * 3 / plan.BANDS
        first.weight = nn.Parameter(colours.sum(1, keepdim=True) if plan.BANDS == 1 else spread)


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """The loss of the images of a training batch that could be read."""
    good = readable > 0
    kept = good if good.any() else ~good  # the model needs an image, even one that does not count
    boxes = [each.to(device) for each, keep in zip(inputs[1], kept, strict=True) if keep]
    with autocast():
        loss = plan.loss_of(model, as_shares(inputs[0][kept]), boxes)
    return loss * float(good.any())


@torch.inference_mode()
def predict_batch(model, inputs, data: Data, checkpoint: dict, views: int) -> torch.Tensor:
    """Boxes found, (views, images, 6 x MAX_BOXES): score, class and corners in pixels of the image's own
    size, the best first; of two views the second is mirrored."""
    pixels, frames = as_shares(inputs[0]), inputs[2].float()
    outputs = torch.zeros(views, len(pixels), plan.MAX_BOXES, 6)
    for view in range(views):
        for place, found in enumerate(plan.boxes_in(model, pixels.flip(3) if view else pixels)):
            if view:
                found[:, [2, 4]] = plan.IMAGE_SIZE - found[:, [4, 2]]
            scale, size = frames[place, 0], frames[place, 1:].repeat(2)
            found[:, 2:] = torch.minimum((found[:, 2:] / scale).clamp(min=0), size)
            seen = (found[:, 4:] - found[:, 2:4] > 0.1).all(dim=1)  # not those beside it
            found = found[seen][: plan.MAX_BOXES]
            outputs[view, place, : len(found)] = found
    return outputs.flatten(2)


def validation_loss(truth: np.ndarray, predictions: np.ndarray, checkpoint: dict) -> float:
    """The share of the true boxes that nothing found overlaps by half."""
    classes = list(ranked_boxes(truth, predictions, [0.5]))
    return 1 - sum(right.sum() for right, _ in classes) / max(sum(true for _, true in classes), 1)


plan.make_dataset, plan.prepare_fold = make_dataset, prepare_fold
plan.collate, plan.batch_loss, plan.predict_batch = collate, batch_loss, predict_batch
plan.validation_loss, plan.read_image = validation_loss, read_image
plan.learn_pictures = take_pictures
