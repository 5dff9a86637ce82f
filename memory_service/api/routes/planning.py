"""Routes that ask: /recommend, /similar, /predict and /conflicts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from memory_service.api import describe, plan_shapes, shapes
from memory_service.api.answers import accepted_form, json_answer, plan_answer
from memory_service.api.fields import checked_body, checked_query
from memory_service.api.questions import CONFLICTS, PREDICT, RECOMMEND, SIMILAR
from memory_service.api.reading import json_body, json_object, no_query, query_of
from memory_service.api.service import database_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.services.competitions.similar import parse_similar_question, similar
from memory_service.services.conflicts.listing import conflicts_page
from memory_service.services.operations.export import MEDIA_TYPES, stream_rows
from memory_service.services.planning.plan_cache import PlanCache
from memory_service.services.planning.recommend import recommend_json
from memory_service.services.prediction.predict import predict, predict_many

__all__ = ["router"]

router = APIRouter(tags=["ask"])

Body = Annotated[dict[str, Any], Depends(json_object)]
AnyBody = Annotated[Any, Depends(json_body)]


@router.get("/recommend", **describe.asks(RECOMMEND, plan_shapes.Recommendation, accept=True))
def recommend_by_query(request: Request) -> Response:
    """One explicit training plan for this task, this data, this card, these minutes."""
    form, database = accepted_form(request), database_of(request)
    query: bytes = request.scope["query_string"]
    answer = database.caches.of(PlanCache).get_by_query(database.knowledge_revision(), query)
    if answer is None:
        answer = recommend_json(database, checked_query(RECOMMEND, query_of(request)), query)
    return Response(plan_answer(answer, form), media_type=form)


@router.post("/recommend", **describe.takes(RECOMMEND, plan_shapes.Recommendation, accept=True))
def recommend_by_body(request: Request, body: Body) -> Response:
    """The same question as JSON, for a long `description`."""
    form = accepted_form(request)
    no_query(request)
    answer = recommend_json(database_of(request), checked_body(RECOMMEND, body))
    return Response(plan_answer(answer, form), media_type=form)


@router.get("/similar", **describe.asks(SIMILAR, plan_shapes.Similar))
def similar_by_query(request: Request) -> Response:
    """Past competitions most like a text or another competition, each with the reason."""
    question = parse_similar_question(checked_query(SIMILAR, query_of(request)))
    return json_answer(similar(database_of(request), question).as_dict())


@router.post("/similar", **describe.takes(SIMILAR, plan_shapes.Similar))
def similar_by_body(request: Request, body: Body) -> Response:
    """The same question as JSON, for a long `text`."""
    no_query(request)
    question = parse_similar_question(checked_body(SIMILAR, body))
    return json_answer(similar(database_of(request), question).as_dict())


@router.get("/predict", **describe.asks(PREDICT, plan_shapes.Prediction))
def predict_by_query(request: Request) -> Response:
    """What a model would need and do on a card: largest batch, peak memory, speed, the whole curve."""
    return json_answer(predict(database_of(request), checked_query(PREDICT, query_of(request))))


@router.post("/predict", **describe.takes_list(PREDICT, plan_shapes.Predictions))
def predict_by_body(request: Request, body: AnyBody) -> Response:
    """A list of up to 10 000 such questions; one bad question refuses the list and is named."""
    no_query(request)
    questions = body if isinstance(body, list) else [body]
    if not all(isinstance(question, dict) for question in questions):
        raise InvalidInput(
            "The body must be a list of objects", [FieldError("", "must be a list of objects")]
        )
    checked = [checked_body(PREDICT, question, f"{i}.") for i, question in enumerate(questions)]
    return json_answer(predict_many(database_of(request), checked))


@router.get("/conflicts", **describe.lists(CONFLICTS, shapes.Conflicts))
def conflicts_by_query(request: Request) -> Response:
    """Claims, estimates and measurements that disagree: all sides, which one plans use, and why."""
    asked = checked_query(CONFLICTS, query_of(request))
    form = asked.pop("format", "json")
    database = database_of(request)
    if form != "json":
        sort = asked.pop("sort", None)
        rows = {name: value for name, value in asked.items() if name not in ("limit", "cursor")}
        pieces = stream_rows(database, "conflicts", rows, sort, form)
        return StreamingResponse(pieces, media_type=MEDIA_TYPES[form])
    return json_answer(conflicts_page(database, asked))
