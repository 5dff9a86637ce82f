"""Charts of memory and throughput over batch size, with claims and runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_service.web.charts.base import COLOURS, axis, band, deadline, limit, line, mark, option, points

Row = Mapping[str, Any]
Series = dict[str, Any]

_FITTING = ("feasible_batch", "default_batch")
_MEMORY = ("gpu_memory_gib", "gpu_memory_percent")


def memory_curve(data: Row) -> dict[str, Any] | None:
    """Peak memory over batch size with what the card has and what a process may use of it.

    data   of `services.pages.sizing_one_model`. Claims in percent of the card become GiB; a claim that a
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
