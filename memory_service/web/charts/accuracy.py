"""Charts of accuracy: predicted against measured, coverage by group."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from memory_service.web import text
from memory_service.web.charts.base import SHAPES, axis, bars, limit, line, option, points

Row = Mapping[str, Any]

MOST_SERIES = 7
"""More groups than these share one: their colours could not be told apart."""

FEWEST = 5
"""Runs of a group below which its coverage says nothing."""


def scatter(rows: Sequence[Row], unit: str, group: str = "family") -> dict[str, Any] | None:
    """Predicted over measured on log axes, a series a group, with the diagonal.

    rows    of `services.pages.accuracy`: "points"; group: "family" or "device" (the GPU model where none)
    """
    usable = [row for row in rows if row["measured"] > 0 and row["predicted"]["value"] > 0]
    if not usable:
        return None
    groups: dict[str, list[Row]] = {}
    for row in [row for row in usable if not row["excluded"]]:
        groups.setdefault(_group(row, group), []).append(row)
    largest = sorted(groups, key=lambda name: (-len(groups[name]), name))
    if len(largest) > MOST_SERIES:
        rest = [row for name in largest[MOST_SERIES - 1 :] for row in groups[name]]
        groups = {name: groups[name] for name in largest[: MOST_SERIES - 1]} | {"others": rest}
        largest = list(groups)
    look: dict[str, Any] = {"symbolSize": 8, "emphasis": {"scale": 1.4}}
    series = [points(name, [_point(row) for row in groups[name]], **look) for name in largest]
    hollow = [_point(row) for row in usable if row["excluded"]]
    aside = [points("not scored", hollow, colour="var(--quiet)", symbol=SHAPES["claimed"])] if hollow else []
    values = [row["measured"] for row in usable] + [row["predicted"]["value"] for row in usable]
    low, high = _rounded(min(values), -1), _rounded(max(values), 1)
    ends = [[low, low], [high, high]]
    same = line("predicted = measured", ends, colour="var(--limit)", dashed=True, silent=True)
    chart = option(
        axis(f"Measured, {unit}", "log", min=low, max=high, axisLabel=_SHORT),
        axis(f"Predicted, {unit}", "log", at="y", min=low, max=high, axisLabel=_SHORT),
        [*series, *aside, same | {"showSymbol": False, "tooltip": {"show": False}}],
    )
    return chart | {"linked": True, "tooltip": {"trigger": "item"}}


def coverage(rows: Sequence[Row], meant_percent: float) -> dict[str, Any] | None:
    """Share of measurements inside the 80 % interval by group; small groups are left out."""
    scored = [row for row in rows if row["n"] >= FEWEST][:12]
    if not scored:
        return None
    chart = bars("inside the interval", [row["inside_percent"] for row in scored], colour="var(--estimated)")
    chart["markLine"] = limit(meant_percent, f"meant: {meant_percent:g} %")
    names = [f"{row['name']} ({row['n']})" for row in scored]
    label = {"interval": 0, "rotate": 30, "hideOverlap": True}
    share = axis("Inside the interval, %", at="y", min=0, max=100)
    return option(axis("", "category", data=names, axisLabel=label), share, [chart])


def sides(item: Row) -> dict[str, Any] | None:
    """What each side of a conflict allows, on one axis; None where a side has no numbers."""
    rows = list(reversed(item["sides"]))
    numbers = [(row["low"], row["low"] if row["high"] is None else row["high"]) for row in rows]
    if not rows or any(low is None for low, _ in numbers):
        return None
    names = [
        f"{row['id'] if len(row['id']) <= 24 else row['id'][:23] + '…'} ({row['grade']})" for row in rows
    ]
    hidden: dict[str, Any] = {
        "silent": True,
        "itemStyle": {"color": "transparent"},
        "tooltip": {"show": False},
        "unnamed": True,
    }
    start = bars("from", [low for low, _ in numbers], stack="side", **hidden)
    marks = [{"color": f"var(--{row['grade']})", "opacity": 0.3} for row in rows]
    allowed = [
        {"value": high - low, "itemStyle": mark, "name": name}
        for (low, high), mark, name in zip(numbers, marks, names, strict=True)
    ]
    width = bars("what it allows", allowed, stack="side", tooltip={"show": False})
    middle = points(
        "its middle",
        [
            {
                "value": [_middle(row, low, high), place],
                "name": name,
                "symbol": SHAPES[row["grade"]],
                "itemStyle": {"color": f"var(--{row['grade']})"},
            }
            for place, ((low, high), row, name) in enumerate(zip(numbers, rows, names, strict=True))
            if low or row.get("value") is not None  # "at most so much" has no middle
        ],
        symbolSize=11,
        z=3,
    )
    groups = {"type": "category", "data": names, "axisLabel": {"width": 150, "overflow": "truncate"}}
    span = axis(text.unit(item["unit"]), at="x", min=0, boundaryGap=[0, "4%"])
    chart = option(span, groups, [start, width, middle])
    chart["legend"] = {"show": False}
    chart["grid"] = {**chart["grid"], "top": 12}
    return chart | {"tooltip": {"trigger": "item"}}


_SHORT = {"hideOverlap": True}


def _rounded(value: float, direction: int) -> float:
    """The next 1, 2 or 5 times a power of ten below (-1) or above (1)."""
    power = 10.0 ** floor(log10(value))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    chosen = max(s for s in steps if s <= value) if direction < 0 else min(s for s in steps if s >= value)
    return float(f"{chosen:.3g}")


def _middle(row: Row, low: float, high: float) -> float:
    return float(row["value"]) if row.get("value") is not None else (low + high) / 2.0


def _group(row: Row, group: str) -> str:
    return str((row["device"] or row["gpu"]) if group == "device" else row[group] or "unknown")


def _point(row: Row) -> dict[str, Any]:
    name = f"{row['model'] or row['family']} b{row['batch_size'] or '?'} on {row['device'] or row['gpu']}"
    value = [row["measured"], row["predicted"]["value"]]
    return {"value": value, "name": name, "href": f"/browse/runs/{row['run_id']}"}
