"""The application factory: routes, exception handlers, middleware and background preparation."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI

from memory_service import __version__
from memory_service.api import error_handlers as problems
from memory_service.api.describe import describe
from memory_service.api.fair_share import FairShare, WorkerTurns
from memory_service.api.fast_paths import CachedPlans, ReportedEvents
from memory_service.api.request_middleware import Boundary
from memory_service.api.routes import calibrations, runs
from memory_service.api.routes import knowledge as know
from memory_service.api.routes import operations as operate
from memory_service.api.routes import planning as ask
from memory_service.api.security.auth_middleware import Gate
from memory_service.api.security.rate_limits import Guessing
from memory_service.api.service import Service
from memory_service.api.tracing import telemetry_config
from memory_service.mcp import http as mcp
from memory_service.settings import Settings, load_settings
from memory_service.web import pages, refusals
from memory_service.web.pages import login

THREADS = 8
"""Requests worked on at once; the others wait for their turn. With anyio's forty, 200 clients made each other
wait for Python's lock: of 40 busy threads an encoding got it back for a moment after every few operations
(/similar at p50 16.6 s against 5.6 s with eight, a run's events 1.8 s against 0.03 s), and each thread keeps
memory of its own."""

TURNS, TURNS_OF_ONE_CALLER = 2, 2
"""Of these threads as many answer requests; the others are for events, keys and health. Python's lock lets
one work at a time, and threads on several cores hand it back and forth: a plan takes 22 ms of the processor
alone, 37 beside another and 45 beside seven. What takes long goes on beside the turns."""

TURNS_FOR_IDLE = 1
"""Of these turns, for callers of whom nothing is in progress: six keys with long questions left none."""

LONG = 12
"""Requests that worked for so long that they handed their turn on; each has a thread beside `THREADS`.
Before, two keys that had six schedules made let a third one wait for 92 s."""

SWITCH_SECONDS = 0.001
"""After which a busy thread hands Python's lock on. With the usual 5 ms the event loop waits 40 ms for eight
of them, again and again: beside four callers who send logs, p99 of another's events was 1.7 s against 0.8."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """An application of its own: nothing is shared with another one but the loaded encoder."""
    service = Service(settings or load_settings())
    agents = mcp.Endpoint(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sys.setswitchinterval(SWITCH_SECONDS)
        _threads_beside(0)
        service.preparation.start()
        service.keyring.start()
        if service.keeps_house:
            service.retention.start(lambda: service.preparation.state.knowledge)
        async with agents.running():
            yield
        await anyio.to_thread.run_sync(service.retention.stop)
        await anyio.to_thread.run_sync(service.calibrating.stop)
        await anyio.to_thread.run_sync(service.preparation.stop)
        await anyio.to_thread.run_sync(service.keyring.stop)
        service.database.close()

    app = FastAPI(
        title="memory_service",
        version=__version__,
        summary="One explicit training plan for this task, this data, this card, these minutes.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        telemetry=telemetry_config(service.settings.otel),
    )
    app.state.service = service
    problems.install(app)
    refusals.install(app)
    routers = (
        runs.reporting, ask.router, *know.routers(), calibrations.router,
        runs.router, operate.router, operate.keys_router, *pages.routers(),
    )  # fmt: skip
    for router in routers:
        app.include_router(router)
    by_mcp = mcp.route_to(agents)
    app.router.routes.append(by_mcp)
    app.state.routes = [*(route for router in routers for route in router.routes), by_mcp]
    describe(app)
    app.add_middleware(
        WorkerTurns,
        turns=TURNS,
        of_one_caller=TURNS_OF_ONE_CALLER,
        long=LONG,
        for_idle=TURNS_FOR_IDLE,
        on_long=_threads_beside,
    )
    app.add_middleware(CachedPlans, service=service, route=ask.router.routes[0])
    app.add_middleware(ReportedEvents, route=runs.reporting.routes[0])
    settings = service.settings
    app.add_middleware(FairShare, longest_body=settings.max_body_bytes, shown=refusals.shown)
    app.add_middleware(
        Gate, keyring=service.keyring, quotas=service.quotas, require_keys=settings.require_keys,
        per_minute=settings.rate_limit, limit=settings.mode_limit, shown=refusals.shown,
        sign_in=login.sent_to_login,
    )  # fmt: skip
    app.add_middleware(Guessing)
    app.add_middleware(Boundary, metrics=service.metrics, shown=refusals.shown)
    return app


def _threads_beside(number: int) -> None:
    """So many threads more: the work of those without a turn waits in none of the others'."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS + number
