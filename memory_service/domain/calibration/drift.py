"""Change between two calibrations of a device, and the few figures that show how fast it is."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from statistics import median
from typing import Any

from memory_service.domain.calibration.calibration import Measurement

_TIMES = ("ms", "us", "s")
_BEST_OF = ("matmul", "loader")
"""Sections of which the best value counts: of each precision, of any number of workers."""
_ALONE = (
    "bandwidth.copy", "launch.us", "memory.context_gib", "memory.process_gib", "sustained.ratio",
    "host.h2d_gb_s", "trees.100000x50",
)  # fmt: skip


def drift_percent(
    before: Mapping[str, Measurement], after: Mapping[str, Measurement]
) -> dict[str, dict[str, float]]:
    """Group of sections -> {"percent", "n"}: median change over the n sections that both have.

    Over zero means faster (times count inversely), and for the group `memory` more memory.
    """
    ratios: dict[str, list[float]] = {}
    for name, new in after.items():
        old = before.get(name)
        if old is None or old.unit != new.unit or old.value <= 0.0 or new.value <= 0.0:
            continue
        ratio = log(new.value / old.value)
        ratios.setdefault(_group(name, new.unit), []).append(-ratio if new.unit in _TIMES else ratio)
    return {
        group: {"percent": round(100.0 * (exp(median(found)) - 1.0), 2), "n": len(found)}
        for group, found in sorted(ratios.items())
    }


def key_figures(sections: Mapping[str, Measurement]) -> dict[str, dict[str, Any]]:
    """The few figures people compare: {"matmul.bf16": {"value", "unit", "section"}, ...}."""
    figures: dict[str, dict[str, Any]] = {}
    for name, found in sections.items():
        group = name.split(".", maxsplit=1)[0]
        if group in _BEST_OF:
            key = ".".join(name.split(".")[:2]) if group == "matmul" else group
            if key not in figures or found.value > figures[key]["value"]:
                figures[key] = _figure(name, found)
        elif name in _ALONE:
            figures[name] = _figure(name, found)
    return dict(sorted(figures.items()))


def _figure(name: str, found: Measurement) -> dict[str, Any]:
    return {"value": found.value, "unit": found.unit, "section": name}


def _group(name: str, unit: str) -> str:
    return "memory" if unit == "GiB" else name.split(".", maxsplit=1)[0]
