"""An order of training in which the samples of a batch are about as long."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from memory_service.train.budget import state


class AlikeLengths(Sampler):
    """Samples at random, but those of a batch are about as long, for it is as wide as its longest: sorted
    within fifty batches, or a quarter of all."""

    def __init__(self, dataset: Any) -> None:
        self.lengths = dataset.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self):
        size, order = state.batch_size, torch.randperm(len(self.lengths)).numpy()
        pool = size * max(1, min(50, len(order) // (4 * size)))
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        order = np.concatenate([rows[np.argsort(self.lengths[rows], kind="stable")] for rows in pools])
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        places = [*torch.randperm(len(batches) - 1).tolist(), -1]  # the last may have fewer
        return iter(np.concatenate([batches[place] for place in places]).tolist())
