"""Charts of competitions: the map, and scores over minutes."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.web.charts.base import SHAPES, axis, line, option, points, zoomed

_DOWN = "path://M0 0L100 0L50 90Z"
_SHAPES = ("circle", "triangle", "rect", "diamond", _DOWN, "roundRect", "arrow", SHAPES["claimed"])


def plane(placed: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Competitions as points, one colour and shape per kind of input; linked to their pages."""
    if not placed:
        return None
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for point in placed:
        kinds.setdefault(modality_of(point["task"]) if point["task"] else "task not known", []).append(point)
    series = []
    for number, kind in enumerate(sorted(kinds, key=lambda name: -len(kinds[name]))):
        data = [
            {"value": [p["x"], p["y"]], "name": f"{p['title']} ({p['task'] or 'task not known'})"}
            | {"href": f"/browse/competitions/{p['slug']}"}
            for p in kinds[kind]
        ]
        colour = f"var(--series-{number % 8 + 1})"
        series.append(points(kind, data, colour=colour) | {"symbol": _SHAPES[number % 8], "symbolSize": 10})
    hidden = {"show": False}
    bare: dict[str, Any] = dict.fromkeys(("axisLine", "axisLabel", "axisTick", "splitLine"), hidden)
    bare["scale"] = True
    chart = option(axis("") | bare, axis("", at="y") | bare, series)
    tooltip = {"trigger": "item", "formatter": "{b}"}
    inside = [{"type": "inside"}, {"type": "inside", "yAxisIndex": 0}]
    return chart | {"tooltip": tooltip, "linked": True, "dataZoom": inside}


def score_over_minutes(curves: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Any] | None:
    """Best validation score so far of each run; None without a run of two scored epochs."""
    if not curves:
        return None
    names = [f"{c['model'].partition('.')[0]} on {c['gpu']}, {c['run_id'][:4]}" for c in curves]
    series = [line(name, curve["points"], step="end") for name, curve in zip(names, curves, strict=True)]
    chart = option(axis("Minutes since the run began"), axis(metric, at="y", scale=True), series)
    return zoomed(chart)


def cost_by_size(profiles: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any] | None:
    """Memory of one sample (MiB) over input size, a line a precision; None with fewer than two sizes.

    profiles   rows of the sizing table, ascending by input size; only the usual layout is drawn
    """
    usual = [p for p in profiles if p["fused_attention"] and not p["checkpointing"]]
    series = []
    for precision in ("fp32", "amp"):
        data = [[p["input_size"], p["per_sample_mib"]] for p in usual if p["precision"] == precision]
        if len({x for x, _ in data}) > 1:
            series.append(line(precision, data, dashed=precision == "fp32"))
    if not series:
        return None
    return option(axis(f"Input size, {unit}"), axis("Memory of one more sample, MiB", at="y"), series)
