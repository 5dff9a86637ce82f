"""Routes that ask: /recommend, /choose, /compare, /similar, /predict, /rank, /review and /conflicts."""

from collections.abc import AsyncIterator
from itertools import islice
from typing import Annotated, Any
from zlib import compress, decompress

from fastapi import APIRouter, Body, Depends, Query, Request
from pydantic import BeforeValidator, FailFast
from starlette.responses import Response, StreamingResponse

from memory_service import __version__
from memory_service.api.answer_text import brief_text, choice_text, comparison_text, fit_text, similar_text
from memory_service.api.answers import accepted_form, as_bytes, json_answer, plan_answer, told
from memory_service.api.describe import Responses, files, refusals, texts
from memory_service.api.request_body import StrictRoute, check_media, no_query, parse_json, raw_body
from memory_service.api.routes.knowledge import file_answer
from memory_service.api.service import database_of, mode_limit_of
from memory_service.domain.planning.answer_view import WHOLE
from memory_service.domain.planning.request import Question
from memory_service.errors import TooLarge
from memory_service.review.findings import SARIF_MEDIA_TYPE, sarif
from memory_service.review.source.project import is_notebook
from memory_service.schemas.answers.choose import Choice, Comparison, Prediction, Predictions, Similar
from memory_service.schemas.answers.common import Page
from memory_service.schemas.answers.recommend import Brief, Recommendation
from memory_service.schemas.answers.rows import Conflict
from memory_service.schemas.choose import ChooseRequest, CompareRequest
from memory_service.schemas.lists import ConflictsQuery
from memory_service.schemas.predict import MOST_QUESTIONS, PredictQuery, PredictRequest
from memory_service.schemas.rank import Ranked, RankRequest
from memory_service.schemas.recommend import (
    PlanQuery,
    RecommendBody,
    RecommendQuery,
    RecommendRequest,
    ScriptQuery,
)
from memory_service.schemas.review import Review, ReviewQuery, ReviewRequest
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.choice.compare import compare_trainings
from memory_service.services.competitions.similar import similar
from memory_service.services.conflicts.conflicts import conflicts_page
from memory_service.services.planning.plan_script import bundle_script
from memory_service.services.planning.questions import brief
from memory_service.services.planning.rank import rank
from memory_service.services.planning.recommend import known_plan, recommend_json, shown
from memory_service.services.prediction.predict import predict, predict_many
from memory_service.services.review.review import review_script

router = APIRouter(tags=["ask"], route_class=StrictRoute)

_PLAN = texts("text/markdown", "text/x-python", "text/x-python-blend") | refusals(404, 406)
_WORDS = texts("text/markdown") | refusals(404, 406)
_SCRIPT = texts("text/x-python") | refusals(404, 406)
_LEFT = texts("text/markdown", "text/x-python", "text/x-python-blend") | refusals(404, 406, 409)


def _question(request: Request, asked: RecommendRequest) -> Question:
    return asked.to_domain().within(mode_limit_of(request))


def _recommended(request: Request, asked: RecommendQuery | RecommendBody, query: bytes | None) -> Response:
    form = accepted_form(request)
    of_json = form == "application/json"
    known = (mode_limit_of(request), query) if of_json and query is not None else None
    include = asked.parts if of_json else WHOLE
    answer = recommend_json(database_of(request), _question(request, asked), known, include=include)
    return Response(plan_answer(request, answer, form, asked.single), media_type=form)


@router.get("/recommend", response_model=Recommendation, responses=_PLAN)
def recommend_by_query(request: Request, asked: Annotated[RecommendQuery, Query()]) -> Response:
    """One explicit training plan for this task, this data, this card, these minutes."""
    return _recommended(request, asked, request.scope["query_string"])


@router.post("/recommend", response_model=Recommendation, responses=_LEFT)
def recommend_by_body(request: Request, asked: RecommendBody) -> Response:
    """The same question as JSON, for a long `description`; or what is left of a plan's minutes."""
    return _recommended(request, asked, None)


