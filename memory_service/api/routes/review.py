"""Route POST /review: static review of a training script or notebook."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from memory_service import __version__
from memory_service.api.answers import accepted_form, as_bytes
from memory_service.api.describe import Responses, refusals
from memory_service.api.request_body import StrictRoute, check_media, no_query, parse_json, raw_body
from memory_service.api.service import database_of
from memory_service.review.sarif import SARIF_MEDIA_TYPE, sarif
from memory_service.review.source.parsing import is_notebook
from memory_service.schemas.review import Review, ReviewQuery, ReviewRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.review.review import review_script

router = APIRouter(tags=["ask"], route_class=StrictRoute)

Raw = Annotated[bytes, Depends(raw_body)]

_JSON = "application/json"
_FORMS = {"*/*": _JSON, "application/*": _JSON, _JSON: _JSON, SARIF_MEDIA_TYPE: SARIF_MEDIA_TYPE}


_SCRIPT = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    _JSON: {"schema": {"$ref": "#/components/schemas/ReviewRequest"}},
    "text/x-python": _SCRIPT,
    "text/plain": _SCRIPT,
    "application/x-ipynb+json": _SCRIPT,
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
