"""The knee of throughput: the batch size beyond which a larger one gains little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.cost.batch_ladder import BATCH_LADDER

KNEE_GAIN = 1.10
"""A rung of the ladder that brings less than 10 % more samples per second is past the knee."""


def throughput_knee(step_seconds: Callable[[Sequence[int]], NDArray[np.float64]], max_batch: int) -> int:
    """The smallest rung after which the next one gains under 10 % throughput; at most `max_batch`.

    step_seconds   seconds of one step at each of some batch sizes
    """
    rungs = [b for b in BATCH_LADDER if b <= max_batch] or [max(max_batch, 1)]
    rates = np.asarray(rungs, dtype=np.float64) / step_seconds(rungs)
    for index in range(len(rungs) - 1):
        if rates[index + 1] < KNEE_GAIN * rates[index]:
            return rungs[index]
    return rungs[-1]
