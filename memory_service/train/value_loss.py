"""What networks of values learn, their loss, and their values."""

from typing import Any

import numpy as np
import torch

from memory_service.train.budget import plan
from memory_service.train.reading import Data


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[torch.Tensor, dict]:
    """(standardised targets, what a checkpoint keeps of the training rows)."""
    known = data.targets[train_rows]
    center, scale = known.mean(axis=0), known.std(axis=0)
    scale[scale == 0] = 1
    prepared = {"prior": center.tolist(), "center": center.tolist(), "scale": scale.tolist()}
    return torch.from_numpy((data.targets - center) / scale), prepared


def errors_of(differences: Any) -> Any:
    return abs(differences) if plan.ABSOLUTE else differences**2


def loss_of(outputs: torch.Tensor, targets: torch.Tensor, readable: torch.Tensor) -> torch.Tensor:
    """The mean loss of the samples that could be read; targets are standardised."""
    losses = errors_of(outputs - targets).mean(dim=1)
    return (losses * readable).sum() / readable.sum().clamp(min=1)


def validation_loss(truth: np.ndarray, predictions: np.ndarray, checkpoint: dict) -> float:
    """In standardised units, as the loss in training."""
    return float(errors_of((predictions - truth) / np.float32(checkpoint["scale"])).mean())


def answers_in(outputs: torch.Tensor, data: Data, checkpoint: dict) -> torch.Tensor:
    """In the targets' units."""
    center, scale = (torch.tensor(checkpoint[name], device=outputs.device) for name in ("center", "scale"))
    return outputs * scale + center


plan.prepare_fold, plan.loss_of = prepare_fold, loss_of
plan.validation_loss, plan.answers_in = validation_loss, answers_in
