"""Pages that show what one service call gives: lists, single rows, maps."""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.pages import knowledge
from memory_service.services.pages.accuracy import accuracy_page, accuracy_table
from memory_service.services.pages.competitions import competition_map, competition_page, competitions_page
from memory_service.services.pages.conflicts import conflict_list_page, conflict_page, conflicts_table
from memory_service.services.pages.find import find_page, settings_page
from memory_service.services.pages.knowledge import source_page, techniques_page
from memory_service.services.pages.sizing import sizing_page, sizing_table
from memory_service.services.pages.sizing_one_model import sizing_case_page
from memory_service.services.pages.strategies import strategies_page, strategy_page
from memory_service.web.charts.accuracy import coverage, scatter, sides
from memory_service.web.charts.competitions import cost_by_size, plane, score_over_minutes
from memory_service.web.charts.sizing import memory_curve, speed_curve
from memory_service.web.site import Pages, answer, query_of
from memory_service.web.text import input_unit

Data = dict[str, Any]

router = Pages()


def _page(
    path: str,
    template: str,
    title: str,
    data_of: Callable[..., Data],
    charts_of: Callable[[Data], Data] = lambda _: {},
) -> None:
    """GET `path`: a list, whose data follow from the database and the query, or a row, whose data follow
    from the database and what the path names. title: a format of the data."""

    @router.page(path)
    def page(request: Request) -> Response:
        asked = request.path_params.values() or (query_of(request),)
        data = data_of(database_of(request), *asked)
        return answer(request, template, data, title=title.format_map(data), charts=charts_of(data))


def _accuracy_charts(data: Data) -> Data:
    return {
        "scatter": scatter(data["points"], data["unit"], data["query"]["by"]),
        "coverage": coverage(data["by_device"] + data["by_family"], data["meant_percent"]),
    }


def _conflict_charts(data: Data) -> Data:
    return {"sides": sides({**data["item"], "sides": data["sides"]}) if data["item"] else None}


def _competition_charts(data: Data) -> Data:
    metric = data["competition"]["metric"] or "validation metric"
    return {"score": score_over_minutes(data["curves"], metric)}


def _model_charts(data: Data) -> Data:
    model = data["model"]
    unit = input_unit(model["input_kind"], model["name"], next(iter(model["tasks"]), None))
    return {"cost": cost_by_size(data["profiles"], unit)}


router.computed_files("/browse/accuracy", accuracy_table)
router.computed_files("/browse/conflicts", conflicts_table)
router.computed_files("/browse/sizing", sizing_table)
for _table in ("competitions", "models", "patterns", "solutions", "strategies"):
    router.files(f"/browse/{_table}", _table)

_page("/browse/find", "find.html", "Search", find_page)
_page("/browse/settings", "settings.html", "Settings", settings_page)
_page("/browse/techniques", "techniques.html", "Techniques", techniques_page)
_page("/browse/accuracy", "accuracy/page.html", "Accuracy", accuracy_page, _accuracy_charts)
_page("/browse/competitions", "competitions/list.html", "Competitions", competitions_page)
_page("/browse/conflicts", "conflicts/list.html", "Disagreements", conflict_list_page)
_page("/browse/models", "models/list.html", "Models", knowledge.models_page)
_page("/browse/patterns", "patterns/list.html", "What worked", knowledge.patterns_page)
_page("/browse/sizing", "sizing/list.html", "Batch and speed", sizing_page)
_page("/browse/solutions", "solutions/list.html", "Winning solutions", knowledge.solutions_page)
_page("/browse/strategies", "strategies/list.html", "Strategy tables", strategies_page)
_page(
    "/browse/competitions/map", "competitions/map.html", "Map of competitions", competition_map,
    lambda data: {"plane": plane(data["points"])},
)  # fmt: skip
_page(
    "/browse/competitions/{slug:path}", "competitions/one.html", "{competition[title]}", competition_page,
    _competition_charts,
)  # fmt: skip
_page(
    "/browse/conflicts/{key:path}", "conflicts/one.html", "Disagreement {id}", conflict_page, _conflict_charts
)
_page("/browse/models/{key:path}", "models/one.html", "{model[name]}", knowledge.model_page, _model_charts)
_page("/browse/patterns/{key:path}", "patterns/one.html", "{pattern[id]}", knowledge.pattern_page)
_page("/browse/solutions/{key:path}", "solutions/one.html", "{solution[id]}", knowledge.solution_page)
_page("/browse/sources/{name}", "source.html", "{name}", source_page)
_page("/browse/strategies/{key:path}", "strategies/one.html", "{strategy[id]}", strategy_page)


@router.page("/browse/sizing/{gpu}/{model:path}")
def sizing_case(request: Request, gpu: str, model: str) -> Response:
    data = sizing_case_page(database_of(request), gpu, model, query_of(request))
    charts = {"memory": memory_curve(data), "speed": speed_curve(data)}
    title = f"{data['model']['name']} on {data['card']['name']}"
    return answer(request, "sizing/one.html", data, title=title, charts=charts)
