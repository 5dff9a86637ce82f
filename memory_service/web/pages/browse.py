"""Pages that show what one service call gives: lists, single rows, maps."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of, service_of
from memory_service.services.database.transactions import Database
from memory_service.services.pages import knowledge
from memory_service.services.pages.accuracy import accuracy_page, accuracy_table
from memory_service.services.pages.competitions import (
    compare_page,
    compare_table,
    competition_map,
    competition_page,
)
from memory_service.services.pages.conflicts import conflict_page
from memory_service.services.pages.find import find_page, settings_page
from memory_service.services.pages.knowledge import source_page
from memory_service.services.pages.sizing import sizing_case_page, sizing_page, sizing_table
from memory_service.services.pages.strategies import strategy_page
from memory_service.services.pages.tables import GRIDS, grid_export, grid_page
from memory_service.services.tables.file_formats import TableExport
from memory_service.web.charts.knowledge import (
    cost_by_size,
    coverage,
    memory_curve,
    plane,
    scatter,
    score_over_minutes,
    sides,
    speed_curve,
)
from memory_service.web.pages.edit import editing_of
from memory_service.web.site import Pages, answer, query_of, wants_json
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


def _rows_of(table: str, database: Database, asked: Mapping[str, str]) -> TableExport:
    return grid_export(database, table, asked)


def _grid(table: str, title: str) -> None:
    """GET the page of a table; a row of it can be edited in its place."""

    @router.page(f"/browse/{table}")
    def page(request: Request) -> Response:
        database, asked = database_of(request), query_of(request)
        editing = editing_of(request, GRIDS[table].stored, asked)
        quick = {} if wants_json(request) else {"counted": "no"}
        data = grid_page(database, table, quick | asked)
        status = editing["status"] if editing else 200
        return answer(request, f"{table}/list.html", data, title=title, status=status, editing=editing)


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
router.computed_files("/browse/competitions/compare", compare_table)
router.computed_files("/browse/sizing", sizing_table)
for _table in GRIDS:
    router.computed_files(f"/browse/{_table}", partial(_rows_of, _table))

_page("/browse/find", "find.html", "Search", find_page)
_page("/browse/accuracy", "accuracy/page.html", "Accuracy", accuracy_page, _accuracy_charts)
_page("/browse/sizing", "sizing/list.html", "Batch and speed", sizing_page)
_TITLES = {
    "competitions": "Competitions", "conflicts": "Disagreements", "models": "Models",
    "patterns": "What worked", "solutions": "Winning solutions", "strategies": "Strategy tables",
    "techniques": "Techniques",
}  # fmt: skip
for _table, _title in _TITLES.items():
    _grid(_table, _title)
_page("/browse/competitions/compare", "competitions/compare.html", "Compare competitions", compare_page)
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


@router.page("/browse/settings")
def settings(request: Request) -> Response:
    data = settings_page(service_of(request).settings, query_of(request))
    return answer(request, "settings.html", data, title="Settings")


@router.page("/browse/sizing/{gpu}/{model:path}")
def sizing_case(request: Request, gpu: str, model: str) -> Response:
    data = sizing_case_page(database_of(request), gpu, model, query_of(request))
    charts = {"memory": memory_curve(data), "speed": speed_curve(data)}
    title = f"{data['model']['name']} on {data['card']['name']}"
    return answer(request, "sizing/one.html", data, title=title, charts=charts)
