"""Routes of calibrations: the list, one, its events as they come, and results that were made elsewhere."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from weakref import WeakSet

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from memory_service.api.answers import as_bytes, json_answer
from memory_service.api.describe import Responses, created, files, refusals
from memory_service.api.fair_share import EVERYBODY, caller_of
from memory_service.api.request_body import StrictRoute
from memory_service.api.routes.knowledge import list_answer, table_query
from memory_service.api.security.auth_middleware import still_good, who_of
from memory_service.api.service import database_of, service_of
from memory_service.errors import MemoryServiceError, Unauthorized, Unavailable
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.devices import Calibration, CalibrationRow
from memory_service.schemas.calibrations import Posted
from memory_service.services.database.transactions import Database
from memory_service.services.devices import calibrations
from memory_service.services.knowledge.asker import CORRECTS

router = APIRouter(prefix="/calibrations", tags=["calibrations"], route_class=StrictRoute)

_LOOK_SECONDS = 0.5
_ALIVE_SECONDS = 10.0
"""Between two comments that keep proxies from closing a quiet stream."""

_readers = anyio.CapacityLimiter(4)
"""Listeners share these threads for moments; requests keep theirs."""


class _Listener:
    """Counted until its stream is gone, begun or not."""

    def __init__(self, caller: str) -> None:
        self.caller = caller


MOST_LISTENERS, MOST_OF_ONE = 100, 25
"""Of everybody, and of one key or address."""

_listeners: WeakSet[_Listener] = WeakSet()

_CalibrationsQuery = table_query("calibrations", status=Literal[tuple(calibrations.STATUSES)])
_TAKEN = created(
    "Path of the calibration.", Calibration, "It was known and has been extended, or ended just so."
)
_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
    "required": ["id", "event", "data"],
    "additionalProperties": False,
}
_EVENTS: Responses = {
    200: {
        "description": "Events: section, missing, progress, end.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}


@router.get("", response_model=Page[CalibrationRow], responses=files())
def list_calibrations(
    request: Request,
    asked: Annotated[_CalibrationsQuery, Query()],  # type: ignore[valid-type]
) -> Response:
    """Calibrations in order, page by page, each with the reasons why it no longer holds; or all as a file."""
    calibrations.settle_if_possible(database_of(request))
    return list_answer(request, "calibrations", asked)


@router.post("", status_code=201, responses=_TAKEN | refusals(409))
def post_calibration(request: Request, body: Posted) -> Response:
    """Take in a calibration made elsewhere; the same id again extends it while it runs."""
    who, corrects = who_of(request), CORRECTS.get()
    shown, new = calibrations.accept(database_of(request), body, who=who, corrects=corrects)
    return json_answer(shown, 201 if new else 200, {"Location": f"/calibrations/{shown['id']}"})


@router.get("/{id}/events", response_class=StreamingResponse, responses=_EVENTS)
async def calibration_events(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
    """What happens, as it happens (SSE), from the beginning or behind `Last-Event-ID`, until it ends."""
    listener = _Listener(caller_of(request.scope))
    own = listener.caller != EVERYBODY and sum(one.caller == listener.caller for one in _listeners)
    if len(_listeners) >= MOST_LISTENERS or own >= MOST_OF_ONE:
        raise Unavailable(
            f"{own or len(_listeners)} listen already: ask again, or GET /calibrations/{{id}} now and then"
        )
    _listeners.add(listener)
    database, behind = database_of(request), _behind(request.headers.get("last-event-id", ""))
    first = await _after(request, database, id, *behind)
    media = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    stream = _events(request, database, id, first, listener)
    return StreamingResponse(stream, headers=media, media_type="text/event-stream")


@router.get("/{id}", response_model=Calibration)
def get_calibration(request: Request, id: str) -> Response:  # noqa: A002
    """One calibration, whole: sections, environment, self-check, and whether it still holds."""
    return json_answer(calibrations.get_calibration(database_of(request), id))


_Events = tuple[list[calibrations.Event], bool]


async def _after(request: Request, database: Database, key: str, sections: int, missing: int) -> _Events:
    def look() -> _Events:
        if not still_good(request):
            raise Unauthorized("The key is not valid any more")
        calibrations.settle_if_possible(database)
        return calibrations.events_after(database, key, sections, missing)

    return await anyio.to_thread.run_sync(look, limiter=_readers)


async def _events(
    request: Request,
    database: Database,
    key: str,
    first: _Events,
    listener: _Listener,  # noqa: ARG001 - kept as long as the stream is
) -> AsyncIterator[bytes]:
    (events, ended), state, quiet = first, None, 0.0
    stopping = service_of(request).stopping
    while True:
        now = next((_state(event) for event in events if event.name == "progress"), None)
        fresh = [_as_sse(event) for event in events if event.name != "progress" or now != state]
        if fresh:
            state, quiet = now, 0.0
            yield b"".join(fresh)
        if ended or stopping.is_set():
            return
        if quiet >= _ALIVE_SECONDS:
            quiet = 0.0
            yield b": alive\n\n"
        await anyio.sleep(_LOOK_SECONDS)
        quiet += _LOOK_SECONDS
        try:
            events, ended = await _after(request, database, key, *_behind(events[-1].id))
        except MemoryServiceError:
            return  # the device or the key was taken back, or the database went away: the listener asks again


def _state(event: calibrations.Event) -> dict[str, Any]:
    return {name: value for name, value in event.data.items() if name != "seconds"}


def _as_sse(event: calibrations.Event) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.name.encode(), as_bytes(event.data))


def _behind(event_id: str) -> tuple[int, int]:
    """(sections, missing) sent so far; from the beginning for an id that is none of ours."""
    sections, dot, missing = event_id.partition(".")
    plain = all(part.isascii() and part.isdigit() and len(part) < 7 for part in (sections, missing))
    return (int(sections), int(missing)) if dot and plain else (0, 0)
