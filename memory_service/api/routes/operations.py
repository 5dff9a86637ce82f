"""Routes for whoever runs the service: /healthz, /readyz, /metrics and /openapi.json."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request
from starlette.responses import Response

from memory_service import __version__
from memory_service.api import describe, metrics, shapes
from memory_service.api.answers import json_answer
from memory_service.api.problems import NOT_TOLD
from memory_service.api.reading import no_query
from memory_service.api.service import service_of
from memory_service.errors import MemoryServiceError

__all__ = ["router"]

router = APIRouter(tags=["operate"])

_log = logging.getLogger(__name__)


@router.get("/healthz", **describe.plain(shapes.Alive, [422]))
async def healthz(request: Request) -> Response:
    """The process is alive; nothing else is looked at, no thread is waited for."""
    no_query(request)
    return json_answer({"status": "alive", "version": __version__})


@router.get("/readyz", **describe.readiness())
def readyz(request: Request) -> Response:
    """200 when the database is at head, the index is loaded and the encoder is ready or known to be
    missing."""
    no_query(request)
    service = service_of(request)
    state = service.preparation.checked()
    told = state.as_dict()
    if state.failed and not request.state.scopes:  # it may name the database's host and user
        _log.warning("not ready: %s", state.failed)
        told = {**told, "failed": NOT_TOLD}
    return json_answer(told, 200 if state.ready else 503)


@router.get("/metrics", **describe.text(metrics.CONTENT_TYPE, "Prometheus text format."))
def prometheus(request: Request) -> Response:
    """Requests and seconds by route, the knowledge revision, the encoder's state, the process."""
    no_query(request)
    service = service_of(request)
    state = service.preparation.state
    try:
        revision = service.database.knowledge_revision() if state.database else None
    except MemoryServiceError:
        revision = None  # a database that is away is seen in /readyz; the other counts are still wanted
    return Response(service.metrics.exposition(revision, state.encoder), media_type=metrics.CONTENT_TYPE)


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """The description of all routes."""
    return json_answer(request.app.openapi())
