"""Fields of the form as people type them: numbers made plain digits, and all that is wrong said at once."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.errors import FieldError, InvalidInput, NotFound
from memory_service.services.knowledge.snapshot import Knowledge

LABELS: Mapping[str, str] = {
    "n_train": "Training samples", "n_test": "Samples to predict", "n_classes": "Classes",
    "n_features": "Columns", "cpu_count": "Processor cores", "vram_gib": "Memory to plan for",
    "image_size": "Image size", "seq_len": "Sequence length", "plan_for": "GPU of production", "gpu": "GPU",
    "minutes": "Minutes", "task": "Task", "metric": "Metric", "mode": "Memory that may be used",
    "size": "Size of the data", "batch_size": "Batch size", "folds": "Folds", "epochs": "Epochs",
}  # fmt: skip
"""Field -> what the form calls it."""

_WHOLE = ("n_train", "n_test", "n_classes", "n_features", "cpu_count", "image_size", "seq_len", "batch_size")
_GROUPED = re.compile(r"\d{1,3}(?:[ ,_'\u00a0\u202f]\d{3})+")
_SPAN = re.compile(
    r"(?:(\d{1,9}(?:\.\d{1,9})?)\s?h(?:ours?|rs?)?)?\s?(?:(\d{1,9}(?:\.\d{1,9})?)\s?(?:m|min|mins|minutes?))?",
    re.IGNORECASE,
)
_FOR_EXAMPLE = "for example t4, a100, h100, rtx4090 or cpu; all of them are under Devices"


def plain_numbers(form: Mapping[str, str]) -> dict[str, str]:
    """The form with "21,367" and "40 000" as digits, and "1 h", "90 min" as minutes; all else as it is."""
    out = dict(form)
    for name in _WHOLE:
        if _GROUPED.fullmatch(out.get(name, "")):
            out[name] = re.sub(r"\D", "", out[name])
    span = _SPAN.fullmatch(out.get("minutes", "").strip())
    if span and any(span.groups()):
        hours, minutes = (float(part or 0) for part in span.groups())
        out["minutes"] = f"{60 * hours + minutes:g}"
    return out


def all_wrong(
    knowledge: Knowledge, form: Mapping[str, str], refusal: InvalidInput | NotFound
) -> dict[str, str]:
    """Field -> what is wrong with it: what was refused first, and each name that nothing has."""
    errors: list[FieldError] = list(refusal.errors)
    look_up: Mapping[str, Callable[[str], Any]] = {
        "gpu": lambda name: knowledge.gpu(counted(name)[1]),
        "plan_for": lambda name: knowledge.gpu(counted(name)[1]),
        "competition": knowledge.competition,
    }
    refused = {error.field for error in errors}
    for field, known in look_up.items():
        for name in form[field].split(",") if field in form and field not in refused else ():
            try:
                known(name.strip())
            except (InvalidInput, NotFound) as wrong:
                errors += [FieldError(field, one.message, one.given, one.nearest) for one in wrong.errors]
                break
    return {error.field: _sentence(error) for error in errors}


def _sentence(error: FieldError) -> str:
    if error.message.startswith("unknown") and error.field == "task" and not error.nearest:
        return f"{error.message}; one of {', '.join(TASKS)}"
    if error.message.startswith("unknown") and error.field in ("gpu", "plan_for") and not error.nearest:
        return f"{error.message}; {_FOR_EXAMPLE}"
    if error.message.startswith("unknown") and error.field == "model" and not error.nearest:
        return f"{error.message}; all of them are under Models"
    return f"{error.message}; nearest: {', '.join(error.nearest)}" if error.nearest else error.message
