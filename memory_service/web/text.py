"""Values, moments, headings and foreign text for people; numbers are of `domain.common.units`."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from memory_service.domain.common.units import NOT_KNOWN, figures

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Terminal colours removed; control characters and those that turn the writing direction visible."""
    if text.isprintable() or not _CONTROL.search(text):
        return text
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(lambda found: _visible(found[0]), _ANSI.sub("", text))


def cut(text: str, most: int = 400) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= most else f"{text[:most].rstrip()}… ({len(text):,} characters)"


def amount(value: Any, digits: int = 3) -> str:
    """Any JSON value: numbers to significant digits (whole parts never rounded), thousands marked."""
    if isinstance(value, str):
        return plain(value) if value else NOT_KNOWN
    if value is None or value in ([], {}):
        return NOT_KNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return figures(value, digits, ",")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {amount(item, digits)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(amount(item, digits) for item in value)
    return plain(str(value))


def moment(value: str | dt.datetime | None) -> str:
    """`2026-03-01 14:05 UTC` of a time in ISO 8601."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, str):
        try:
            return moment(dt.datetime.fromisoformat(value))
        except ValueError:
            return plain(value)
    return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(value: str, now: dt.datetime | None = None) -> str:
    """How long a time in ISO 8601 is past: `just now`, `5 min ago`, `3 h ago`, `12 d ago`; from 60 days on
    the date."""
    try:
        at = dt.datetime.fromisoformat(value)
    except ValueError:
        return plain(value)
    seconds = ((now or dt.datetime.now(dt.UTC)) - at).total_seconds()
    if not -60 <= seconds < 60 * 86_400:
        return at.astimezone(dt.UTC).strftime("%Y-%m-%d")
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def sparks(lines: Sequence[Sequence[float]]) -> list[str]:
    """Points of a polyline for each line, one after the other, x from 0.5 by 1, y from 2 (the greatest) to
    18."""
    low, high = min(map(min, lines)), max(map(max, lines))
    scale, at, drawn = 16.0 / (high - low or 1.0), 0.5, []
    for values in lines:
        drawn.append(" ".join(f"{at + n},{18 - scale * (v - low):.1f}" for n, v in enumerate(values)))
        at += len(values)
    return drawn


@lru_cache(maxsize=1024)
def title_of(name: str, *, with_unit: bool = True) -> str:
    """A field's name as a heading: `peak_memory_gib` -> `Peak memory, GiB`."""
    if name in _NAMED:
        return _NAMED[name]
    words = name.split("_")
    unit = _UNITS.get(words[-1]) if len(words) > 1 else None
    text = " ".join(words[:-1] if unit else words)
    for word in ("gpus", "gpu", "id", "url", "cpu", "vram"):
        text = re.sub(rf"\b{word}\b", word.upper().replace("GPUS", "GPUs"), text)
    text = text[:1].upper() + text[1:]
    return f"{text}, {unit}" if unit and with_unit else text


def unit(name: str | None) -> str:
    """A unit as sources write it, as pages do: `sample/second` -> `samples/s`."""
    return _SHORT_UNITS.get(name or "", name or "")


def input_unit(kind: str | None, model: str | None, task: str | None = None) -> str:
    """Of the size of a model's input; a sequence is of what its task has, a spectrogram of frames."""
    if kind == "seq_len":
        task = "audio" if (model or "").startswith("spec/") else task
        return next((unit for of, unit in _SEQUENCES.items() if (task or "").startswith(of)), "tokens")
    return {"image_size": "px", "n_features": "columns"}.get(kind or "", "")


_SEQUENCES = {"audio": "frames", "time-series": "steps", "point-cloud": "points", "recommendation": "items"}


_SHORT_UNITS = {"minute": "min", "second": "s", "percent": "%", "sample/second": "samples/s"}

_NAMED = {
    "n_train": "Training samples", "n_test": "Samples to predict", "n_classes": "Classes",
    "n_features": "Columns", "num_workers": "Loader workers", "cpu_count": "Processor cores",
    "grad_accumulation": "Gradient accumulation", "seq_len": "Sequence length",
    "group_by": "Rows belong together by",
    "vram_gib": "Memory to plan for, GiB", "plan_for": "GPU of production", "mode": "Memory that may be used",
}  # fmt: skip

_UNITS = {"gib": "GiB", "mib": "MiB", "gb": "GB", "percent": "%", "minutes": "min", "seconds": "s", "w": "W"}


def _visible(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"\\u{code:04x}"
