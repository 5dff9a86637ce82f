"""The knee of throughput: the batch beyond which a larger one brings little."""

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


def throughput_knees(
    rungs: NDArray[np.float64], step_seconds: NDArray[np.float64], max_batch: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`throughput_knee` of many steps at once, as places in `rungs`, the ladder's first ones. step_seconds:
    shape (n, rungs); max_batch: (n,)."""
    rates = rungs / step_seconds
    stops = (rates[:, 1:] < KNEE_GAIN * rates[:, :-1]) | (rungs[1:] > max_batch[:, None])
    return np.where(stops.any(axis=1), stops.argmax(axis=1), len(rungs) - 1)
