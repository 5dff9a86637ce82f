"""The strategy tables, and one row of them."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.strategies import strategies_page, strategy_page
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.files("/browse/strategies", "strategies")


@router.page("/browse/strategies")
def strategies(request: Request) -> Response:
    database = database_of(request)
    data = strategies_page(database, knowledge_of(database), query_of(request))
    return answer(request, "strategies/list.html", data, title="Strategies")


@router.page("/browse/strategies/{key:path}")
def strategy(request: Request, key: str) -> Response:
    database = database_of(request)
    data = strategy_page(database, knowledge_of(database), key)
    return answer(request, "strategies/one.html", data, title=key)
