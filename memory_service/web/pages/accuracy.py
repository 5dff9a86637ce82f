"""Page of accuracy: predictions against finished runs."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.pages.accuracy import accuracy_page, accuracy_table
from memory_service.web.charts.accuracy import coverage, scatter
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.computed_files("/browse/accuracy", accuracy_table)


@router.page("/browse/accuracy")
def accuracy(request: Request) -> Response:
    data = accuracy_page(database_of(request), query_of(request))
    charts = {
        "scatter": scatter(data["points"], data["unit"], data["query"]["by"]),
        "coverage": coverage(data["by_device"] + data["by_family"], data["meant_percent"]),
    }
    return answer(request, "accuracy/page.html", data, title="Accuracy", charts=charts)
