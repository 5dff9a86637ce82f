"""Charts of a run over its minutes: memory, throughput, waiting, scores, verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.web.charts.base import Series, axis, band, deadline, limit, line, option, points

_MINUTES = "Minutes since the run began"
_SEVERITY_COLOURS = {"critical": "var(--bad)", "warning": "var(--weak)", "info": "var(--fair)"}
_SHAPES = {"critical": "triangle", "warning": "diamond", "info": "circle"}
_COLOURS = 8


def _over_minutes(y: Mapping[str, Any], series: Sequence[Series]) -> dict[str, Any]:
    """Charts of one page share the cursor, and what they are zoomed to (Ctrl and the wheel)."""
    zoom = [{"type": "inside", "zoomOnMouseWheel": "ctrl", "preventDefaultMouseMove": False}]
    return option(axis(_MINUTES), y, series) | {"group": "minutes", "dataZoom": zoom}


def memory_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Memory readings by kind, with the GPU's memory as a limit; None without readings."""
    samples, epochs = run["curves"]["card"], run["curves"]["epochs"]
    series = []
    for name, rows, field, colour in (
        ("whole GPU", samples, "driver_gib", "var(--series-1)"),
        ("this process", samples, "process_gib", "var(--series-6)"),
        ("reserved", epochs, "peak_reserved_gib", "var(--series-4)"),
        ("allocated", epochs, "peak_allocated_gib", "var(--series-3)"),
    ):
        data = _xy(rows, field)
        if data:
            series.append(line(name, data, colour=colour, dashed=rows is epochs))
    if not series:
        return None
    y = axis("Memory, GiB", at="y")
    if run["card"]:
        total = run["card"]["memory_gib"]
        series[0] |= {"markLine": limit(total, f"the GPU, {total:g} GiB")}
        y |= {"max": round(total * 1.1, 1), "axisLabel": {"showMaxLabel": False}}
    return _over_minutes(y, series)


def speed_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Reported samples a second over the predicted band."""
    reported = _xy(run["curves"]["steps"], "samples_per_second")
    if not reported:
        return None
    series: list[Series] = []
    expected = ((run.get("watch") or {}).get("expected") or {}).get("samples_per_second")  # with its loader
    expected = expected or (run["prediction"] or {}).get("samples_per_second")
    if expected:
        ends = (0.0, reported[-1][0])
        expected_at = [(x, expected["low"], expected["high"]) for x in ends]
        series += band("predicted, 80 of 100", expected_at, colour="var(--estimated)")
    series.append(line("measured", reported, colour="var(--measured)"))
    return _over_minutes(axis("Samples per second", at="y"), series)


def waiting_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """GPU utilisation and loader wait in percent."""
    curves = run["curves"]
    series = [
        line(name, data, colour=colour, dashed=dashed)
        for name, rows, field, colour, dashed in (
            ("GPU busy", curves["card"], "utilization_percent", "var(--series-1)", False),
            ("waiting for the loader", curves["steps"], "loader_wait_percent", "var(--series-2)", True),
        )
        if (data := _xy(rows, field))
    ]
    return _over_minutes(axis("Percent of the time", at="y", max=100), series) if series else None


def scores_over_time(
    run: Mapping[str, Any], fields: Sequence[tuple[str, str]], name: str
) -> dict[str, Any] | None:
    """Figures of epochs: of one fold a colour for each figure, of several a colour for each fold.

    fields   [(field of an epoch, what it is called)]; where there are two, the first is dashed
    """
    epochs = run["curves"]["epochs"]
    folds = sorted({epoch.get("fold") or 0 for epoch in epochs})
    series = []
    for place, fold in enumerate(folds):
        of_fold = [epoch for epoch in epochs if (epoch.get("fold") or 0) == fold]
        for number, (field, called) in enumerate(fields):
            data = _xy(of_fold, field)
            if not data:
                continue
            label, colour = (f"fold {fold}", place) if len(folds) > 1 else (called, number)
            paint = f"var(--series-{colour % _COLOURS + 1})"
            series.append(line(label, data, colour=paint, dashed=len(fields) > 1 and number == 0))
    return _over_minutes(axis(name, at="y", scale=True), series) if series else None


def compared_over_time(
    runs: Sequence[Mapping[str, Any]],
    field: str,
    name: str,
    only: str | None = "",
    direction: str | None = None,
) -> dict[str, Any] | None:
    """A figure of the epochs of several runs, a colour for each, called as in the table; `only` of those with
    this metric. direction: "max" or "min", of a score: the best so far of all folds."""
    series = []
    for place, run in enumerate(runs):
        if only not in ("", run["metric"]):
            continue
        epochs = run["curves"]["epochs"]
        data = _best_so_far(epochs, field, direction) if direction else _by_fold(epochs, field)
        if data:
            called, colour = (
                f"{chr(65 + place)} {run['model'].partition('.')[0][:24]}",
                f"var(--series-{place % _COLOURS + 1})",
            )
            series.append(line(called, data, colour=colour, step="end" if direction else False))
    return _over_minutes(axis(name, at="y", scale=True), series) if series else None


def _best_so_far(epochs: Sequence[Mapping[str, Any]], field: str, direction: str) -> list[list[float]]:
    """The best of all epochs until each, of folds that follow each other."""
    found: list[list[float]] = []
    for minute, value in sorted(_xy(epochs, field)):
        best = value if not found else (max if direction == "max" else min)(found[-1][1], value)
        found.append([minute, best])
    return found


def _by_fold(epochs: Sequence[Mapping[str, Any]], field: str) -> list[list[Any]]:
    """Points of one fold after the other, a gap between two folds."""
    found: list[list[Any]] = []
    for fold in dict.fromkeys(epoch.get("fold") or 0 for epoch in epochs):
        data: list[list[Any]] = list(_xy([e for e in epochs if (e.get("fold") or 0) == fold], field))
        if found and data:
            found.append([data[0][0], None])
        found += data
    return found


def verdicts_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every verdict at its minute, by what it asked for, its severity by colour and shape; the end of the
    budget as a line."""
    verdicts = run["verdicts"]
    if not verdicts:
        return None
    actions = list(dict.fromkeys(verdict["action"].replace("_", " ") for verdict in verdicts))
    series = []
    for severity, colour in _SEVERITY_COLOURS.items():
        chosen = [verdict for verdict in verdicts if verdict["severity"] == severity]
        places = [[round(each["at_seconds"] / 60, 2), each["action"].replace("_", " ")] for each in chosen]
        data = [{"value": at, "name": each["rule"]} for at, each in zip(places, chosen, strict=True)]
        if data:
            drawn = points(severity, data, colour=colour, symbolSize=12)
            series.append(drawn | {"symbol": _SHAPES[severity]})
    last = max(verdict["at_seconds"] / 60 for verdict in verdicts)
    end = max(run["minutes"] or 0.0, last) * 1.04
    if run["minutes"]:
        mark = deadline(run["minutes"], f"budget, {run['minutes']:g} min")
        late = run["minutes"] > end / 2
        mark["label"] |= {"position": "end", "distance": 4, "align": "right" if late else "left"}
        series[0] |= {"markLine": mark}
    x = axis(_MINUTES, max=round(end, 2), axisLabel={"showMaxLabel": False})
    return option(x, axis("", "category", at="y", data=actions), series)


def _xy(rows: Sequence[Mapping[str, Any]], field: str) -> list[list[float]]:
    return [
        [round(row["minute"], 3), round(row[field], 5)]
        for row in rows
        if row.get("minute") is not None and isinstance(row.get(field), int | float)
    ]
