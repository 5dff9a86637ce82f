"""Middleware that takes events: to find their route costs more than to store one."""

from __future__ import annotations

import re

from fastapi import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_service.api.error_handlers import refusal_to
from memory_service.api.routes.runs import post_events
from memory_service.api.tracing import answered_by
from memory_service.errors import MemoryServiceError

_PATH = re.compile("/runs/([^/]+)/events")


class ReportedEvents:
    """ASGI middleware, inside the authentication. Everything but `POST /runs/{run_id}/events` is left to the
    application."""

    def __init__(self, app: ASGIApp, route: BaseRoute) -> None:
        """route: whose answers these are, for metrics and spans"""
        self.app = app
        self.route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        posted = scope["type"] == "http" and scope["method"] == "POST"
        found = _PATH.fullmatch(scope["path"]) if posted else None
        if found is None:
            await self.app(scope, receive, send)
            return
        answered_by(scope, self.route)
        try:
            answer = await post_events(Request(scope, receive), found[1])
        except MemoryServiceError as error:
            answer = refusal_to(scope, error)
        await answer(scope, receive, send)
