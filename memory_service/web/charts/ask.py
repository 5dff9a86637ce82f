"""Chart of expected quality over the budget, with the plan marked."""

from collections.abc import Mapping
from typing import Any

from memory_service.web.charts.base import SHAPES, axis, deadline, line, option, points


def quality_over_minutes(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Best quality of each budget, models within this one, the objectives' picks; None where no plan fits.

    data   `points` of `services.pages.ask`
    """
    if not data["front"]:
        return None
    budget = data["budget_minutes"]
    # A budget five times this one is another question, and would take half the width.
    front = [p for p in data["front"] if p["minutes"] <= 5 * budget] or data["front"][:1]
    placed, mark = [_at(point) for point in front], deadline(budget, f"budget, {budget:g} min")
    best = line("best for the minutes", placed, colour="var(--series-1)", step="end", markLine=mark)
    series = [best]
    chosen = {pick["model"] for pick in data["picks"].values()}
    others = [p for p in data["models"] if p["model"] not in chosen]
    if others:
        series.append(
            points("other models, within the budget", [_at(p) for p in others], colour="var(--series-8)")
        )
    at: dict[tuple[float, float, str], list[str]] = {}
    for objective, pick in data["picks"].items():
        at.setdefault((pick["minutes"], pick["quality_index"], pick["model"]), []).append(objective)
    for number, ((minutes, quality, model), objectives) in enumerate(at.items(), start=2):
        mine = data["objective"] in objectives
        label = ", ".join(f"{name} (this plan)" if name == data["objective"] else name for name in objectives)
        place, colour = [{"value": [minutes, quality], "name": model}], f"var(--series-{number})"
        size, symbol = (16, "circle") if mine else (11, SHAPES["claimed"])
        series.append(points(label, place, colour=colour, symbolSize=size, symbol=symbol))
    highest = max(p["quality_index"] for p in (*data["front"], *data["models"]))
    top = {"max": 100} if highest > 90 or len(front) == 1 else {}  # of an index of 100
    quality_axis = axis("Expected quality, index within the task", at="y", scale=True, nameGap=26) | top
    chart = option(axis("Smallest budget that holds the plan, min", "log"), quality_axis, series)
    return chart | {"tooltip": {"trigger": "item"}}


def _at(point: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": [point["minutes"], point["quality_index"]], "name": point["model"]}
