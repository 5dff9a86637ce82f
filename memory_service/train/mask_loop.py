"""What scripts of networks for masks share: samples, the loss, validation, and writing what was found.

`build_model` and `mean_and_std` are of a network; a `read_image` or `read_mask` of train.py goes before that
of media_files.
"""

import random
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from timeit import repeat
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from memory_service.train.budget import plan, prediction_deadline, state
from memory_service.train.folds import latest_checkpoints, why_left_out
from memory_service.train.media_files import random_part, read_image, read_mask
from memory_service.train.reading import RUNS, WARNED, Data, warn_unreadable
from memory_service.train.torch_loop import (
    Samples,
    autocast,
    computed,
    device,
    gathered,
    make_loader,
    recover,
    to_device,
)
from memory_service.train.writing import (
    add_out_of_fold,
    load_result,
    mask_table,
    run_lengths,
    with_earlier,
    write_submission,
)


class Masks(Samples):
    """(image, mask) of the rows; without masks the image's own size instead."""

    def __init__(self, paths: list, rows, masks: np.ndarray | None = None, train: bool = False) -> None:
        super().__init__(paths, rows)
        self.masks, self.train, self.side = masks, train, (plan.IMAGE_SIZE, plan.IMAGE_SIZE)
        self.mean, self.std = (torch.tensor(each)[:, None, None] for each in plan.mean_and_std())

    def sample(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = plan.read_image(self.paths[row], partial=self.masks is None, upright=False)
        part = random_part() if self.train else np.array([0.0, 0.0, 1.0, 1.0])
        pixels: Any = np.array(image.resize(self.side, box=tuple(part * (image.size * 2))))
        pixels = (torch.from_numpy(pixels).permute(2, 0, 1) / 255 - self.mean) / self.std
        if self.masks is None:
            return pixels, torch.tensor([image.height, image.width])
        parts = [plan.read_mask(each, image.size) for each in str(self.masks[row]).split("\n")]
        boxes = [tuple(part * (each.size * 2)) for each in parts]
        pairs, nearest = zip(parts, boxes, strict=True), Image.Resampling.NEAREST
        levels = [part.resize(self.side, nearest, box=box) for part, box in pairs]
        mask = torch.from_numpy(np.stack([np.array(each) for each in levels])) / 255
        if self.train and random.random() < plan.FLIP:
            pixels, mask = pixels.flip(2), mask.flip(2)
        return pixels, mask

    def unreadable(self) -> tuple[torch.Tensor, torch.Tensor]:
        empty = torch.tensor([1, 1])
        if self.masks is not None:
            empty = torch.zeros(str(self.masks[0]).count("\n") + 1, *self.side)
        return torch.zeros(plan.channels, *self.side), empty


def make_dataset(part: str, data: Data, rows, checkpoint: dict) -> Masks:
    """Of the rows; part is train or valid."""
    return Masks(data.inputs, rows, data.targets, train=part == "train")


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[None, dict]:
    """(no targets: masks come with their images, nothing that a checkpoint keeps)."""
    return None, {}


def areas(probabilities: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The common area, the one found and the true one of each image and kind."""
    return tuple(each.sum((2, 3)) for each in (probabilities * masks, probabilities, masks))


def loss_of(outputs: torch.Tensor, masks: torch.Tensor, readable: torch.Tensor) -> torch.Tensor:
    """Cross entropy and soft Dice, the mean over the samples that could be read."""
    common, found, true = areas(outputs.sigmoid(), masks)
    each = functional.binary_cross_entropy_with_logits(outputs, masks, reduction="none").mean((1, 2, 3))
    each = each + 1 - ((2 * common + 1) / (found + true + 1)).mean(1)
    return (each * readable).sum() / readable.sum().clamp(min=1)


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """The loss of a training batch."""
    with autocast():
        outputs = model(to_device(inputs[0])).float()
    return loss_of(outputs, inputs[1].to(device), readable.float().to(device))


@torch.inference_mode()
def validate_masks(model, loader, data: Data, checkpoint: dict, until: float) -> tuple | None:
    """(loss, score, nothing that is kept) of held-out rows, at plan.IMAGE_SIZE; None: the time came first."""
    model.eval()
    losses, in_time = [], True
    batches = [torch.zeros(3, 0)]
    for inputs, _, readable in loader:
        in_time = time.monotonic() <= until
        if not in_time:
            break
        images, masks, good = to_device(inputs[0]), inputs[1].to(device), readable.to(device) > 0
        views = [computed(model, model, images).float()]
        if plan.TTA:
            views.append((views[0] + computed(model, model, images.flip(3)).float().flip(3)) / 2)
        losses.append([float(loss_of(outputs, masks, good.float())) for outputs in views])
        batches.append(torch.stack(areas((views[0] > 0).float(), masks))[:, good].flatten(1).cpu())
    parts = gathered((losses, torch.cat(batches, dim=1)) if in_time else None)
    if any(part is None for part in parts):
        return None
    loss = np.mean([each for part in parts for each in part[0]], axis=0)
    if not np.isfinite(loss[0]):
        raise FloatingPointError("NaN is predicted for held-out images")
    checkpoint["mirror"] = bool(loss[-1] < loss[0])
    if plan.score_of is None:  # judged by the loss
        checkpoint["constant"] = float("inf")
        return float(loss[0]), float(loss[0]), {}
    common, found, true = torch.cat([part[1] for part in parts], dim=1).double().numpy()
    checkpoint["constant"] = plan.score_of(0 * common, 0 * found, true)  # of empty masks
    return float(loss[0]), plan.score_of(common, found, true), {}


def load_models(paths: list) -> list[nn.Module]:
    """The models of these checkpoints that can be used."""
    models, known = [], {path: load_result(path.stem.removeprefix("fold_")) for path in paths}
    for path in paths:
        try:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
            if why := why_left_out(known[path] or checkpoint, known.values()):
                print(f"WARNING: {path.name} is left out: {why}", flush=True)
                continue
            model = plan.build_model(checkpoint, pretrained=False)
            model.load_state_dict(checkpoint["model"])
            model.mirror = checkpoint["mirror"]
            models.append(model.eval())
            state.set_batch_size(min(state.batch_size, checkpoint["batch_size"]))
        except Exception as error:  # one bad checkpoint must not cost the others
            print(f"WARNING: {path.name} cannot be used: {error!r:.300}", flush=True)
    return models


def found_in(images: torch.Tensor, model: nn.Module) -> torch.Tensor:
    """Probabilities of the object, of the mirrored images, too, where that was better on validation."""
    outputs = model(images).float()
    if model.mirror:
        outputs = (outputs + model(images.flip(3)).float().flip(3)) / 2
    return outputs.sigmoid()


@torch.inference_mode()
def found_masks(models: list, paths: list, rows: list):
    """Row, probabilities of the object (None: it cannot be read), height and width of each image."""
    for inputs, batch_rows, readable in make_loader(Masks(paths, rows)):
        images = to_device(inputs[0])
        found = [computed(model, found_in, images, model) for model in models]
        probabilities = torch.stack(found).mean(0)
        for row, one, size, good in zip(batch_rows, probabilities, inputs[1], readable, strict=True):
            yield int(row), one if good > 0 else None, size.tolist()


def predict_masks(data: Data, until: float, run) -> int:
    """Write the mean of the folds that exist, less those worse than empty masks. How many were used."""
    models = load_models(latest_checkpoints(data))
    encoded = encode_all(models, data.test_inputs, until, run)
    if models:
        write_submission(data, plan.submission_of(data, with_earlier(data, encoded)), state.out_dir)
        print(f"Submission written from {len(models)} folds, {encoded.count(None)} as before", flush=True)
    return len(models)


def write_held_out(fold: int, data: Data, rows: np.ndarray, run) -> None:
    """Of held-out images the run lengths of the true masks, and of those that this fold finds."""
    models, left = load_models([state.out_dir / plan.CHECKPOINT.format(fold)]), state.seconds_left()
    until = prediction_deadline() if left == 0 else time.monotonic() + left / 5
    encoded, found = encode_all(models, [data.inputs[row] for row in rows], until, run), {}
    for row, text in zip(rows, encoded, strict=True):
        with suppress(OSError, ValueError, SyntaxError):  # a mask that cannot be read
            if text is not None:
                lines = data.targets[row].split("\n")
                for kind, line in enumerate(lines):
                    if line and not RUNS.fullmatch(line):  # a file
                        lines[kind] = run_lengths(np.asarray(plan.read_mask(line)) > 0)
                found[data.ids[row]] = ["\n".join(lines), text]
    add_out_of_fold(data, found)


def encode_mask(probabilities: torch.Tensor, size: list[int]) -> str:
    """Run lengths of where they are over 0.5, in an image's height and width: a line for each kind."""
    whole = nn.functional.interpolate(probabilities[None], size=size, mode="bilinear")[0] > 0.5
    return "\n".join(run_lengths(each) for each in whole.cpu().numpy())


def seconds_to_encode(path: Path) -> float:
    """What predicting a mask takes beyond validating it, of an image as large as this one."""
    try:
        width, height = plan.read_image(path, partial=True, upright=False).size
    except Exception:  # cannot be read, which was said
        return 0.0
    object_there = nn.functional.pad(torch.ones(plan.MASKS, 32, 32, device=device), (16, 16, 16, 16))
    return median(repeat(lambda: encode_mask(object_there, [height, width]), number=1, repeat=3))


def encode_all(models: list, paths: list, until: float, run) -> list[str | None]:
    """Run lengths of the mean of the models; None where the time came first."""
    encoded: list[str | None] = [None] * len(paths)
    while models and None in encoded and time.monotonic() < until:
        try:
            rows = [row for row, text in enumerate(encoded) if text is None]
            for row, probabilities, size in found_masks(models, paths, rows):
                if probabilities is None:
                    WARNED.add(paths[row])
                    encoded[row] = "\n" * (plan.MASKS - 1)
                    continue
                if not probabilities.isfinite().all():
                    warn_unreadable(paths[row], FloatingPointError("NaN is predicted"))
                encoded[row] = encode_mask(probabilities, size)  # None yet where memory runs out: done again
                if time.monotonic() > until:
                    break
        except RuntimeError as error:
            recover(error, run)
    return encoded


plan.make_dataset, plan.prepare_fold, plan.submission_of = make_dataset, prepare_fold, mask_table
plan.batch_loss, plan.validate_masks = batch_loss, validate_masks
plan.predict_masks, plan.write_held_out = predict_masks, write_held_out
plan.seconds_to_encode = seconds_to_encode
plan.read_image, plan.read_mask = read_image, read_mask
