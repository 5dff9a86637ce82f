"""The batch sizes worth considering, one ladder for sizing, speed and plans alike."""

from bisect import bisect_right

BATCH_LADDER: tuple[int, ...] = (
    1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
    1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536,
)  # fmt: skip
"""Powers of two and their halves-in-between: steps of 33-100 %, multiples of 8 from 8 up (tensor cores)."""


def floor_to_ladder(batch_size: float) -> int:
    """The largest rung not above `batch_size`; 0 below one."""
    index = bisect_right(BATCH_LADDER, batch_size)
    return BATCH_LADDER[index - 1] if index else 0
