"""What /openapi.json says beside the models that routes declare: refusals, files, headers, keys."""

import re
import threading
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from memory_service.api.request_body import LONGEST_IN_QUERY
from memory_service.api.security.route_scopes import wanted
from memory_service.domain.common.tables import shipped_table
from memory_service.schemas.answers.common import Problem
from memory_service.schemas.review import ReviewRequest
from memory_service.services.tables.file_formats import MEDIA_TYPES

Responses = dict[int | str, dict[str, Any]]

_WORDS = shipped_table(__package__, "description.toml")
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_BODY = (400, 415)
_ALWAYS = (422, 503)
_WITHOUT = ("/healthz", "/metrics", "/readyz")
"""Never unavailable, or with a document of their own when they are."""

FILES: dict[str, Any] = {
    "text/csv": {"schema": {"type": "string"}},
    "application/x-ndjson": {"schema": {"type": "string"}},
    **{MEDIA_TYPES[one]: {"schema": {"type": "string", "format": "binary"}} for one in ("parquet", "xlsx")},
}


def refusals(*codes: int) -> Responses:
    """The refusals of a route beside those that every route has."""
    return {code: {"description": _WORDS["refusals"][str(code)], "content": _PROBLEM} for code in codes}


def texts(*media_types: str, about: str = "The answer.") -> Responses:
    """The forms of an answer that are texts."""
    return {
        200: {"description": about, "content": {each: {"schema": {"type": "string"}} for each in media_types}}
    }


def files(about: str = "The answer.") -> Responses:
    """All rows as a file."""
    return {200: {"description": about, "content": dict(FILES)}}


def created(about: str, answer: Any, known: str | None = None, known_answer: Any = None) -> Responses:
    """`Location` of what was made; `known`: when the answer is 200, as it was there before."""
    location = {"Location": {"description": about, "schema": {"type": "string"}}}
    found: Responses = {201: {"description": "The answer.", "model": answer, "headers": location}}
    if known is not None:
        found[200] = {"description": known, "model": known_answer or answer, "headers": location}
    return found


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` give the whole description, made once."""
    making = threading.Lock()

    def openapi() -> dict[str, Any]:
        with making:
            if app.openapi_schema is None:
                app.openapi_schema = written()
            return app.openapi_schema

    def written() -> dict[str, Any]:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            routes=app.routes,
            description=_WORDS["about"],
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        made = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
        schemas |= made.pop("$defs", {})
        schemas["Problem"] = made
        schemas["ReviewRequest"] = ReviewRequest.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(path, operation)
                _guard(path, method, operation)
        document["components"]["securitySchemes"] = _SCHEMES
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def plain_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The first form of a value that may be null or have several."""
    forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
    found = {**(forms[0] if forms else {}), **{key: schema[key] for key in schema if key != "anyOf"}}
    return {key: value for key, value in found.items() if key != "title" and value is not None}


def _complete(path: str, operation: dict[str, Any]) -> None:
    """A summary in words, query fields as texts have them; the refusals that every route has."""
    if about := operation.get("description"):
        operation["summary"] = re.split(r"(?<=\w)[.:;] |\.$", " ".join(about.split()), maxsplit=1)[0][:120]
    for parameter in operation.get("parameters", ()):
        shape = parameter["schema"] = plain_form(parameter["schema"])
        shape.pop("description", None)
        if examples := shape.pop("examples", None):  # a list would not be filled in by the page of /docs
            parameter["example"] = examples[0]
        if shape.get("maxLength", 0) > LONGEST_IN_QUERY and parameter["in"] == "query":
            shape["maxLength"] = LONGEST_IN_QUERY
    content = operation.get("requestBody", {}).get("content", {})
    codes = {422} if path in _WITHOUT else {*_ALWAYS, *((404,) if "{" in path else ())}
    codes |= {413} if content else set()
    codes |= {*_BODY} if "application/json" in content else set()
    answered = operation["responses"]
    operation["responses"] = {str(code): shape for code, shape in refusals(*sorted(codes)).items()} | {
        code: shape for code, shape in answered.items() if code != "422" or shape.get("content") == _PROBLEM
    }


def _guard(path: str, method: str, operation: dict[str, Any]) -> None:
    """What a route wants by `api.security.route_scopes`: keys, scopes, and the answers of those who lack
    them."""
    scopes = wanted(method.upper(), path)
    if scopes:
        # Over loopback nothing is asked for: hence the empty one.
        ways: list[dict[str, list[str]]] = [{scheme: [scope]} for scope in scopes for scheme in _SCHEMES]
        operation["security"] = [{}, *ways]
        operation["responses"] |= {str(code): shape for code, shape in refusals(401, 403).items()}
        operation["responses"]["401"]["headers"] = _CHALLENGED
    limited = (408, 429) if "requestBody" in operation else (429,)
    operation["responses"] |= {str(code): shape for code, shape in refusals(*limited).items()}
    operation["responses"]["429"]["headers"] = _LATER


_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "`Authorization: Bearer msk_…`, a key of `memory-service keys create`. The scopes "
        "stand beside each route; `admin` opens every one.",
    },
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
}
_LATER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_CHALLENGED = {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}
