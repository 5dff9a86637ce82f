"""Parts of ECharts options: axes, lines, points, bands and limits.

Colours are names of the stylesheet (`var(--series-1)`, `var(--measured)`, `var(--limit)`): the browser puts
in the value of the theme that is shown. Tooltips are drawn on the canvas, so texts need no escaping.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal

Series = dict[str, Any]
Kind = Literal["value", "log", "category", "time"]

COLOURS = {grade: f"var(--{grade})" for grade in ("measured", "estimated", "claimed")}
"""Grade -> its colour; shapes differ too, colour is never alone."""

_HALF = "path://M50 0A50 50 0 1 0 50 100A50 50 0 1 0 50 0ZM50 16A34 34 0 0 1 50 84Z"
_RING = "path://M50 0A50 50 0 1 0 50 100A50 50 0 1 0 50 0ZM50 16A34 34 0 1 1 50 84A34 34 0 1 1 50 16Z"
SHAPES = {"measured": "circle", "estimated": _HALF, "claimed": _RING}
"""Grade -> its shape, as the legend has them: ● ◐ ○."""


def axis(name: str, kind: Kind = "value", *, at: Literal["x", "y"] = "x", **more: Any) -> dict[str, Any]:
    """`name`: quantity and unit ("Batch size", "Peak memory, GiB")."""
    place = {"nameLocation": "middle", "nameGap": 30} if at == "x" else {"nameLocation": "end", "nameGap": 12}
    aligned = {} if at == "x" else {"nameTextStyle": {"align": "left"}}
    return {"type": kind, "name": name, **place, **aligned, **more}


def option(
    x: Mapping[str, Any], y: Mapping[str, Any] | Sequence[Mapping[str, Any]], series: Sequence[Series]
) -> dict[str, Any]:
    """A whole chart. A second y axis stands on the right; its series carry `yAxisIndex` 1."""
    ys = [dict(y)] if isinstance(y, Mapping) else [dict(one) for one in y]
    for second in ys[1:]:
        second |= {"position": "right", "nameTextStyle": {"align": "right"}, "splitLine": {"show": False}}
    named = list(dict.fromkeys(s["name"] for s in series if s.get("name") and not s.get("unnamed")))
    plain = [{key: value for key, value in s.items() if key != "unnamed"} for s in series]
    lines = ceil(sum(7 * len(name) + 40 for name in named) / 330)
    narrow = {"legend": {"type": "plain", "top": 0, "data": named}, "grid": {"top": 32 + 24 * lines}}
    flat = all(s["type"] == "scatter" for s in series)
    return {
        "grid": {"left": 12, "right": 24, "top": 56, "bottom": 34, "containLabel": True},
        "legend": {"type": "scroll", "top": 0, "data": named},
        "tooltip": {"trigger": "item" if flat else "axis"},
        "xAxis": dict(x),
        "yAxis": ys if len(ys) > 1 else ys[0],
        "series": plain,
        # Where all names take more than three lines, one is shown at a time.
        "media": [{"query": {"maxWidth": 500}, "option": narrow}] if lines <= 3 else [],
    }


def line(name: str, data: Sequence[Any], *, colour: str = "", dashed: bool = False, **more: Any) -> Series:
    """A curve through `[[x, y], ...]` (or y alone over categories). None leaves a gap."""
    style = {"width": 2, "type": "dashed" if dashed else "solid", **({"color": colour} if colour else {})}
    paint = {"itemStyle": {"color": colour}} if colour else {}
    few = len(data) <= 40
    return {
        "type": "line", "name": name, "data": list(data), "showSymbol": few,
        "symbol": "circle", "symbolSize": 5, "lineStyle": style, **paint, **more,
    }  # fmt: skip


def points(name: str, data: Sequence[Any], *, grade: str = "", colour: str = "", **more: Any) -> Series:
    """Points `[x, y]` or `{"value": [x, y], "name", "href"}`, in the colour and shape of a grade."""
    paint = colour or COLOURS.get(grade, "")
    return {
        "type": "scatter", "name": name, "data": list(data), "symbol": SHAPES.get(grade, "circle"),
        "symbolSize": 9, **({"itemStyle": {"color": paint}} if paint else {}), **more,
    }  # fmt: skip


def bars(name: str, data: Sequence[Any], *, colour: str = "", stack: str = "", **more: Any) -> Series:
    paint = {"itemStyle": {"color": colour}} if colour else {}
    return {
        "type": "bar", "name": name, "data": list(data), "barMaxWidth": 28,
        **({"stack": stack} if stack else {}), **paint, **more,
    }  # fmt: skip


def band(name: str, data: Sequence[tuple[float, float, float]], *, colour: str) -> list[Series]:
    """The area between low and high: `[(x, low, high), ...]`. Two stacked series, the lower one invisible."""
    hidden: dict[str, Any] = {
        "type": "line", "stack": f"band {name}", "stackStrategy": "all", "symbol": "none", "silent": True,
        "lineStyle": {"opacity": 0}, "tooltip": {"show": False}, "emphasis": {"disabled": True},
    }  # fmt: skip
    low = {**hidden, "name": f"{name} from", "unnamed": True, "data": [[x, a] for x, a, _ in data]}
    width = {**hidden, "name": name, "data": [[x, b - a] for x, a, b in data]}
    width |= {"areaStyle": {"color": colour, "opacity": 0.18}, "itemStyle": {"color": colour}}
    return [low, width]


def limit(value: float, label: str, *, colour: str = "var(--limit)") -> dict[str, Any]:
    """A level: `line(..., markLine=limit(40.0, "usable"))`."""
    return {
        "silent": True, "symbol": "none", "lineStyle": {"color": colour, "type": "dashed", "width": 1.5},
        "label": {"formatter": label, "position": "insideEndTop", "color": colour},
        "data": [{"yAxis": value}],
    }  # fmt: skip


def deadline(value: float | str, label: str) -> dict[str, Any]:
    """An upright line at a moment or batch."""
    drawn = limit(0.0, label)
    return drawn | {"label": {**drawn["label"], "position": "end"}, "data": [{"xAxis": value}]}


def mark(x: float, y: float, label: str) -> dict[str, Any]:
    """One named point on a curve (`markPoint`)."""
    return {
        "symbol": "pin", "symbolSize": 34, "itemStyle": {"color": "var(--accent)"},
        "label": {"show": True, "formatter": label, "position": "top", "color": "var(--text)"},
        "data": [{"coord": [x, y], "name": label}],
    }  # fmt: skip


def zoomed(chart: Mapping[str, Any]) -> dict[str, Any]:
    """The chart with a slider below it."""
    grid = {**chart["grid"], "bottom": 74}
    zoom = [{"type": "slider", "xAxisIndex": 0, "height": 22, "bottom": 6, "brushSelect": False}]
    return {**chart, "grid": grid, "dataZoom": zoom}
