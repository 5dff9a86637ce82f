"""Routes of runs: begin, report, end, list, one; and how good the predictions for them were."""

from contextlib import nullcontext
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from memory_service.api.answer_text import accuracy_text, run_text, verdict_text
from memory_service.api.answers import json_answer, told
from memory_service.api.describe import created, files, refusals, texts
from memory_service.api.fair_share import caller_of
from memory_service.api.idempotency import run_id_of
from memory_service.api.request_body import StrictRoute, event_object, no_query, raw_body
from memory_service.api.routes.knowledge import file_answer, list_answer, table_query
from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, service_of
from memory_service.schemas.answers import runs as answers
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.runs import Accuracy, RunVerdict
from memory_service.schemas.events import EventsQuery, event_schema
from memory_service.schemas.runs import STATUSES, AccuracyQuery, LogQuery, RunExclusion, RunFinish, RunStart
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, mark_run, run_page
from memory_service.services.runs.scored_runs import accuracy
from memory_service.services.runs.telemetry import READ_AT_ONCE, RUNNING, known_run_key, take_events
from memory_service.services.runs.verdicts import run_verdict

router = APIRouter(tags=["runs"], route_class=StrictRoute)

Raw = Annotated[bytes, Depends(raw_body)]

_RunsQuery = table_query("runs", status=Literal[(RUNNING, *STATUSES)])
_RAW = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_LOG = {"requestBody": {"required": True, "content": _RAW}}


_EVENTS = {
    "type": "object",
    "properties": {"events": event_schema()},
    "required": ["events"],
    "additionalProperties": False,
}
_EVENTS_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _EVENTS}}}}
_WORDS = texts("text/markdown") | refusals(406)
_BEGUN = created("Path of the run.", answers.RunBegun, "It was there already, just so.")


@router.post("/runs", status_code=201, responses=_BEGUN | refusals(409, 507))
def post_run(request: Request, body: RunStart) -> Response:
    """Begin a run: what it will take is predicted now and scored when it has ended."""
    if body.run_id is None and (given := run_id_of(request)) is not None:
        body = body.model_copy(update={"run_id": given})
    begun, new = begin_run(database_of(request), body, who=who_of(request))
    return json_answer(begun, 201 if new else 200, {"Location": f"/runs/{begun['run_id']}"})


@router.get("/runs", response_model=Page[answers.RunRow], responses=files())
def list_runs(request: Request, asked: Annotated[_RunsQuery, Query()]) -> Response:  # type: ignore[valid-type]
    """Runs in order, page by page; or all of them as a file with `format`."""
    return list_answer(request, "runs", asked)


@router.get("/runs/{run_id}", response_model=answers.RunPage, responses=_WORDS)
def get_run(request: Request, run_id: str) -> Response:
    """One run: what it said, what was predicted, what happened, epoch by epoch."""
    return told(request, run_page(database_of(request), run_id), run_text)


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=files("The file."))
def get_events(request: Request, run_id: str, asked: Annotated[EventsQuery, Query()]) -> Response:
    """All events of a run, in the order of seq, as a file."""
    filters = asked.model_dump(include={"kind"}, exclude_none=True) | {"run_id": run_id}
    return file_answer(request, "run-events", filters, None, asked.format)


reporting = APIRouter(tags=["runs"])
"""Asked far more often than any other: `api.fast_paths` answers it without routing."""


@reporting.post(
    "/runs/{run_id}/events",
    response_model=answers.RunEventsTaken,
    responses=refusals(507),
    openapi_extra=_EVENTS_BODY,
)
async def post_events(request: Request, run_id: str) -> Response:
    """Report events. Each seq counts once however often it is sent; what is acknowledged is on disk."""
    no_query(request)
    body = await event_object(request)
    events, turns = body.get("events"), service_of(request).batches
    large = isinstance(events, list) and len(events) > READ_AT_ONCE
    async with turns.turn(caller_of(request.scope)) if large else nullcontext():
        return _counted(request, await take_events(database_of(request), run_id, body))


@router.post(
    "/runs/{run_id}/log", response_model=answers.RunLogTaken, responses=refusals(409, 507), openapi_extra=_LOG
)
def post_log(request: Request, run_id: str, body: Raw, asked: Annotated[LogQuery, Query()]) -> Response:
    """Report the raw text of a training's log, piece by piece: what is understood becomes events, the rest
    is kept as it is."""
    return _counted(request, take_log(database_of(request), run_id, body, asked.offset, asked.at))


def _counted(request: Request, taken: dict[str, Any]) -> Response:
    """The answer; its events count towards the quota of the key."""
    service_of(request).quotas.add(request.state.key_id, events=taken["accepted"])
    return json_answer(taken)


@router.get("/runs/{run_id}/verdict", response_model=RunVerdict | None, responses=_WORDS)
def get_verdict(request: Request, run_id: str) -> Response:
    """The one thing to do now, from all events of the run, and what the minutes left would buy; asking writes
    nothing."""
    return told(request, run_verdict(database_of(request), known_run_key(run_id)), verdict_text)


@router.post("/runs/{run_id}/finish", response_model=answers.RunPage, responses=refusals(409, 507))
def post_finish(request: Request, run_id: str, body: RunFinish) -> Response:
    """End a run. Repeated, it is the same end; what is learned from it reaches the next prediction."""
    return json_answer(finish_run(database_of(request), run_id, body, who=who_of(request)))


_MARKED: Any = {"response_model": answers.RunPage, "responses": refusals(409, 507)}


@router.post("/runs/{run_id}/exclude", **_MARKED)
def post_exclude(request: Request, run_id: str, body: RunExclusion) -> Response:
    """Exclude a run: it counts nowhere, as if it had never been, until it is restored."""
    return json_answer(mark_run(database_of(request), run_id, body.why, excluded=True, who=who_of(request)))


@router.post("/runs/{run_id}/restore", **_MARKED)
def post_restore(request: Request, run_id: str, body: RunExclusion) -> Response:
    """Restore an excluded run: it counts as it did before."""
    return json_answer(mark_run(database_of(request), run_id, body.why, excluded=False, who=who_of(request)))


@router.get("/accuracy", response_model=Accuracy, responses=_WORDS)
def get_accuracy(request: Request, asked: Annotated[AccuracyQuery, Query()]) -> Response:
    """Errors of the predictions on what really ran, by device, family and age, beside naive baselines."""
    return told(request, accuracy(database_of(request), asked.explicit()), accuracy_text)
