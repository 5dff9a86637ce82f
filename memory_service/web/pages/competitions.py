"""Competitions: search, map, and one of them."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.competitions import competition_map, competition_page, competitions_page
from memory_service.web.charts.competitions import plane, score_over_minutes
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.files("/browse/competitions", "competitions")


@router.page("/browse/competitions")
def competitions(request: Request) -> Response:
    database = database_of(request)
    data = competitions_page(database, knowledge_of(database), query_of(request))
    return answer(request, "competitions/list.html", data, title="Competitions")


@router.page("/browse/competitions/map")
def competition_plane(request: Request) -> Response:
    database = database_of(request)
    data = competition_map(database, knowledge_of(database), query_of(request))
    charts = {"plane": plane(data["points"])}
    return answer(request, "competitions/map.html", data, title="Map of competitions", charts=charts)


@router.page("/browse/competitions/{slug:path}")
def competition(request: Request, slug: str) -> Response:
    data = competition_page(database_of(request), slug)
    row = data["competition"]
    charts = {"score": score_over_minutes(data["curves"], row["metric"] or "validation metric")}
    return answer(request, "competitions/one.html", data, title=row["title"], charts=charts)
