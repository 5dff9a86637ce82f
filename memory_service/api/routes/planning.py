"""Routes that ask: /recommend, /similar, /predict, /rank and /conflicts."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from memory_service.api.answers import accepted_form, json_answer, plan_answer
from memory_service.api.describe import files, refusals, texts
from memory_service.api.request_body import StrictRoute
from memory_service.api.routes.rows import file_answer
from memory_service.api.service import database_of
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.conflicts import Conflict
from memory_service.schemas.answers.predict import Prediction, Predictions
from memory_service.schemas.answers.rank import Ranked
from memory_service.schemas.answers.recommend import Brief, Recommendation
from memory_service.schemas.answers.similar import Similar
from memory_service.schemas.lists import ConflictsQuery
from memory_service.schemas.predict import MOST_QUESTIONS, PredictQuery, PredictRequest
from memory_service.schemas.rank import RankRequest
from memory_service.schemas.recommend import RecommendBody, RecommendQuery, RecommendRequest
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.services.competitions.similar import similar
from memory_service.services.conflicts.listing import conflicts_page
from memory_service.services.planning.brief import brief
from memory_service.services.planning.plan_script import bundle_script
from memory_service.services.planning.rank import rank
from memory_service.services.planning.recommend import recommend_json
from memory_service.services.prediction.predict import predict, predict_many

router = APIRouter(tags=["ask"], route_class=StrictRoute)

_PLAN = texts("text/markdown", "text/x-python", "text/x-python-blend") | refusals(404, 406)
_LEFT = texts("text/markdown", "text/x-python", "text/x-python-blend") | refusals(404, 406, 409)


@router.get("/recommend", response_model=Recommendation, responses=_PLAN)
def recommend_by_query(request: Request, asked: Annotated[RecommendQuery, Query()]) -> Response:
    """One explicit training plan for this task, this data, this card, these minutes."""
    form, query = accepted_form(request), request.scope["query_string"]
    answer = recommend_json(database_of(request), asked.to_domain(), query)
    return Response(plan_answer(request, answer, form, asked.single), media_type=form)


@router.post("/recommend", response_model=Recommendation, responses=_LEFT)
def recommend_by_body(request: Request, asked: RecommendBody) -> Response:
    """The same question as JSON, for a long `description`; or what is left of a plan's minutes."""
    form = accepted_form(request)
    answer = recommend_json(database_of(request), asked.to_domain())
    return Response(plan_answer(request, answer, form, asked.single), media_type=form)


@router.get("/scripts/memory_train.py", response_class=Response, responses=texts("text/x-python"))
def modules_of_scripts() -> Response:
    """`memory_service.train` as one file, for a machine without pip: `python memory_train.py` writes it."""
    return Response(bundle_script(), media_type="text/x-python")


@router.get("/brief", response_model=Brief, responses=refusals(404))
def brief_by_query(request: Request, asked: Annotated[RecommendQuery, Query()]) -> Response:
    """What a description says, with its words, and what it leaves open, before a plan is made."""
    return json_answer(brief(database_of(request), asked.to_domain()))


@router.post("/brief", response_model=Brief, responses=refusals(404))
def brief_by_body(request: Request, asked: RecommendRequest) -> Response:
    """The same question as JSON, for a long `description`."""
    return json_answer(brief(database_of(request), asked.to_domain()))


@router.get("/similar", response_model=Similar, responses=refusals(404))
def similar_by_query(request: Request, asked: Annotated[SimilarQuery, Query()]) -> Response:
    """Past competitions most like a text or another competition, each with the reason."""
    return json_answer(similar(database_of(request), asked).as_dict())


@router.post("/similar", response_model=Similar, responses=refusals(404))
def similar_by_body(request: Request, asked: SimilarRequest) -> Response:
    """The same question as JSON, for a long `text`."""
    return json_answer(similar(database_of(request), asked).as_dict())


@router.get("/predict", response_model=Prediction, responses=refusals(404))
def predict_by_query(request: Request, asked: Annotated[PredictQuery, Query()]) -> Response:
    """What a model would need and do on a card: largest batch, peak memory, speed, the whole curve."""
    return json_answer(predict(database_of(request), asked))


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, dict) else given


_Questions = Annotated[
    list[PredictRequest], BeforeValidator(_listed), Body(json_schema_extra={"maxItems": MOST_QUESTIONS})
]


@router.post("/predict", response_model=Predictions)
def predict_by_body(request: Request, asked: _Questions) -> Response:
    """A list of up to 10 000 such questions; one bad question refuses the list and is named."""
    return json_answer(predict_many(database_of(request), asked))


@router.post("/rank", response_model=Ranked)
def rank_by_body(request: Request, asked: RankRequest) -> Response:
    """Candidates of your own by expected quality: index, rank, and the probability to be the best."""
    return json_answer({"rows": rank(database_of(request), asked.rows)})


@router.get("/conflicts", response_model=Page[Conflict], responses=files())
def conflicts_by_query(request: Request, asked: Annotated[ConflictsQuery, Query()]) -> Response:
    """Claims, estimates and measurements that disagree: all sides, which one plans use, and why."""
    if asked.format != "json":
        return file_answer(request, "conflicts", asked.filters(), asked.sort, asked.format)
    return json_answer(conflicts_page(database_of(request), asked.explicit()))
