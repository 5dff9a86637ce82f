"""Middleware that answers before any route is looked for: events to store, and plans that were asked for in
just these words before. Routing alone takes longer than either."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from fastapi import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_service.api.answers import asked_form
from memory_service.api.error_handlers import refusal_to
from memory_service.api.routes.runs import post_events
from memory_service.api.service import Service
from memory_service.api.tracing import answered_by
from memory_service.domain.common.api_keys import mode_limit
from memory_service.errors import MemoryServiceError
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import asker_view
from memory_service.services.planning.plan_cache import PlanCache


class CachedPlans:
    """ASGI middleware, inside the authentication: JSON for `GET /recommend` at the database's current
    revision. Everything else, refusals too, is left to the application."""

    def __init__(self, app: ASGIApp, service: Service, route: BaseRoute) -> None:
        """route: whose answers these are, for metrics and spans"""
        self.app = app
        self.service = service
        self.route = route
        self.revisions = SharedReads(service.database)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = None
        if scope["type"] == "http" and scope["path"] == "/recommend" and scope["method"] == "GET":
            with suppress(MemoryServiceError):
                known = await self._known(scope)
        if known is None:
            await self.app(scope, receive, send)
            return
        answered_by(scope, self.route)
        await Response(known, media_type="application/json")(scope, receive, send)

    async def _known(self, scope: Scope) -> bytes | None:
        limit = mode_limit(scope["state"]["scopes"], self.service.settings.mode_limit)
        database = self.service.preparation.require_knowledge()
        query = limit, asker_view(database), scope["query_string"]
        plans = database.caches.of(PlanCache)
        if asked_form(scope["headers"]) is not None or not plans.has_query(query):
            return None
        if database.dialect.embedded:  # reading its revision takes less than a thread does
            return plans.get_by_query(database.knowledge_revision(), query)
        return plans.get_by_query(await self.revisions.revision(), query)


class SharedReads:
    """The knowledge revision of a database server. One read answers all who waited for it when it began;
    whoever comes later waits for the next, and so never gets a revision from before its question."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader = ThreadPoolExecutor(1, "revision")
        self._waiting: list[asyncio.Future[int]] = []
        self._reading = False

    async def revision(self) -> int:
        """Raises Unavailable when the database does not answer."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[int] = loop.create_future()
        self._waiting.append(found)
        if not self._reading:
            self._begin(loop)
        return await found

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reading = True
        waiting, self._waiting = self._waiting, []
        read = self._reader.submit(self._database.knowledge_revision)
        read.add_done_callback(lambda _: loop.call_soon_threadsafe(self._answer, loop, waiting, read))

    def _answer(
        self, loop: asyncio.AbstractEventLoop, waiting: list[asyncio.Future[int]], read: Future[int]
    ) -> None:
        self._reading = False
        for found in waiting:
            if found.done():  # its request was given up
                continue
            error = read.exception()
            if error is None:
                found.set_result(read.result())
            else:
                found.set_exception(error)
        if self._waiting:
            self._begin(loop)


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
