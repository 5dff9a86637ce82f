"""A script's values (tensors, numpy scalars) as the fields of an event."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from memory_service.domain.monitoring.event import KIND_FIELDS, SETTING_FIELDS, FieldForm

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


def _cleaner(name: str, form: FieldForm) -> Cleaner:
    match form.sort:
        case "number":
            return _number(form.low, form.high, 15 if name == "learning_rate" else 6)
        case "whole":
            return _whole(int(form.low), int(form.high))
        case "score":
            return _score
        case "flag":
            return bool
    return _text(int(form.high) or 10)


_CLEANERS = {
    kind: {name: _cleaner(name, form) for name, form in {**SETTING_FIELDS, **forms}.items()}
    for kind, forms in KIND_FIELDS.items()
}


def cleaned(kind: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(fields as the service takes them, what was left out and why). Tensors become numbers here."""
    cleaners, out, problems = _CLEANERS[kind], {}, []
    for name, value in values.items():
        if value is None:
            continue
        clean = cleaners.get(name)
        if clean is None:
            problems.append(f"{name!r} is no field of a {kind} event")
            continue
        try:
            out[name] = clean(value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            problems.append(f"{name}={str(value)[:80]!r} {str(error)[:160]}")
    return out, problems
