"""The catalogue of models, and one model."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.models import model_page, models_page
from memory_service.web.charts.models import cost_by_size
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.files("/browse/models", "models")


@router.page("/browse/models")
def models(request: Request) -> Response:
    database = database_of(request)
    data = models_page(database, knowledge_of(database), query_of(request))
    return answer(request, "models/list.html", data, title="Models")


@router.page("/browse/models/{name:path}")
def model(request: Request, name: str) -> Response:
    database = database_of(request)
    data = model_page(database, knowledge_of(database), name)
    return answer(
        request, "models/one.html", data, title=name, charts={"cost": cost_by_size(data["profiles"])}
    )
