"""Routes of runs: begin, tell, end, list, one; and how good the predictions for them were."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from memory_service.api import describe, run_shapes
from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_query
from memory_service.api.reading import event_object, json_object, no_query, query_of, raw_body
from memory_service.api.routes.rows import file_answer, list_answer, list_fields
from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of
from memory_service.services.accuracy.scored_runs import ACCURACY_FILTERS, accuracy
from memory_service.services.operations.export import FORMATS
from memory_service.services.runs.run_events import EVENT_FIELDS, event_schema
from memory_service.services.runs.run_fields import STATUSES, RunFinish, RunStart
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, run_page
from memory_service.services.runs.telemetry import RUNNING, known_run_key, take_events
from memory_service.services.runs.verdicts import run_verdict

__all__ = ["router", "telling"]

router = APIRouter(tags=["runs"])

Body = Annotated[dict[str, Any], Depends(json_object)]
Raw = Annotated[bytes, Depends(raw_body)]

_LISTED = list_fields("runs")
_LISTED["status"] = replace(_LISTED["status"], choices=(RUNNING, *STATUSES))

_ACCURACY = {
    **{name: replace(_LISTED[name], about=f"Only runs with this `{name}`.") for name in ACCURACY_FILTERS},
    "days": Field("days", "number", "Only runs that ended in the last so many days.", 0, 36_500, above=True),
}

_PIECE = {
    "offset": Field(
        "offset",
        "integer",
        "Where in the log the piece begins, in bytes; what was taken before is passed over. Without it the "
        "piece follows what was taken, unless it is the very piece taken last.",
        0,
        2**53 - 1,
    ),
    "at": Field(
        "at",
        "text",
        "When it was written, ISO 8601, UTC; now when not given.",
        example="2026-03-01T12:00:00Z",
        longest=40,
    ),
}

_TOLD = {
    "kind": Field("kind", "text", "Only events of this kind.", choices=tuple(EVENT_FIELDS)),
    "format": Field("format", "text", "As which file.", choices=FORMATS, default="jsonl"),
}

_EVENTS = {
    "type": "object",
    "properties": {"events": event_schema()},
    "required": ["events"],
    "additionalProperties": False,
}


@router.post(
    "/runs",
    status_code=201,
    **describe.tells(RunStart.model_json_schema(), run_shapes.RunBegun, (409,), "Path of the run."),
)
def post_run(request: Request, body: Body) -> Response:
    """Begin a run: what it will take is predicted now and scored when it has ended."""
    no_query(request)
    begun, new = begin_run(database_of(request), body, who=who_of(request))
    return json_answer(begun, 201 if new else 200, {"Location": f"/runs/{begun['run_id']}"})


@router.get("/runs", **describe.lists(_LISTED, describe.page_of("runs")))
def list_runs(request: Request) -> Response:
    """Runs in order, page by page; or all of them as a file with `format`."""
    return list_answer(request, "runs", _LISTED)


@router.get("/runs/{run_id}", **describe.one(run_shapes.RunPage))
def get_run(request: Request, run_id: str) -> Response:
    """One run: what it said, what was predicted, what happened, epoch by epoch."""
    no_query(request)
    return json_answer(run_page(database_of(request), run_id))


@router.get("/runs/{run_id}/events", **describe.files(_TOLD))
def get_events(request: Request, run_id: str) -> Response:
    """All that a run has told, in the order of seq, as a file."""
    asked = checked_query(_TOLD, query_of(request))
    form = asked.pop("format", "jsonl")
    return file_answer(request, "run-events", {**asked, "run_id": run_id}, None, form)


class _Direct(APIRoute):
    """Its function gets the request and what is in the path, as text: finding out what else a function may
    want costs more than taking in an event does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            answer: Response = await self.endpoint(request, **request.path_params)
            return answer

        return handle


telling = APIRouter(tags=["runs"], route_class=_Direct)
"""Asked far more often than any other: it comes first."""


@telling.post("/runs/{run_id}/events", **describe.tells(_EVENTS, run_shapes.RunEventsTaken, (404,)))
async def post_events(request: Request, run_id: str) -> Response:
    """Tell what happens. Each seq counts once however often it is sent; what is acknowledged is on disk."""
    no_query(request)
    body = await event_object(request)
    return json_answer(await take_events(database_of(request), run_id, body))


@router.post("/runs/{run_id}/log", **describe.takes_raw(_PIECE, run_shapes.RunLogTaken))
def post_log(request: Request, run_id: str, body: Raw) -> Response:
    """Tell by the raw text of a training's log, piece by piece: what is understood becomes events, the rest
    is kept as it is."""
    asked = checked_query(_PIECE, query_of(request))
    offset = int(asked["offset"]) if "offset" in asked else None
    return json_answer(take_log(database_of(request), run_id, body, offset, asked.get("at")))


@router.get("/runs/{run_id}/verdict", **describe.one(run_shapes.RunVerdict))
def get_verdict(request: Request, run_id: str) -> Response:
    """The one thing to do now, by all that the run has told; asking writes nothing."""
    no_query(request)
    return json_answer(run_verdict(database_of(request), known_run_key(run_id)))


@router.post(
    "/runs/{run_id}/finish",
    **describe.tells(RunFinish.model_json_schema(), run_shapes.RunPage, (404, 409)),
)
def post_finish(request: Request, run_id: str, body: Body) -> Response:
    """End a run. Told again it is the same end; what is learned from it reaches the next prediction."""
    no_query(request)
    return json_answer(finish_run(database_of(request), run_id, body, who=who_of(request)))


@router.get("/accuracy", **describe.asks(_ACCURACY, run_shapes.Accuracy))
def get_accuracy(request: Request) -> Response:
    """Errors of the predictions on what really ran, by device, family and age, beside naive baselines."""
    asked = checked_query(_ACCURACY, query_of(request))
    return json_answer(accuracy(database_of(request), asked))
