"""A script's values (tensors, numpy scalars) as the fields of an event."""

import math
from collections.abc import Mapping
from typing import Any

from memory_service.domain.monitoring.event import KIND_FIELDS, SETTING_FIELDS, FieldForm

RAW_KINDS = ("gpu", "batch")
"""Samples: the first to go when there is no room. Every other kind sums something up."""


def as_float(value: Any) -> float:
    """The number in a number, text, numpy scalar or one-element tensor (also one with a gradient)."""
    detach = getattr(value, "detach", None)
    return float(detach() if callable(detach) else value)


def _clean(name: str, form: FieldForm, value: Any) -> Any:
    """The value in the form of its field; ValueError for what that does not allow."""
    match form.sort:
        case "number":
            plain = as_float(value)
            if not form.low <= plain <= form.high:
                raise ValueError(f"is not between {form.low:g} and {form.high:g}")
            return round(plain, 15 if name == "learning_rate" else 6)
        case "whole":
            whole = value if isinstance(value, int) else as_float(value)
            if not form.low <= whole <= form.high or whole != int(whole):
                raise ValueError(f"is no whole number between {form.low} and {form.high}")
            return int(whole)
        case "score":
            plain = as_float(value)
            if math.isfinite(plain):
                return plain
            return "nan" if math.isnan(plain) else ("inf" if plain > 0 else "-inf")
        case "flag":
            return bool(value)
    text = str(value).replace("\0", " ").encode("utf-8", "replace").decode()
    return text[: int(form.high) or 10]


_FORMS = {kind: {**SETTING_FIELDS, **forms} for kind, forms in KIND_FIELDS.items()}


def cleaned(kind: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(fields as the service takes them, what was left out and why). Tensors become numbers here."""
    forms, out, problems = _FORMS[kind], {}, []
    for name, value in values.items():
        if value is None:
            continue
        form = forms.get(name)
        if form is None:
            problems.append(f"{name!r} is no field of a {kind} event")
            continue
        try:
            out[name] = _clean(name, form, value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            problems.append(f"{name}={str(value)[:80]!r} {str(error)[:160]}")
    return out, problems
