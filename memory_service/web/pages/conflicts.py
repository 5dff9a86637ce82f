"""Where sources, computations and measurements disagree."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.pages.conflicts import conflict_list_page, conflict_page, conflicts_table
from memory_service.web.charts.accuracy import sides
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.computed_files("/browse/conflicts", conflicts_table)


@router.page("/browse/conflicts")
def conflicts(request: Request) -> Response:
    data = conflict_list_page(database_of(request), query_of(request))
    return answer(request, "conflicts/list.html", data, title="Disagreements")


@router.page("/browse/conflicts/{key:path}")
def conflict(request: Request, key: str) -> Response:
    data = conflict_page(database_of(request), key)
    chart = sides({**data["item"], "sides": data["sides"]}) if data["item"] else None
    return answer(request, "conflicts/one.html", data, title=f"Disagreement {key}", charts={"sides": chart})
