"""What networks of classes and labels learn, their loss, and their probabilities."""

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from memory_service.train.budget import plan
from memory_service.train.metrics import score_log_loss
from memory_service.train.reading import Data


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[torch.Tensor, dict]:
    """(targets as the loss takes them, what a checkpoint keeps of the training rows)."""
    prior = plan.prior_of(data.targets[train_rows], len(data.outputs))
    plan.class_shares = torch.from_numpy(prior).clamp(min=1e-4)
    return torch.from_numpy(data.targets), {"prior": prior.tolist()}


def loss_of(outputs: torch.Tensor, targets: torch.Tensor, readable: torch.Tensor) -> torch.Tensor:
    """The mean loss of the samples that could be read: by CLASS_WEIGHTS rare classes weigh as much as others,
    by FOCAL_GAMMA what is right already counts less; LABEL_SMOOTHING trusts no label wholly."""
    shares = plan.class_shares.to(outputs) if plan.CLASS_WEIGHTS else None
    smooth = plan.LABEL_SMOOTHING
    if targets.ndim == 2:
        weights = None if shares is None else ((1 - shares) / shares).clamp(max=20)
        soft = targets + smooth * (0.5 - targets)
        losses = binary_cross_entropy_with_logits(outputs, soft, pos_weight=weights, reduction="none")
    else:
        weights = None if shares is None else (1 / shares / len(shares)).clamp(max=20)
        losses = cross_entropy(outputs, targets, weights, reduction="none", label_smoothing=smooth)
    if plan.FOCAL_GAMMA:
        losses = (1 - torch.exp(-losses)) ** plan.FOCAL_GAMMA * losses
    losses = losses.reshape(len(losses), -1).mean(dim=1)
    return (losses * readable).sum() / readable.sum().clamp(min=1)


def answers_in(outputs: torch.Tensor, data: Data, checkpoint: dict) -> torch.Tensor:
    """Probabilities."""
    return outputs.sigmoid() if data.targets.ndim == 2 else outputs.softmax(dim=-1)


plan.prepare_fold, plan.loss_of = prepare_fold, loss_of
plan.validation_loss = lambda truth, predictions, checkpoint: score_log_loss(truth, predictions)
plan.answers_in = answers_in
