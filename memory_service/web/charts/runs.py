"""How did a run go over its minutes: memory, speed, what kept it waiting, scores, and what it was told?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.web.charts.base import Series, axis, band, deadline, limit, line, option, points

__all__ = ["memory_over_time", "scores_over_time", "speed_over_time", "told_over_time", "waiting_over_time"]

_MINUTES = "Minutes since the run began"


def memory_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Kinds of reading drawn apart, and the card's memory as a limit; None where nothing was read."""
    samples, epochs = run["curves"]["memory"], run["curves"]["epochs"]
    series = []
    for name, rows, field, colour in (
        ("all on the card, by the driver", samples, "driver_gib", "var(--series-1)"),
        ("this process, by the driver", samples, "process_gib", "var(--series-6)"),
        ("peak reserved, by torch", epochs, "peak_reserved_gib", "var(--series-4)"),
        ("peak allocated, by torch", epochs, "peak_allocated_gib", "var(--series-3)"),
        ("allocated now, by torch", epochs, "allocated_gib", "var(--series-8)"),
    ):
        data = _xy(rows, field)
        if data:
            series.append(line(name, data, colour=colour, dashed=field == "allocated_gib"))
    if not series:
        return None
    if run["card"]:
        total = run["card"]["memory_gib"]
        series[0] |= {"markLine": limit(total, f"the card, {total:g} GiB")}
        return option(axis(_MINUTES), axis("Memory, GiB", at="y", max=round(total * 1.1, 1)), series)
    return option(axis(_MINUTES), axis("Memory, GiB", at="y"), series)


def speed_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Samples a second as they were told, over the band of the prediction."""
    told = _xy(_stretches(run), "samples_per_second")
    if not told:
        return None
    series: list[Series] = []
    expected = (run["prediction"] or {}).get("samples_per_second")
    first, last = told[0][0], told[-1][0]
    if expected:
        series += band(
            "predicted, 80 of 100",
            [(x, expected["low"], expected["high"]) for x in (first, last)],
            colour="var(--estimated)",
        )
    series.append(line("measured", told, colour="var(--measured)"))
    return option(axis(_MINUTES), axis("Samples per second", at="y"), series)


def waiting_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """How busy the card was, and how long steps waited for the loader, in percent."""
    rows = _stretches(run)
    series = [
        line(name, data, colour=colour, dashed=dashed)
        for name, field, colour, dashed in (
            ("card busy", "utilization_percent", "var(--series-1)", False),
            ("waiting for the loader", "loader_wait_percent", "var(--series-2)", True),
        )
        if (data := _xy(rows, field))
    ]
    return option(axis(_MINUTES), axis("Percent of the time", at="y", max=100), series) if series else None


def scores_over_time(
    run: Mapping[str, Any], fields: Sequence[tuple[str, str]], name: str
) -> dict[str, Any] | None:
    """Figures of epochs, one line per figure and fold.

    fields   [(field of an epoch, what it is called)]
    """
    epochs = run["curves"]["epochs"]
    folds = sorted({epoch.get("fold") or 0 for epoch in epochs})
    series = []
    for field, called in fields:
        for fold in folds:
            data = _xy([epoch for epoch in epochs if (epoch.get("fold") or 0) == fold], field)
            if data:
                told = f"{called}, fold {fold}" if len(folds) > 1 else called
                series.append(line(told, data, dashed=field == "train_loss"))
    return option(axis(_MINUTES), axis(name, at="y", scale=True), series) if series else None


def told_over_time(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every verdict at its minute, by what it asked for; the end of the budget as a line."""
    verdicts = run["verdicts"]
    if not verdicts:
        return None
    actions = list(dict.fromkeys(verdict["action"].replace("_", " ") for verdict in verdicts))
    data = [
        {
            "value": [round(verdict["at_seconds"] / 60, 2), verdict["action"].replace("_", " ")],
            "name": verdict["rule"],
        }
        for verdict in verdicts
    ]
    drawn = points("told", data, colour="var(--accent)", symbolSize=12)
    if run["minutes"]:
        drawn |= {"markLine": deadline(run["minutes"], f"budget, {run['minutes']:g} min")}
    x = axis(_MINUTES, max=max([run["minutes"] or 0.0, *(point["value"][0] for point in data)]))
    return option(x, axis("", "category", at="y", data=actions), [drawn])


def _stretches(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = (run["watch"] or {}).get("stretches") or ()
    return [{**row, "minute": row["at_seconds"] / 60} for row in rows]


def _xy(rows: Sequence[Mapping[str, Any]], field: str) -> list[list[float]]:
    return [
        [round(row["minute"], 3), row[field]]
        for row in rows
        if row.get("minute") is not None and isinstance(row.get(field), int | float)
    ]
