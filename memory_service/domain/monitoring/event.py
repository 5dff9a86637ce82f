"""One event of a run, in the run's own time."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

MemoryKind = Literal["allocated_now", "peak_allocated", "reserved", "driver", "unstated"]
"""Which memory a figure counts.

allocated_now    live tensors at the moment of asking: between steps only weights, gradients, optimizer state
peak_allocated   the most live tensors of any moment so far (`torch.cuda.max_memory_allocated`)
reserved         what the caching allocator holds (`memory_reserved`, `max_memory_reserved`)
driver           what the driver shows (nvidia-smi, NVML): reserved + context, of this process where known
unstated         a log line that gives GiB and does not say of what (`GPU Memory Used: 18.3 GB`)
"""

MEMORY_FIELDS: dict[str, MemoryKind] = {
    "allocated_gib": "allocated_now",
    "peak_allocated_gib": "peak_allocated",
    "reserved_gib": "reserved",
    "peak_reserved_gib": "reserved",
    "used_gib": "driver",
    "process_gib": "driver",
    "memory_gib": "unstated",
}
"""Event field -> kind. `process_gib` is this process's own share of `used_gib` and wins over it."""

MEMORY_KINDS: tuple[MemoryKind, ...] = ("peak_allocated", "driver", "reserved", "unstated", "allocated_now")
"""The order in which a reading is preferred: what a step needs, then what the card shows, then the rest."""

_NOT_NUMBERS = {"nan", "+nan", "-nan", "inf", "-inf", "+inf", "infinity", "-infinity", "null", "none"}


class Event(NamedTuple):
    """One event of a run.

    seq          unique in the run
    at_seconds   the run's own time since its start; a live run and its replay have the same
    fields       the body, by these names (all optional; others are ignored):
        any      batch_size, epochs, folds, learning_rate, num_workers, cpu_count, n_train, precision, ...
                 (see `summary.SETTINGS`): a value that holds from here on
        gpu      utilization_percent, temperature_c, total_gib, memory_percent, the names of MEMORY_FIELDS
        batch    progress since the last such event: steps, seconds, samples, loader_wait_percent or
                 loader_wait_seconds, train_loss; or a position: step, of, elapsed_seconds, scope
                 ("epoch" | "run" | None when the line does not say), fold, epoch
        epoch    one finished epoch: fold, epoch, seconds, train_loss, valid_loss, metric, samples,
                 loader_wait_percent, utilization_percent, the names of MEMORY_FIELDS
        fold     fold, folds: a fold begins; `done`: true when it ended
        note     text; out_of_memory: true; error: true; submission: true (one was written just now)
    """

    seq: int
    kind: str
    at_seconds: float
    fields: Mapping[str, Any] = MappingProxyType({})


def number_of(value: Any, most: float = 1e15) -> float | None:
    """A finite number from 0 to `most`, also as text; None for anything else."""
    kind = type(value)  # nearly all are reported or absent, many times an event
    if kind is float or kind is int:
        return float(value) if 0 <= value <= most else None
    plain = None if value is None else _float_of(value)
    return plain if plain is not None and 0.0 <= plain <= most else None


def loss_of(value: Any) -> float | None:
    """A finite loss or metric of either sign; None for anything else."""
    plain = _float_of(value)
    return plain if plain is not None and isfinite(plain) else None


def _float_of(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return float(value[:40])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def is_bad_loss(value: Any) -> bool:
    """Whether a loss was reported that is no number: NaN or infinite, also as JSON text."""
    if isinstance(value, str):
        return value.strip().lower() in _NOT_NUMBERS - {"null", "none"}
    return isinstance(value, float) and not isfinite(value)
