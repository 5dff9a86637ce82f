"""Route /review: what should change in a script before it is launched?"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memory_service import __version__
from memory_service.api import describe, review_shapes
from memory_service.api.answers import accepted_form, as_bytes
from memory_service.api.fields import Field, checked_body, checked_query
from memory_service.api.questions import RECOMMEND
from memory_service.api.reading import check_media, no_query, parse_json, query_of, raw_body
from memory_service.api.service import database_of
from memory_service.errors import FieldError, InvalidInput
from memory_service.review.guard import LONGEST_BYTES
from memory_service.review.sarif import SARIF_MEDIA_TYPE, sarif
from memory_service.services.review.review import review_script

__all__ = ["REVIEW", "question_of", "router"]

router = APIRouter(tags=["ask"])

Raw = Annotated[bytes, Depends(raw_body)]

_SAID = ("gpu", "minutes", "task", "n_train", "n_test", "image_size", "seq_len", "cpu_count")
REVIEW = {
    "script": Field(
        "script", "text", "The whole file; it is read, never run.", longest=LONGEST_BYTES, required=True
    ),
    "filename": Field("filename", "text", "Its name in SARIF; `train.py` when not given.", longest=500),
    **{name: RECOMMEND[name] for name in _SAID},
    "gpu": Field("gpu", "text", RECOMMEND["gpu"].about, longest=200),
    "metric": Field("metric", "text", "What predictions are judged by.", longest=200, example="roc auc"),
}
_BESIDE = {name: field for name, field in REVIEW.items() if name != "script"}
_JSON = "application/json"
_FORMS = {"*/*": _JSON, "application/*": _JSON, _JSON: _JSON, SARIF_MEDIA_TYPE: SARIF_MEDIA_TYPE}


@router.post("/review", **describe.reviews(REVIEW, review_shapes.Reviewed))
def review(request: Request, body: Raw) -> Response:
    """What to change in a training script before it burns the budget: by rule and line, with the fix. The
    script is read as a syntax tree; nothing of it is run."""
    form = accepted_form(request, _FORMS)
    asked = _asked(request, body)
    answer = review_script(database_of(request), asked)
    if form == SARIF_MEDIA_TYPE:
        answer = sarif(answer["findings"], asked.get("filename", "train.py"), __version__)
    return Response(as_bytes(answer), media_type=form)


def _asked(request: Request, body: bytes) -> dict[str, Any]:
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media in ("text/x-python", "text/plain", "application/octet-stream"):
        return {**checked_query(_BESIDE, query_of(request)), "script": body}
    check_media(request.headers.get("content-type", "application/json"))
    no_query(request)
    return question_of(parse_json(body))


def question_of(document: Any) -> dict[str, Any]:
    """The question of a JSON body. InvalidInput names each wrong field."""
    if not isinstance(document, dict):
        raise InvalidInput("The body must be a JSON object", [FieldError("", "must be an object")])
    plan = document.pop("plan", None)
    asked = checked_body(REVIEW, document)
    if "script" not in asked:
        raise InvalidInput("script is missing", [FieldError("script", "is missing")])
    return asked if plan is None else {**asked, "plan": plan}
