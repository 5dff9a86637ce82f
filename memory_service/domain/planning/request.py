"""What is being asked? Every field of /recommend, checked once, with what was said kept apart from what was
inferred."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from memory_service.domain.common.vocabulary import (
    MODES,
    OBJECTIVES,
    Mode,
    Objective,
    Size,
    parse_precision,
    parse_size,
    parse_task,
)
from memory_service.errors import FieldError, InvalidInput, unknown_name

__all__ = ["INTEGER_BOUNDS", "NUMBER_BOUNDS", "PINS", "Question", "integer_of", "number_of", "parse_question"]

INTEGER_BOUNDS: dict[str, tuple[int, int]] = {
    "n_train": (1, 10**10),
    "n_test": (1, 10**10),
    "n_classes": (1, 10**6),
    "image_size": (8, 4096),
    "seq_len": (1, 131_072),
    "n_features": (1, 10**6),
    "cpu_count": (1, 4096),
    "folds": (1, 50),
    "epochs": (1, 10_000),
    "batch_size": (1, 10**6),
}
NUMBER_BOUNDS: dict[str, tuple[float, float]] = {"minutes": (0.0, 10_000.0), "vram_gib": (0.0, 4096.0)}
"""Open below, closed above: (0, 10 000] minutes, (0, 4096] GiB."""

TEXT_LIMITS = {
    "competition": 200,
    "metric": 200,
    "description": 100_000,
    "model": 200,
    "gpu": 1000,
    "plan_for": 1000,
}

PINS = ("model", "folds", "epochs", "batch_size", "precision", "image_size", "seq_len")
"""Fields that fix a part of the plan: checked, never silently changed."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the planner, exactly as asked (aliases resolved); None means "not said".

    gpus       names as given, one or several: the plan must fit all of them
    plan_for   the cards of production when they are not the ones visible; they replace `gpus` in the sizing
    minutes    wall-clock budget for everything: imports, training, inference, writing the submission
    vram_gib   memory to plan for instead of the card's own
    metric     what predictions are judged by, in the asker's words
    """

    gpus: tuple[str, ...]
    task: str | None = None
    size: Size | None = None
    n_train: int | None = None
    plan_for: tuple[str, ...] = ()
    minutes: float = 30.0
    n_classes: int | None = None
    image_size: int | None = None
    seq_len: int | None = None
    n_features: int | None = None
    n_test: int | None = None
    cpu_count: int | None = None
    vram_gib: float | None = None
    precision: str | None = None
    model: str | None = None
    folds: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    objective: Objective = "balanced"
    mode: Mode = "open"
    metric: str | None = None
    competition: str | None = None
    description: str | None = None

    @property
    def pinned(self) -> dict[str, Any]:
        """The plan fields the caller fixed, by name."""
        return {name: getattr(self, name) for name in PINS if getattr(self, name) is not None}

    def canonical(self) -> dict[str, Any]:
        """Everything that was said, defaults filled in, in a fixed order: two spellings of one question
        agree."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and value != ():
                out[item.name] = list(value) if isinstance(value, tuple) else value
        return out


def number_of(field: str, given: Any, low: float, high: float) -> float:
    """A finite number in (low, high]; text is read as a number, booleans are refused.

    Raises InvalidInput naming the field for NaN, infinity, text that is no number and values out of range.
    """
    value = _to_float(field, given)
    if not math.isfinite(value):
        raise _refusal(field, "must be a finite number", given)
    if not low < value <= high:
        raise _refusal(field, f"must be over {low:g} and at most {high:g}", given)
    return value


def integer_of(field: str, given: Any, low: int, high: int) -> int:
    """A whole number in [low, high]; "128" and 128.0 count, 1.5, "nan" and true do not (InvalidInput)."""
    if isinstance(given, int) and not isinstance(given, bool):
        value = given
    else:
        number = _to_float(field, given)
        if not math.isfinite(number) or number != int(number):
            raise _refusal(field, "must be a whole number", given)
        value = int(number)
    if not low <= value <= high:
        raise _refusal(field, f"must be between {low} and {high}", given)
    return value


