"""Pages of sizing: which batch fits which card, how fast, and on what evidence."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.pages.sizing import sizing_page, sizing_table
from memory_service.services.pages.sizing_one_model import sizing_case_page
from memory_service.web.charts.sizing import memory_curve, speed_curve
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.computed_files("/browse/sizing", sizing_table)


@router.page("/browse/sizing")
def sizing(request: Request) -> Response:
    data = sizing_page(database_of(request), query_of(request))
    return answer(request, "sizing/list.html", data, title="Batch and speed")


@router.page("/browse/sizing/{gpu}/{model:path}")
def sizing_case(request: Request, gpu: str, model: str) -> Response:
    data = sizing_case_page(database_of(request), gpu, model, query_of(request))
    charts = {"memory": memory_curve(data), "speed": speed_curve(data)}
    title = f"{data['model']['name']} on {data['card']['name']}"
    return answer(request, "sizing/one.html", data, title=title, charts=charts)
