"""One search over everything that has a page."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.find import find_page
from memory_service.web.site import Pages, answer, query_of

router = Pages()


@router.page("/browse/find")
def find(request: Request) -> Response:
    database = database_of(request)
    data = find_page(database, knowledge_of(database), query_of(request).get("q", ""))
    return answer(request, "find.html", data, title="Search")
