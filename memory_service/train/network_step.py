"""A training batch and a batch of predictions of networks for classes, values and matches."""

import numpy as np
import torch

from memory_service.train.budget import plan
from memory_service.train.reading import Data
from memory_service.train.torch_loop import autocast, device, to_device


def mixed(samples: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, float]:
    """(samples with a part of others, the share that is their own): by CUTMIX a patch, by MIXUP a share."""
    if plan.CUTMIX and (not plan.MIXUP or np.random.random() < 0.5):
        side = (1 - np.random.beta(plan.CUTMIX, plan.CUTMIX)) ** 0.5
        height, width = (int(side * pixels) for pixels in samples.shape[2:])
        top = np.random.randint(samples.shape[2] - height + 1)
        left = np.random.randint(samples.shape[3] - width + 1)
        patch = (..., slice(top, top + height), slice(left, left + width))
        others, samples = samples[order], samples.clone()
        samples[patch] = others[patch]
        return samples, 1 - height * width / (samples.shape[2] * samples.shape[3])
    share = float(np.random.beta(plan.MIXUP, plan.MIXUP))
    return share * samples + (1 - share) * samples[order], share


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """The loss of a training batch; `rows` are those of `targets`."""
    samples, share = to_device(inputs), 1.0
    if (plan.MIXUP or plan.CUTMIX) and bool((readable > 0).all()):
        order = torch.randperm(len(rows))
        samples, share = mixed(samples, order)
    with autocast():
        outputs = model(samples).float()
    readable = readable.float().to(device)
    loss = plan.loss_of(outputs, targets[rows].to(device), readable)
    if share < 1:
        loss = share * loss + (1 - share) * plan.loss_of(outputs, targets[rows[order]].to(device), readable)
    return loss


@torch.no_grad()
def predict_batch(model, inputs, data: Data, checkpoint: dict, views: int) -> torch.Tensor:
    """Answers, (views, samples, outputs): of a sample as it is and, of two views, mirrored."""
    samples = to_device(inputs)
    outputs = [model(samples).float()]
    if views > 1:
        outputs.append(model(samples.flip(3)).float())
    return plan.answers_in(torch.stack(outputs), data, checkpoint)


plan.batch_loss, plan.predict_batch = batch_loss, predict_batch
