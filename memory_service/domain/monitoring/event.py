"""One event of a run, in the run's own time; the schema of each kind: its fields with their bounds, for
sender and receiver (`schemas.events` checks by it)."""

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


SERVER_SEQ = 2**60
"""From here on count the events that this service reads from a log: no client can send such a seq."""

AS_TOLD = "as_told"
"""Field of a stored event: its fields that are numbered otherwise or left out, as they were reported."""


class Event(NamedTuple):
    """One event of a run.

    seq          unique in the run
    at_seconds   the run's own time since its start; a live run and its replay have the same
    fields       the body, by these names (all optional; others are ignored):
        any      batch_size, epochs, folds, learning_rate, num_workers, cpu_count, n_train, precision, ...
                 (see `SETTING_FIELDS`): a value that holds from here on
        gpu      utilization_percent, temperature_c, total_gib, memory_percent, the names of MEMORY_FIELDS;
                 rank: of which process of a distributed training, also in batch
        batch    progress since the last such event: steps, seconds, samples, loader_wait_percent or
                 loader_wait_seconds, train_loss; or a position: step, of, elapsed_seconds, scope
                 ("epoch" | "run" | None when the line does not say), fold, epoch
        epoch    one finished epoch: fold, epoch, seconds, train_loss, valid_loss, metric, samples,
                 loader_wait_percent, utilization_percent, the names of MEMORY_FIELDS
        fold     fold, folds: a fold begins; `done`: true when it ended
        note     text; out_of_memory: true; error: true; submission: true (one was written just now); of a
                 finished fit also fit: its model, fold, seconds, rows, columns, rounds, metric
    """

    seq: int
    kind: str
    at_seconds: float
    fields: Mapping[str, Any] = MappingProxyType({})


OWN_FIT = "fit"
"""In a note's `fit`: the run's own model."""


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


class FieldForm(NamedTuple):
    """What a value may be.

    sort   number and whole: finite, from `low` to `high`; score: any number, NaN and infinity too;
           text: at most `high` characters; scope: "epoch" or "run"
    """

    sort: Literal["number", "whole", "score", "flag", "text", "scope"]
    low: float = 0
    high: float = 0


_SECONDS, _PERCENT = FieldForm("number", 0, 1e8), FieldForm("number", 0, 101)
_GIB, _AMOUNT = FieldForm("number", 0, 1e6), FieldForm("number", 0, 1e9)
_CARD_GIB = FieldForm("number", 0.001, 1e6)
_ORDINAL, _COUNT = FieldForm("whole", 0, 1_000_000), FieldForm("whole", 0, 10**15)
_SCORE, _FLAG, _NAME = FieldForm("score"), FieldForm("flag"), FieldForm("text", 0, 300)

SETTING_FIELDS: Mapping[str, FieldForm] = {
    "batch_size": FieldForm("whole", 1, 10**9),
    "epochs": _ORDINAL,
    "folds": _ORDINAL,
    "learning_rate": _AMOUNT,
    "num_workers": _ORDINAL,
    "prefetch_factor": _ORDINAL,
    "cpu_count": _ORDINAL,
    "n_train": _COUNT,
    "precision": _NAME,
    "grad_accumulation": _ORDINAL,
    "patience": _ORDINAL,
    "total_gib": _CARD_GIB,
    "total_steps": _COUNT,
    "gpu_name": _NAME,
    "steps_per_epoch": _COUNT,
    "persistent_workers": _FLAG,
    "metric_name": _NAME,
    "eta_seconds": _SECONDS,
    "unread_line": _NAME,
}
"""Fields of every kind: values that hold from here on. eta_seconds: until the end of training, as the trainer
itself says; unread_line: one of the log that was not understood."""

_FORM_OF: Mapping[str, FieldForm] = {
    **dict.fromkeys(("rank", "fold", "epoch", "best_epoch", "other_processes"), _ORDINAL),
    **dict.fromkeys(("step", "of", "steps", "samples", "rows", "columns", "rounds"), _COUNT),
    **dict.fromkeys(("seconds", "valid_seconds", "elapsed_seconds", "loader_wait_seconds"), _SECONDS),
    **dict.fromkeys(
        ("utilization_percent", "cpu_percent", "loader_wait_percent", "cpu_wait_percent"), _PERCENT
    ),
    **dict.fromkeys(("train_loss", "valid_loss", "metric"), _SCORE),
    **dict.fromkeys(("throttled", "done", "out_of_memory", "error", "submission"), _FLAG),
    **dict.fromkeys((*MEMORY_FIELDS, "host_gib"), _GIB),
    **dict.fromkeys(("power_w", "clock_mhz"), _AMOUNT),
    "memory_percent": _PERCENT,
    "temperature_c": FieldForm("number", -100, 1000),
    "scope": FieldForm("scope"),
    "fit": _NAME,
    "text": FieldForm("text", 0, 20_000),
}
"""One form for a name, in whatever kind of event."""

_MEMORY = (*MEMORY_FIELDS, "memory_percent")
_KINDS = {
    "gpu": (
        "rank", "utilization_percent", "power_w", "temperature_c", "clock_mhz", "throttled",
        "other_processes", "cpu_percent", "cpu_wait_percent", "host_gib", *_MEMORY,
    ),
    "batch": (
        "rank", "fold", "epoch", "step", "of", "scope", "elapsed_seconds", "steps", "seconds", "samples",
        "loader_wait_percent", "loader_wait_seconds", "train_loss",
    ),
    "epoch": (
        "fold", "epoch", "seconds", "valid_seconds", "samples", "train_loss", "valid_loss", "metric",
        "loader_wait_percent", "utilization_percent", *_MEMORY,
    ),
    "fold": ("fold", "done", "seconds", "metric", "best_epoch"),
    "note": (
        "text", "out_of_memory", "error", "submission",
        "fit", "fold", "seconds", "rows", "columns", "rounds", "metric",
    ),
}  # fmt: skip

KIND_FIELDS: Mapping[str, Mapping[str, FieldForm]] = {
    kind: {name: _FORM_OF[name] for name in names} for kind, names in _KINDS.items()
}
"""Kind -> the fields of its own."""
