"""Routes of runs: begin, tell, end, list, one; and how good the predictions for them were."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from memory_service.api import describe, run_shapes
from memory_service.api.answers import json_answer
from memory_service.api.fields import Field, checked_query
from memory_service.api.reading import event_object, json_object, no_query, query_of, raw_body
from memory_service.api.rows import list_fields
from memory_service.api.service import database_of
from memory_service.services.catalogue import list_rows
from memory_service.services.export import MEDIA_TYPES, stream_rows
from memory_service.services.run_events import event_schema
from memory_service.services.run_fields import STATUSES, RunFinish, RunStart
from memory_service.services.run_log import take_log
from memory_service.services.runs import begin_run, finish_run, run_page
from memory_service.services.scored import ACCURACY_FILTERS, accuracy
from memory_service.services.telemetry import RUNNING, known_run_key, take_events
from memory_service.services.verdicts import run_verdict

__all__ = ["router"]

router = APIRouter(tags=["runs"])

Body = Annotated[dict[str, Any], Depends(json_object)]
Told = Annotated[dict[str, Any], Depends(event_object)]
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
    begun, new = begin_run(database_of(request), body)
    return json_answer(begun, 201 if new else 200, {"Location": f"/runs/{begun['run_id']}"})


@router.get("/runs", **describe.lists(_LISTED, describe.page_of("runs")))
def list_runs(request: Request) -> Response:
    """Runs in order, page by page; or all of them as a file with `format`."""
    asked = checked_query(_LISTED, query_of(request))
    form, sort = asked.pop("format", "json"), asked.pop("sort", None)
    limit, cursor = asked.pop("limit", None), asked.pop("cursor", None)
    database = database_of(request)
    if form != "json":
        pieces = stream_rows(database, "runs", asked, sort, form)
        return StreamingResponse(pieces, media_type=MEDIA_TYPES[form])
    with database.read() as unit:
        page = list_rows(unit, "runs", asked, sort, limit, cursor)
    return json_answer({"items": page.items, "next": page.next})


@router.get("/runs/{run_id}", **describe.one(run_shapes.RunPage))
def get_run(request: Request, run_id: str) -> Response:
    """One run: what it said, what was predicted, what happened, epoch by epoch."""
    no_query(request)
    return json_answer(run_page(database_of(request), run_id))


@router.post("/runs/{run_id}/events", **describe.tells(_EVENTS, run_shapes.RunEventsTaken, (404,)))
def post_events(request: Request, run_id: str, body: Told) -> Response:
    """Tell what happens. Each seq counts once however often it is sent; what is acknowledged is on disk."""
    no_query(request)
    return json_answer(take_events(database_of(request), run_id, body))


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
    return json_answer(finish_run(database_of(request), run_id, body))


@router.get("/accuracy", **describe.asks(_ACCURACY, run_shapes.Accuracy))
def get_accuracy(request: Request) -> Response:
    """Errors of the predictions on what really ran, by device, family and age, beside naive baselines."""
    asked = checked_query(_ACCURACY, query_of(request))
    return json_answer(accuracy(database_of(request), asked))