@router.get("/plans/{plan_id}", response_model=Recommendation, responses=_PLAN)
def plan_by_id(request: Request, plan_id: str, asked: Annotated[PlanQuery, Query()]) -> Response:
    """A plan that was given not long ago, again: as JSON, Markdown or a script. 404 once it is forgotten: ask
    /recommend again."""
    form, limit = accepted_form(request), mode_limit_of(request)
    answer = known_plan(database_of(request), plan_id, limit=limit)
    sent = shown(answer, asked.parts) if form == "application/json" else answer
    return Response(plan_answer(request, as_bytes(sent), form), media_type=form)


@router.get("/plans/{plan_id}/train.py", response_class=Response, responses=_SCRIPT)
def script_of_plan(request: Request, plan_id: str, asked: Annotated[ScriptQuery, Query()]) -> Response:
    """Its training script; `run=N` of another run of its portfolio, `single=true` a file that needs no
    package."""
    answer = known_plan(database_of(request), plan_id, asked.run, mode_limit_of(request))
    body = plan_answer(request, as_bytes(answer), "text/x-python", asked.single)
    return Response(body, media_type="text/x-python")


@router.get("/scripts/memory_train.py", response_class=Response, responses=texts("text/x-python"))
def modules_of_scripts() -> Response:
    """`memory_service.train` as one file, for a machine without pip: `python memory_train.py` writes it."""
    return Response(bundle_script(), media_type="text/x-python")


@router.get("/brief", response_model=Brief, responses=_WORDS)
def brief_by_query(request: Request, asked: Annotated[RecommendQuery, Query()]) -> Response:
    """What a description says, with its words, and what it leaves open, before a plan is made."""
    return told(request, brief(database_of(request), _question(request, asked)), brief_text)


@router.post("/brief", response_model=Brief, responses=_WORDS)
def brief_by_body(request: Request, asked: RecommendRequest) -> Response:
    """The same question as JSON, for a long `description`."""
    return told(request, brief(database_of(request), _question(request, asked)), brief_text)


def _similar(request: Request, asked: SimilarRequest) -> Response:
    found = similar(database_of(request), asked.within(mode_limit_of(request)))
    return told(request, found.as_dict(), similar_text)


@router.get("/similar", response_model=Similar, responses=_WORDS)
def similar_by_query(request: Request, asked: Annotated[SimilarQuery, Query()]) -> Response:
    """Past competitions most like a text or another competition, each with the reason."""
    return _similar(request, asked)


@router.post("/similar", response_model=Similar, responses=_WORDS)
def similar_by_body(request: Request, asked: SimilarRequest) -> Response:
    """The same question as JSON, for a long `text`."""
    return _similar(request, asked)


@router.get("/predict", response_model=Prediction, responses=_WORDS)
def predict_by_query(request: Request, asked: Annotated[PredictQuery, Query()]) -> Response:
    """What a model would need and do on a card: largest batch, peak memory, speed, the whole curve."""
    return told(request, predict(database_of(request), asked), fit_text)


def _listed(given: Any) -> Any:
    if isinstance(given, list) and len(given) > MOST_QUESTIONS:
        raise TooLarge(f"At most {MOST_QUESTIONS} questions in one request, got {len(given)}")
    return [given] if isinstance(given, dict) else given


_Questions = Annotated[
    list[PredictRequest],
    FailFast(),
    BeforeValidator(_listed),
    Body(json_schema_extra={"maxItems": MOST_QUESTIONS}),
]


@router.post("/predict", response_model=Predictions)
def predict_by_body(request: Request, asked: _Questions) -> Response:
    """A list of up to 10 000 such questions; one bad question refuses the list and is named."""
    # Answer by answer: a tree of 10 000 of them would keep every other thread waiting. Held packed, to
    # a tenth: a slow reader may let 65 MB stand for as long as it reads.
    rows = map(as_bytes, predict_many(database_of(request), asked))
    length, packed = 2, list[bytes]()
    while some := b",".join(islice(rows, _ROWS_AT_ONCE)):
        length += len(some) + bool(packed)
        packed.append(compress(some, 1))
    headers = {"content-length": str(length)}
    return StreamingResponse(_pieces(packed), media_type="application/json", headers=headers)


