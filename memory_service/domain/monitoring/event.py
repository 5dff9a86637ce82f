"""One event of a run, in the run's own time; the schema of each kind: its fields with their bounds, for
sender and receiver (`schemas.events` checks by it)."""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from memory_service.domain.common.tables import shipped_table

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


_TABLE = shipped_table(__package__, "event_fields.toml")
_FORMS = {name: FieldForm(*form) for name, form in _TABLE["forms"].items()}
_FORM_OF = {name: _FORMS[form] for form, names in _TABLE["fields"].items() for name in names.split()}

SETTING_FIELDS: Mapping[str, FieldForm] = {name: _FORMS[form] for name, form in _TABLE["settings"].items()}
"""Fields of every kind: values that hold from here on."""

KIND_FIELDS: Mapping[str, Mapping[str, FieldForm]] = {
    kind: {name: _FORM_OF[name] for name in names.split()} for kind, names in _TABLE["kinds"].items()
}
"""Kind -> the fields of its own."""
