"""Networks of timm that find keypoints: shares of each picture's sides, of which only known ones count."""

from typing import Any

import numpy as np
import torch

from memory_service.train.budget import plan
from memory_service.train.image_network import Images
from memory_service.train.points import size_of
from memory_service.train.reading import Data
from memory_service.train.torch_loop import autocast, device, to_device


class SizedImages(Images):
    """Pictures and their width and height, in the units of the coordinates."""

    def sample(self, row: int) -> Any:
        return super().sample(row), torch.tensor(size_of(self.paths[row]))

    def unreadable(self) -> Any:
        return super().unreadable(), torch.ones(2)


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[torch.Tensor, dict]:
    """(standardised shares, alike for all coordinates, what a checkpoint keeps of the training rows)."""
    shares = data.targets / np.array([size_of(path) for path in data.inputs])[:, plan.AXES]
    center = np.nan_to_num(np.nanmean(shares[train_rows], axis=0), nan=0.5)
    scale = float(np.nanstd(shares[train_rows] - center)) or 1.0
    prior = plan.prior_of(data.targets[train_rows], len(data.outputs))
    kept = {"prior": np.nan_to_num(prior).tolist(), "center": center.tolist(), "scale": scale}
    return torch.from_numpy((shares - center) / scale).float(), kept


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """The mean loss of the coordinates that are known; `rows` are those of `targets`."""
    with autocast():
        outputs = model(to_device(inputs[0])).float()
    wanted = targets[rows].to(device)
    known = wanted.isfinite() & (readable > 0).to(device)[:, None]
    off = (outputs - wanted.nan_to_num()).abs()
    return ((off if plan.ABSOLUTE else off**2) * known).sum() / known.sum().clamp(min=1)


@torch.no_grad()
def predict_batch(model, inputs, data: Data, checkpoint: dict, views: int) -> torch.Tensor:
    """Coordinates, (1, samples, outputs), in the units of the targets."""
    outputs = model(to_device(inputs[0])).float().cpu()
    shares = outputs * checkpoint["scale"] + torch.tensor(checkpoint["center"])
    return (shares * inputs[1][:, plan.AXES])[None]


def validation_loss(truth: np.ndarray, predictions: np.ndarray, checkpoint: dict) -> float:
    """Squared errors by the variance of each coordinate: of 1 nothing is learned."""
    spread = np.nanvar(truth - np.nanmean(truth, axis=0)) if np.isfinite(truth).any() else 1.0
    return float(np.nanmean((truth - predictions) ** 2) / max(spread, 1e-12))


plan.image_samples = SizedImages
plan.prepare_fold, plan.batch_loss, plan.predict_batch = prepare_fold, batch_loss, predict_batch
plan.validation_loss = validation_loss