async def _pieces(packed: list[bytes]) -> AsyncIterator[bytes]:
    """The list as JSON, some answers at a time: one text of 40 MB would hold everybody up as it is copied."""
    yield b"["
    for number, some in enumerate(packed):
        yield (b"," if number else b"") + decompress(some)
    yield b"]"


_ROWS_AT_ONCE = 16


@router.post("/rank", response_model=Ranked)
def rank_by_body(request: Request, asked: RankRequest) -> Response:
    """Candidates of your own by expected quality: index, rank, and the probability to be the best."""
    return json_answer({"rows": rank(database_of(request), asked.rows)})


@router.post("/choose", response_model=Choice, responses=_WORDS)
def choose_by_body(request: Request, asked: ChooseRequest) -> Response:
    """Which of these offers of hardware, which plan on it, which time limit to ask for, at what cost."""
    return told(request, choose_offer(database_of(request), asked, mode_limit_of(request)), choice_text)


@router.post("/compare", response_model=Comparison, responses=_WORDS)
def compare_by_body(request: Request, asked: CompareRequest) -> Response:
    """Plans, candidates or scripts before they run: which scores higher, which is done sooner."""
    answer = compare_trainings(database_of(request), asked, mode_limit_of(request), in_child_process=True)
    return told(request, answer, comparison_text)


@router.get("/conflicts", response_model=Page[Conflict], responses=files())
def conflicts_by_query(request: Request, asked: Annotated[ConflictsQuery, Query()]) -> Response:
    """Claims, estimates and measurements that disagree: all sides, which one plans use, and why."""
    if asked.format != "json":
        return file_answer(request, "conflicts", asked.filters(), asked.sort, asked.format)
    return json_answer(conflicts_page(database_of(request), asked.explicit()))


Raw = Annotated[bytes, Depends(raw_body)]

_JSON = "application/json"
_FORMS = {"*/*": _JSON, "application/*": _JSON, _JSON: _JSON, SARIF_MEDIA_TYPE: SARIF_MEDIA_TYPE}


_TO_REVIEW = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    _JSON: {"schema": {"$ref": "#/components/schemas/ReviewRequest"}},
    "text/x-python": _TO_REVIEW,
    "text/plain": _TO_REVIEW,
    "application/x-ipynb+json": _TO_REVIEW,
}
_AS_TEXT = ("text/x-python", "text/plain", "application/octet-stream", "application/x-ipynb+json")
_SARIF: Responses = {
    200: {
        "description": "The answer.",
        "content": {SARIF_MEDIA_TYPE: {"schema": {"type": "object", "additionalProperties": True}}},
    }
}


@router.post(
    "/review",
    response_model=Review,
    responses=_SARIF | refusals(406),
    openapi_extra={"requestBody": {"required": True, "content": _BODY}},
)
def review(request: Request, body: Raw, beside: Annotated[ReviewQuery, Query()]) -> Response:
    """What to change in a training script before it burns the budget: by rule and line, with the fix. The
    script is read as a syntax tree; nothing of it is run."""
    form = accepted_form(request, _FORMS)
    asked = _asked(request, body, beside)
    answer = review_script(database_of(request), asked, in_child_process=True)
    if form == SARIF_MEDIA_TYPE:
        answer = sarif(answer["findings"], asked.get("filename", "train.py"), __version__)
    return Response(as_bytes(answer), media_type=form)


def _asked(request: Request, body: bytes, beside: ReviewQuery) -> dict[str, Any]:
    media = request.headers.get("content-type", _JSON)
    if media.partition(";")[0].strip().lower() in _AS_TEXT or is_notebook(body):
        return {**beside.explicit(), "script": body}
    check_media(media)
    no_query(request)
    return checked(ReviewRequest, parse_json(body)).explicit()
