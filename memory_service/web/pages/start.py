"""`/`: the way in."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge import knowledge_of
from memory_service.services.start_page import start_page
from memory_service.web.site import Pages, answer

__all__ = ["router"]

router = Pages()


@router.page("/")
def start(request: Request) -> Response:
    """What is known here, and where to look."""
    return answer(request, "start.html", start_page(knowledge_of(database_of(request))), title="Start")
