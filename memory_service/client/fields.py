"""Which fields may an event have, and how are a script's values (tensors, numpy scalars) written in it?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["RAW_KINDS", "as_float", "cleaned"]

RAW_KINDS = ("gpu", "batch")
"""Samples: the first to go when there is no room. Every other kind sums something up."""

Cleaner = Callable[[Any], Any]


def as_float(value: Any) -> float:
    """The number in a number, text, numpy scalar or one-element tensor (also one with a gradient)."""
    detach = getattr(value, "detach", None)
    return float(detach() if callable(detach) else value)


def _number(low: float, high: float, digits: int = 6) -> Cleaner:
    def clean(value: Any) -> float:
        plain = as_float(value)
        if not low <= plain <= high:
            raise ValueError(f"is not between {low:g} and {high:g}")
        return round(plain, digits)

    return clean


def _whole(low: int, high: int) -> Cleaner:
    def clean(value: Any) -> int:
        plain = as_float(value) if not isinstance(value, int) else value
        if not low <= plain <= high or plain != int(plain):
            raise ValueError(f"is no whole number between {low} and {high}")
        return int(plain)

    return clean


def _score(value: Any) -> float | str:
    plain = as_float(value)
    if math.isfinite(plain):
        return plain
    return "nan" if math.isnan(plain) else ("inf" if plain > 0 else "-inf")


def _text(most: int) -> Cleaner:
    return lambda value: str(value).replace("\0", " ").encode("utf-8", "replace").decode()[:most]


def _flag(value: Any) -> bool:
    return bool(value)


_seconds, _percent, _gib, _amount = _number(0, 1e8), _number(0, 101), _number(0, 1e6), _number(0, 1e9)
_ordinal, _some, _count = _whole(0, 1_000_000), _whole(1, 10**9), _whole(0, 10**15)


def _each(clean: Cleaner, names: str) -> dict[str, Cleaner]:
    return dict.fromkeys(names.split(), clean)


_MEMORY = _each(
    _gib, "allocated_gib peak_allocated_gib reserved_gib peak_reserved_gib used_gib process_gib memory_gib"
) | {"memory_percent": _percent}
_SETTINGS = {
    "batch_size": _some,
    **_each(_ordinal, "epochs folds num_workers prefetch_factor cpu_count grad_accumulation patience"),
    **_each(_count, "n_train total_steps steps_per_epoch"),
    "learning_rate": _number(0, 1e9, digits=15),
    "precision": _text(300),
    "total_gib": _gib,
    "gpu_name": _text(300),
    "persistent_workers": _flag,
}
_FIELDS: dict[str, dict[str, Cleaner]] = {
    "gpu": {
        **_each(_percent, "utilization_percent cpu_percent"),
        **_each(_amount, "power_w clock_mhz"),
        "temperature_c": _number(-100, 1000),
        "throttled": _flag,
        "other_processes": _ordinal,
        "host_gib": _gib,
        **_MEMORY,
    },
    "batch": {
        **_each(_ordinal, "fold epoch"),
        **_each(_count, "step of steps samples"),
        "scope": _text(10),
        **_each(_seconds, "elapsed_seconds seconds loader_wait_seconds"),
        "loader_wait_percent": _percent,
        "train_loss": _score,
    },
    "epoch": {
        **_each(_ordinal, "fold epoch"),
        **_each(_seconds, "seconds valid_seconds"),
        "samples": _count,
        **_each(_score, "train_loss valid_loss metric"),
        **_each(_percent, "loader_wait_percent utilization_percent"),
        **_MEMORY,
    },
    "fold": {
        **_each(_ordinal, "fold best_epoch"),
        "done": _flag,
        "seconds": _seconds,
        "metric": _score,
    },
    "note": {"text": _text(20_000), **_each(_flag, "out_of_memory error submission")},
}


def cleaned(kind: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(fields as the service takes them, what was left out and why). None means not said. A one-element
    tensor becomes a number here, so this is called where the script calls."""
    known, out, problems = _FIELDS[kind], {}, []
    for name, value in given.items():
        if value is None:
            continue
        clean = known.get(name) or _SETTINGS.get(name)
        if clean is None:
            problems.append(f"{name!r} is no field of a {kind} event")
            continue
        try:
            out[name] = clean(value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            problems.append(f"{name}={str(value)[:80]!r} {str(error)[:160]}")
    return out, problems
