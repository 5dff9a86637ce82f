"""The fields that an event of each kind may have, with their bounds, for sender and receiver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from memory_service.domain.monitoring.event import MEMORY_FIELDS


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
_DEGREES = FieldForm("number", -100, 1000)
_ORDINAL, _COUNT = FieldForm("whole", 0, 1_000_000), FieldForm("whole", 0, 10**15)
_SCORE, _FLAG, _NAME = FieldForm("score"), FieldForm("flag"), FieldForm("text", 0, 300)

_MEMORY = dict.fromkeys(MEMORY_FIELDS, _GIB) | {"memory_percent": _PERCENT}

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
    "total_gib": _GIB,
    "total_steps": _COUNT,
    "gpu_name": _NAME,
    "steps_per_epoch": _COUNT,
    "persistent_workers": _FLAG,
}
"""Fields of every kind: values that hold from here on."""

KIND_FIELDS: Mapping[str, Mapping[str, FieldForm]] = {
    "gpu": {
        "utilization_percent": _PERCENT,
        "power_w": _AMOUNT,
        "temperature_c": _DEGREES,
        "clock_mhz": _AMOUNT,
        "throttled": _FLAG,
        "other_processes": _ORDINAL,
        "cpu_percent": _PERCENT,
        "host_gib": _GIB,
        **_MEMORY,
    },
    "batch": {
        "fold": _ORDINAL,
        "epoch": _ORDINAL,
        "step": _COUNT,
        "of": _COUNT,
        "scope": FieldForm("scope"),
        "elapsed_seconds": _SECONDS,
        "steps": _COUNT,
        "seconds": _SECONDS,
        "samples": _COUNT,
        "loader_wait_percent": _PERCENT,
        "loader_wait_seconds": _SECONDS,
        "train_loss": _SCORE,
    },
    "epoch": {
        "fold": _ORDINAL,
        "epoch": _ORDINAL,
        "seconds": _SECONDS,
        "valid_seconds": _SECONDS,
        "samples": _COUNT,
        "train_loss": _SCORE,
        "valid_loss": _SCORE,
        "metric": _SCORE,
        "loader_wait_percent": _PERCENT,
        "utilization_percent": _PERCENT,
        **_MEMORY,
    },
    "fold": {"fold": _ORDINAL, "done": _FLAG, "seconds": _SECONDS, "metric": _SCORE, "best_epoch": _ORDINAL},
    "note": {
        "text": FieldForm("text", 0, 20_000),
        "out_of_memory": _FLAG,
        "error": _FLAG,
        "submission": _FLAG,
    },
}
"""Kind -> the fields of its own."""