def parse_question(raw: Mapping[str, Any]) -> Question:
    """The question of a query string or JSON body; absent, null and "" all mean "not said".

    Raises one InvalidInput that lists every bad field: unknown names, values out of range, no card, no task.
    """
    errors: list[FieldError] = []
    out: dict[str, Any] = {}
    known = {item.name for item in fields(Question)} - {"gpus"} | {"gpu"}
    for field, given in raw.items():
        if field not in known:
            near = tuple(get_close_matches(str(field)[:80], sorted(known), n=3))
            errors.append(FieldError(str(field)[:80], "unknown field", None, near))
            continue
        if given is None or given == "":
            continue
        try:
            out["gpus" if field == "gpu" else field] = _READERS[field](field, given)
        except InvalidInput as refusal:
            errors.extend(refusal.errors)
    missing = _missing(out, {error.field for error in errors})
    errors.extend(missing)
    if errors:
        detail = "; ".join(f"{error.field}: {error.message}" for error in errors[:5])
        raise InvalidInput(detail, errors)
    out.setdefault("gpus", out.get("plan_for", ()))
    return Question(**out)


def _missing(out: Mapping[str, Any], refused: set[str]) -> list[FieldError]:
    errors = []
    if not {"gpus", "plan_for"} & set(out) and not {"gpu", "plan_for"} & refused:
        errors.append(FieldError("gpu", "a card is needed: its name (a100, t4, rtx3090 ...) or cpu", None))
    sources = {"task", "competition", "description"}
    if not sources & set(out) and not sources & refused:
        errors.append(FieldError("task", "needed unless competition or description is given", None))
    return errors


def _refusal(field: str, message: str, given: Any) -> InvalidInput:
    shown = given if isinstance(given, (bool, int)) and abs(given) < 10**15 else str(given)[:80]
    return InvalidInput(f"{field} {message}", [FieldError(field, message, shown)])


def _to_float(field: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise _refusal(field, "must be a number", given)
    try:
        return float(given)
    except (ValueError, OverflowError):
        raise _refusal(field, "must be a number", given) from None


def _text(field: str, given: Any) -> str:
    if not isinstance(given, str):
        raise _refusal(field, "must be text", given)
    limit = TEXT_LIMITS.get(field, 100)
    if len(given) > limit:
        raise _refusal(field, f"must be at most {limit} characters", given)
    if "\x00" in given:
        raise _refusal(field, "must not hold a NUL character", given)
    if not given.strip():
        raise _refusal(field, "must not be blank", given)
    return given.strip()


def _names(field: str, given: Any) -> tuple[str, ...]:
    parts = given if isinstance(given, (list, tuple)) else _text(field, given).split(",")
    names = tuple(dict.fromkeys(_text(field, part).lower() for part in parts if part != ""))
    if not names or len(names) > 16:
        raise _refusal(field, "must name 1 to 16 cards", given)
    return names


def _word(parse: Callable[[str], Any]) -> Callable[[str, Any], Any]:
    return lambda field, given: parse(_text(field, given))


def _one_of(known: tuple[str, ...]) -> Callable[[str, Any], Any]:
    def read(field: str, given: Any) -> str:
        name = _text(field, given).lower()
        if name not in known:
            raise unknown_name(field, name, known)
        return name

    return read


def _integer(low: int, high: int) -> Callable[[str, Any], Any]:
    return lambda field, given: integer_of(field, given, low, high)


def _number(low: float, high: float) -> Callable[[str, Any], Any]:
    return lambda field, given: number_of(field, given, low, high)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "task": _word(parse_task),
    "size": _word(parse_size),
    "precision": _word(parse_precision),
    "gpu": _names,
    "plan_for": _names,
    "objective": _one_of(OBJECTIVES),
    "mode": _one_of(MODES),
    "model": _text,
    "metric": _text,
    "competition": _text,
    "description": _text,
    **{name: _integer(*bounds) for name, bounds in INTEGER_BOUNDS.items()},
    **{name: _number(*bounds) for name, bounds in NUMBER_BOUNDS.items()},
}
