"""Charts of devices: measured figures beside the data sheet, over time, over problem size."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.web.charts.base import axis, band, bars, limit, line, option


def share_of_data_sheet(compared: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Measured figures in percent of the data sheet's; None where it has none."""
    compared_rows = [row for row in compared if row["of_sheet_percent"] is not None]
    if not compared_rows:
        return None
    shares = [round(row["of_sheet_percent"], 1) for row in compared_rows]
    drawn = bars("measured", shares, colour="var(--measured)")
    figures = axis("Figure", "category", data=[row["figure"] for row in compared_rows])
    chart = drawn | {"markLine": limit(100.0, "data sheet", colour="var(--claimed)")}
    return option(figures, axis("Percent of the data sheet", at="y"), [chart])


def figures_over_time(history: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Each figure of every calibration in percent of its first; None with one calibration."""
    figures = [(each["figure"], each["points"]) for each in history]
    series = [line(name, [[at, n] for at, _, n in of if n is not None]) for name, of in figures]
    if not series:
        return None
    return option(axis("", "time"), axis("Percent of the first calibration", at="y", scale=True), series)


def products_by_size(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Matrix products over their side, a line a precision with its p20-p80 band; None under two sizes."""
    lines: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for row in sections:
        group, _, rest = row["section"].partition(".")
        precision, _, size = rest.partition(".")
        if group == "matmul" and size.isdigit():
            lines.setdefault(precision, []).append((int(size), row))
    if max((len(rows) for rows in lines.values()), default=0) < 2:
        return None
    series = []
    for number, (precision, rows) in enumerate(sorted(lines.items()), start=1):
        colour, rising = f"var(--series-{number})", sorted(rows, key=lambda one: one[0])
        series.append(line(precision, [[size, row["value"]] for size, row in rising], colour=colour))
        series += band(f"{precision} p20 to p80", [(n, r["p20"], r["p80"]) for n, r in rising], colour=colour)
    return option(axis("Side of the matrices", "log", logBase=2), axis("TFLOP/s", at="y"), series)
