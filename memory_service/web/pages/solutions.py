"""What won: all solutions, and one."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.solutions import solution_page, solutions_page
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.files("/browse/solutions", "solutions")


@router.page("/browse/solutions")
def solutions(request: Request) -> Response:
    database = database_of(request)
    data = solutions_page(database, knowledge_of(database), query_of(request))
    return answer(request, "solutions/list.html", data, title="Solutions")


@router.page("/browse/solutions/{key:path}")
def solution(request: Request, key: str) -> Response:
    return answer(request, "solutions/one.html", solution_page(database_of(request), key), title=key)
