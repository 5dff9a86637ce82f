"""The knee of throughput: the batch beyond which a larger one brings little."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a light terminal, which reads KNEE_GAIN, lacks numpy
    import numpy as np
    from numpy.typing import NDArray


KNEE_GAIN = 1.10
"""A rung of the ladder that brings less than 10 % more samples per second is past the knee."""


def throughput_knee(step_seconds: Callable[[Sequence[int]], NDArray[np.float64]], max_batch: int) -> int:
    """The smallest rung after which the next one gains under 10 % throughput; at most `max_batch`.

    step_seconds   seconds of one step at each of some batch sizes
    """
    import numpy as np

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
    import numpy as np

    rates = rungs / step_seconds
    stops = (rates[:, 1:] < KNEE_GAIN * rates[:, :-1]) | (rungs[1:] > max_batch[:, None])
    return np.where(stops.any(axis=1), stops.argmax(axis=1), len(rungs) - 1)


BATCH_LADDER: tuple[int, ...] = (
    1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
    1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536,
)  # fmt: skip
"""Powers of two and their halves-in-between: steps of 33-100 %, multiples of 8 from 8 up (tensor cores)."""


def floor_to_ladder(batch_size: float) -> int:
    """The largest rung not above `batch_size`; 0 below one."""
    index = bisect_right(BATCH_LADDER, batch_size)
    return BATCH_LADDER[index - 1] if index else 0
