"""What worked: all patterns, and one."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.patterns import pattern_page, patterns_page
from memory_service.web.site import Pages, answer, query_of

router = Pages()
router.files("/browse/patterns", "patterns")


@router.page("/browse/patterns")
def patterns(request: Request) -> Response:
    database = database_of(request)
    data = patterns_page(database, knowledge_of(database), query_of(request))
    return answer(request, "patterns/list.html", data, title="Patterns")


@router.page("/browse/patterns/{key:path}")
def pattern(request: Request, key: str) -> Response:
    database = database_of(request)
    data = pattern_page(database, knowledge_of(database), key)
    return answer(request, "patterns/one.html", data, title=key)
