"""Numbers with their units as people read them, alike by every door: `35.4 (32.8–38) GiB`, `2 h 05 min`."""

import math
from collections.abc import Callable, Mapping
from typing import Any

NOT_KNOWN = "–"


def figures(value: float, digits: int = 3, mark: str = "") -> str:
    """That many significant digits, whole parts never rounded; `mark` between thousands."""
    if not math.isfinite(value):
        return str(value)
    value = _sent(value) if digits < 5 else value
    if value == 0:
        return "0"
    if abs(value) < 1e-4 or abs(value) >= 1e15:
        return f"{value:.{digits - 1}e}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:{mark}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sent(value: float) -> float:
    """As answers round it: a figure reads the same from an answer and from what the answer was made of."""
    return float(f"{value:.4g}") if abs(value) < 1000 else value


def percent(share: float) -> str:
    """`38 %` of 0.38."""
    return f"{100 * share:.0f} %"


def plural(count: float | str, noun: str) -> str:
    """`1 epoch`, `2 epochs`, `0 batches`."""
    return f"{count} {noun}" + ("" if str(count) == "1" else "es" if noun.endswith("tch") else "s")


def minutes(value: float | None) -> str:
    """`3.1 ms`, `1.25 s`, `45 s`, `12.3 min`, `40 min`, `2 h 05 min`."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    value = _sent(value)
    if 0 < abs(value) < 0.1 / 60:
        return f"{figures(value * 60e3)} ms"
    if abs(value) < 1 / 6:
        return f"{figures(value * 60)} s"
    if abs(value) < 1:
        return f"{value * 60:.0f} s"
    if abs(value) < 100:
        return f"{round(value, 1):g} min"
    hours, rest = divmod(round(value), 60)
    return f"{hours:,} h {rest:02d} min"


def clock(seconds: float | None) -> str:
    """The same of seconds."""
    return minutes(None if seconds is None else seconds / 60)


def interval(n: Mapping[str, Any], unit: str = "", mark: str = "") -> str:
    """`128 (96–141) samples/s`, a duration as of `lasting`; the value alone where both ends read like it."""
    if unit in ("s", "min"):
        return lasting(n, unit)
    value, low, high = _ends(n, lambda each: figures(each, mark=mark))
    text = value if low == high == value or NOT_KNOWN in (low, high) else f"{value} ({low}–{high})"
    return f"{text} {unit}".rstrip()


def spread(n: Mapping[str, Any], unit: str = "") -> str:
    """A figure with its central 80 % and its grade: `12.3 (10.2–14.1) GiB, estimated`."""
    return f"{interval(n, unit)}, {n['grade']}"


def lasting(n: Mapping[str, Any], unit: str) -> str:
    """A duration with its interval, of an estimate in `s` or `min`: `26.6 min (24.1–30.0)`."""
    value, low, high = _ends(n, clock if unit == "s" else minutes)
    if low == high == value or NOT_KNOWN in (low, high):
        return value
    name = value.rpartition(" ")[2]
    if "h" not in value + low + high and low.endswith(f" {name}") and high.endswith(f" {name}"):
        low, high = low.removesuffix(f" {name}"), high.removesuffix(f" {name}")
    return f"{value} ({low}–{high})"


def _ends(n: Mapping[str, Any], shown: Callable[[float], str]) -> list[str]:
    found = (n.get(name) for name in ("value", "low", "high"))
    return [NOT_KNOWN if each is None else shown(each) for each in found]
