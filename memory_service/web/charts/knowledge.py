"""Charts of knowledge: sizes of models, accuracy of predictions, competitions on a map."""

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.web import text
from memory_service.web.charts.base import (
    COLOURS,
    SHAPES,
    axis,
    band,
    bars,
    deadline,
    limit,
    line,
    mark,
    option,
    points,
    zoomed,
)

Row = Mapping[str, Any]
Series = dict[str, Any]

_FITTING = ("feasible_batch", "default_batch")
_MEMORY = ("gpu_memory_gib", "gpu_memory_percent")


def memory_curve(data: Row) -> dict[str, Any] | None:
    """Peak memory over batch size with what the card has and what a process may use of it.

    data   of `services.pages.sizing`. Claims in percent of the card become GiB; a claim that a
           batch fits is drawn along the card's limit. None where nothing is computed over batches.
    """
    if not data["answer"]["curve"]:
        return None
    card = data["card"]
    series = _computed(data, "peak_memory_gib")
    ends = [(card["memory_gib"], f"memory of the GPU, {card['memory_gib']:g} GiB")]
    if card["memory_gib"] - card["usable_gib"] > 0.05 * card["memory_gib"]:
        ends.append((card["usable_gib"], f"usable, {card['usable_gib']:g} GiB"))
    series[-1]["markLine"] = _limits(ends)
    measured = [row for row in data["measurements"] if row["same"] and row["peak_gib"] is not None]
    ran = [row for row in measured if not row["out_of_memory"]]
    for kind in ("driver", "reserved", "allocated"):
        some = [_ran(row, row["peak_gib"]) for row in ran if row["peak_of"] == kind]
        name, shape = "measured", {}
        if kind != "driver":
            name, shape = f"measured, {kind} by PyTorch only", {"symbol": "emptyTriangle"}
        if some:
            series.append(points(name, some, grade="measured", **shape))
    failed = [
        _ran(row, card["usable_gib"]) for row in data["measurements"] if row["same"] and row["out_of_memory"]
    ]
    if failed:
        series.append(
            points("ran out of memory", failed, colour="var(--limit)", symbol="triangle", symbolSize=12)
        )
    series += _claimed(data, _MEMORY, lambda row: _gib(row, card["memory_gib"]))
    series += _claimed_to_fit(data)
    chart = option(_batches(series), axis("Peak memory, GiB", at="y", min=0), series)
    return chart | {"linked": True}


def speed_curve(data: Row) -> dict[str, Any] | None:
    """Samples per second over batch size, up to the first batch that does not fit; the knee is marked."""
    answer = data["answer"]
    if not answer["curve"]:
        return None
    series = _computed(data, "samples_per_second")
    knee = answer["knee_batch_size"]
    at = next((row for row in answer["curve"] if row["batch_size"] == knee), None)
    if at is not None:
        series[-1]["markPoint"] = mark(knee, at["samples_per_second"]["value"], "knee")
    safe = answer["safe_batch_size"]
    if safe:
        series[-1]["markLine"] = deadline(safe, f"fits surely: {safe}")
    measured = [row for row in data["measurements"] if row["same"] and row["samples_per_second"]]
    used = [_ran(row, row["samples_per_second"]) for row in measured if not row["excluded"]]
    aside = [_ran(row, row["samples_per_second"]) for row in measured if row["excluded"]]
    if used:
        series.append(points("measured", used, grade="measured"))
    if aside:
        series.append(
            points("measured, set aside", aside, colour=COLOURS["measured"], symbol="emptyTriangle")
        )
    series += _claimed(data, ("samples_per_second",), lambda row: (row["low"], row["high"]))
    chart = option(_batches(series), axis("Samples per second", at="y", min=0), series)
    return chart | {"linked": True}


def _batches(series: Sequence[Series]) -> dict[str, Any]:
    """The x axis. Over ten doublings ECharts labels the ends alone unless the base is larger."""
    drawn = [point["value"] if isinstance(point, dict) else point for one in series for point in one["data"]]
    most = max((at[0] for at in drawn), default=1)
    return axis("Batch size", "log", logBase=4 if most >= 2**9 else 2)


def _computed(data: Row, figure: str) -> list[Series]:
    """The curve with its 80 % interval, the curve last."""
    rows = data["answer"]["curve"]
    spread = [(row["batch_size"], row[figure]["low"], row[figure]["high"]) for row in rows]
    curve = [[row["batch_size"], row[figure]["value"]] for row in rows]
    colour = COLOURS["estimated"]
    return [*band("80 % interval", spread, colour=colour), line("computed", curve, colour=colour)]


def _ran(row: Row, value: float) -> dict[str, Any]:
    name = f"batch {row['batch_size']}, {row['precision']}"
    point = {"value": [row["batch_size"], float(f"{value:.4g}")], "name": name}
    return point | ({"href": f"/browse/runs/{row['run_id']}"} if row["run_id"] else {})


def _claimed(data: Row, quantities: Sequence[str], range_of: Any) -> list[Series]:
    """Claims of these quantities at this page's input size: their middle, at the batch they name."""
    claims = []
    for row in _at_this_size(data):
        if row["quantity"] in quantities and row["batch_size"] and row["low"] is not None:
            low, high = range_of(row)
            value = float(f"{(low + (low if high is None else high)) / 2:.4g}")
            claims.append(_claim_point(row, [row["batch_size"], value]))
    return [points("claimed", claims, grade="claimed", symbolSize=12)] if claims else []


def _claimed_to_fit(data: Row) -> list[Series]:
    """Claims that a batch fits, as stretches along the card's usable memory."""
    usable = data["card"]["usable_gib"]
    claims = []
    for row in _at_this_size(data):
        if row["quantity"] in _FITTING and row["low"] is not None:
            ends = sorted({row["low"], row["low"] if row["high"] is None else row["high"]})
            claims += [_claim_point(row, [batch, usable]) for batch in ends]
    colour = COLOURS["claimed"]
    return [points("claimed to fit", claims, colour=colour, symbol="pin", symbolSize=16)] if claims else []


def _at_this_size(data: Row) -> Iterable[Row]:
    size = data["query"].get(data["model"]["input_kind"])
    return [row for row in data["claims"] if row["image_size"] in (None, size)]


def _claim_point(row: Row, value: list[float]) -> dict[str, Any]:
    return {"value": value, "name": f"claim {row['id']}", "href": f"/browse/conflicts/{row['id']}"}


def _gib(row: Row, memory_gib: float) -> tuple[float, float | None]:
    if row["quantity"] == "gpu_memory_gib":
        return row["low"], row["high"]
    share = memory_gib / 100.0
    return row["low"] * share, None if row["high"] is None else row["high"] * share


def _limits(ends: Sequence[tuple[float, str]]) -> dict[str, Any]:
    drawn = limit(*ends[0])
    label = {**drawn["label"], "position": "insideStartTop"}
    drawn["data"] = [{"yAxis": at, "label": {**label, "formatter": text}} for at, text in ends]
    return drawn


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
        axis(f"Measured, {unit}", "log", min=low, max=high),
        axis(f"Predicted, {unit}", "log", at="y", min=low, max=high),
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
    label = {"interval": 0, "rotate": 30}
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
