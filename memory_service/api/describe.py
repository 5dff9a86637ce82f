"""What does /openapi.json promise about each route? Parameters, bodies, answers and every refusal it can
give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import PlainTextResponse, StreamingResponse

from memory_service.api import device_shapes, shapes
from memory_service.api.fields import Field, body_schema, parameters
from memory_service.api.routes.rows import TOLD
from memory_service.api.security.access import wanted
from memory_service.services.devices.calibration_values import Posted
from memory_service.services.prediction.predict import MOST_QUESTIONS
from memory_service.services.tables.catalogue import CORRECTABLE, table_named
from memory_service.services.tables.formats import MEDIA_TYPES
from memory_service.services.tables.row_models import ROW_MODELS

__all__ = [
    "adds",
    "asks",
    "corrects",
    "describe",
    "files",
    "history",
    "lists",
    "makes",
    "one",
    "page_of",
    "plain",
    "posts_calibration",
    "readiness",
    "registers",
    "removes",
    "reviews",
    "row_of",
    "streams",
    "takes",
    "takes_list",
    "takes_raw",
    "tells",
    "text",
    "undoes",
]

_REFUSALS = {
    401: "A key is needed, or the one shown is not valid; over loopback none is asked for, unless so set.",
    403: "The key has none of the scopes that this route wants, or a page of another site sent it.",
    400: "The body is not JSON.",
    404: "There is no such row.",
    406: "The answer is not offered in the form asked for.",
    409: "It contradicts what is stored: the key is taken, the row moved, or other rows need it.",
    408: "The body did not arrive in time.",
    429: "The key is over its rate, or wrong keys came from this address; see `Retry-After`.",
    413: "The body is over the limit.",
    415: "The body is not `application/json`.",
    422: "A value cannot be used; `errors` names each field and the nearest right names.",
    507: "The disk of the database is full: nothing of the request was kept.",
    503: "The service is starting or its database does not answer; ask again after `Retry-After` seconds.",
}
_BODY = (400, 413, 415)
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}

Route = dict[str, Any]
Fields = Mapping[str, Field]


def asks(fields: Fields, answer: type[BaseModel], *, accept: bool = False) -> Route:
    """A question in the query string."""
    refused = (404, 422, 503) + ((406,) if accept else ())
    return _also_as_text(_route(answer, refused, {"parameters": parameters(fields.values())}), accept)


def takes(fields: Fields, answer: type[BaseModel], *, accept: bool = False) -> Route:
    """The same question as a JSON object."""
    refused = (*_BODY, 404, 422, 503) + ((406,) if accept else ())
    return _also_as_text(_route(answer, refused, _json_body(body_schema(fields.values()))), accept)


def _also_as_text(route: Route, offered: bool) -> Route:
    if offered:
        text: dict[str, Any] = {"schema": {"type": "string"}}
        route["responses"][200]["content"] = {"text/markdown": text, "text/x-python": text}
    return route


def takes_list(fields: Fields, answer: type[BaseModel]) -> Route:
    """A list of such objects."""
    shape = {"type": "array", "items": body_schema(fields.values()), "maxItems": MOST_QUESTIONS}
    return _route(answer, (*_BODY, 422, 503), _json_body(shape))


def lists(fields: Fields, answer: type[BaseModel]) -> Route:
    """A page of rows, or all of them as a file."""
    route = _route(answer, (422, 503), {"parameters": parameters(fields.values())})
    route["responses"][200]["content"] = dict(_FILES)
    return route


_FILES = {
    "text/csv": {"schema": {"type": "string"}},
    "application/x-ndjson": {"schema": {"type": "string"}},
    MEDIA_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
}


def files(fields: Fields) -> Route:
    """Rows as a file."""
    responses = {200: {"description": "The file.", "content": dict(_FILES)}} | _responses((404, 422, 503))
    extra = {"parameters": parameters(fields.values())}
    shape = {"response_class": StreamingResponse, "response_model": None}
    return {"responses": responses, "openapi_extra": extra, **shape}


def history(fields: Fields) -> Route:
    """What was done to a row."""
    return _route(shapes.History, (404, 422, 503), {"parameters": parameters(fields.values())})


def one(answer: type[BaseModel]) -> Route:
    """One row."""
    return _route(answer, (404, 422, 503), {})


def adds(table: str) -> Route:
    """A new row."""
    shape = _row_schema(table, ("who", "why"), required=True)
    route = _route(row_of(table), (*_BODY, 409, 422, 503), _json_body(shape), status=201)
    return _created(route, "Path of the new row.")


def registers(fields: Fields) -> Route:
    """A device, or the data sheet of a GPU model: two forms of one body."""
    sheet, device = _row_schema("gpus", ("who", "why"), required=True), body_schema(fields.values())
    shape = {"type": "object", "properties": {**sheet["properties"], **device["properties"]}}
    route = _route(
        device_shapes.Registered, (*_BODY, 409, 422, 503), _json_body(shape | {"oneOf": [device, sheet]}), 201
    )
    known = {"description": "The device was registered before.", "model": device_shapes.Device}
    return _created(route, "Path of the device or of the new row.", known)


def makes(fields: Fields, answer: type[BaseModel]) -> Route:
    """A new thing by a JSON object of these fields."""
    route = _route(answer, (*_BODY, 409, 422, 503), _json_body(body_schema(fields.values())), status=201)
    return _created(route, "Where it is listed.")


def posts_calibration() -> Route:
    """A calibration made elsewhere, whole each time."""
    made = Posted.model_json_schema()
    shape = _inline({name: made[name] for name in ("type", "properties", "required")}, made["$defs"])
    body = _json_body(shape | {"additionalProperties": False})
    route = _route(device_shapes.Calibration, (*_BODY, 409, 422, 503), body, 201)
    known = {
        "description": "It was known and has been extended, or ended just so.",
        "model": device_shapes.Calibration,
    }
    return _created(route, "Path of the calibration.", known)


def tells(
    body: Mapping[str, Any], answer: type[BaseModel], refused: Iterable[int], created: str | None = None
) -> Route:
    """A body by its JSON Schema (references allowed). `created`: what `Location` names; then 201, and 200
    where it was there before."""
    known = body.get("$defs", {})
    shape = _inline({name: part for name, part in body.items() if name not in ("$defs", "title")}, known)
    codes = (*_BODY, *refused, 422, 503, 507)
    route = _route(answer, codes, _json_body(shape), 200 if created is None else 201)
    if created is None:
        return route
    return _created(route, created, {"description": "It was there already, just so.", "model": answer})


def takes_raw(fields: Fields, answer: type[BaseModel]) -> Route:
    """Text as it is, of any bytes."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    extra = {
        "parameters": parameters(fields.values()),
        "requestBody": {"required": True, "content": content},
    }
    return _route(answer, (404, 409, 413, 422, 503, 507), extra)


def reviews(fields: Fields, answer: type[BaseModel]) -> Route:
    """A script: in a JSON object beside the other fields, or as it is with those in the query."""
    shape = body_schema(fields.values())
    shape["properties"]["plan"] = {
        "anyOf": [{"type": "object"}, {"type": "null"}],
        "description": "The plan that the script is of.",
    }
    script = {"schema": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": shape}, "text/x-python": script, "text/plain": script}
    beside = [field for field in fields.values() if field.name != "script"]
    extra = {"parameters": parameters(beside), "requestBody": {"required": True, "content": content}}
    route = _route(answer, (*_BODY, 406, 422, 503), extra)
    route["responses"][200]["content"] = {"application/sarif+json": {"schema": {"type": "object"}}}
    return route


def streams(about: str) -> Route:
    """Server-sent events; the schema is that of one event."""
    texts = {name: {"type": "string"} for name in ("id", "event", "data")}
    event = {"type": "object", "properties": texts, "required": [*texts], "additionalProperties": False}
    content = {"text/event-stream": {"schema": event}}
    responses = {200: {"description": about, "content": content}} | _responses((404, 422, 503))
    return {"responses": responses, "response_class": StreamingResponse, "response_model": None}


def corrects(table: str) -> Route:
    """Changes of a row."""
    shape = _row_schema(table, tuple(TOLD), required=False)
    return _route(row_of(table), (*_BODY, 404, 409, 422, 503), _json_body(shape))


def undoes(table: str, fields: Fields) -> Route:
    """A change taken back."""
    route = _route(row_of(table), (*_BODY, 404, 409, 422, 503), _json_body(body_schema(fields.values())))
    route["responses"][204] = {"description": "The row was added by that change, and is gone again."}
    return route


def removes(fields: Fields) -> Route:
    """The end of a row."""
    extra = {"parameters": parameters(fields.values())}
    return {"responses": _responses((404, 409, 422, 503)), "openapi_extra": extra, "response_model": None}


def plain(answer: type[BaseModel] | None, refused: Iterable[int] = ()) -> Route:
    """A route without fields."""
    return _route(answer, tuple(refused), {})


def readiness() -> Route:
    """The same document when ready (200) and when not yet (503)."""
    route = _route(shapes.Ready, (422,), {})
    route["responses"][503] = {"description": "Not yet, or not any more.", "model": shapes.Ready}
    return route


def text(media_type: str, about: str) -> Route:
    """A route that answers in plain text."""
    content = {media_type.partition(";")[0]: {"schema": {"type": "string"}}}
    responses = {200: {"description": about, "content": content}} | _responses((422,))
    return {"responses": responses, "response_class": PlainTextResponse, "response_model": None}


_rows: dict[str, type[BaseModel]] = {}


def row_of(table: str) -> type[BaseModel]:
    """The shape of one row as it is answered."""
    if table not in _rows:
        stored = ROW_MODELS[table_named(table)]
        members: dict[str, Any] = dict.fromkeys(stored.model_fields, (Any, ...))
        if table in CORRECTABLE:
            members |= {"version": (int, ...), "origin": (str, ...), "corrected": (bool, ...)}
        members |= {"created_at": (str, ...), "updated_at": (str, ...)}
        config = ConfigDict(extra="allow", title=f"{_singular(table)} row")
        _rows[table] = create_model(f"{_singular(table)}Row", __config__=config, **members)
    return _rows[table]


def page_of(table: str) -> type[BaseModel]:
    """The shape of a page of rows."""
    members: dict[str, Any] = {"items": (list[dict[str, Any]], ...), "next": (str | None, ...)}
    members["total"] = (int | None, None)
    return create_model(f"{_singular(table)}Page", **members)


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` give the whole description, made once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                routes=app.routes,
                description=_ABOUT,
            )
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            made = shapes.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= made.pop("$defs", {})
            schemas["Problem"] = made
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            _guard(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _guard(document: dict[str, Any]) -> None:
    """What each route wants by `api.security.access`: keys, scopes, and the answers of those who lack
    them."""
    document["components"]["securitySchemes"] = _SCHEMES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            scopes = wanted(method.upper(), path)
            if scopes:
                # Over loopback nothing is asked for: hence the empty one.
                ways: list[dict[str, list[str]]] = [
                    {scheme: [scope]} for scope in scopes for scheme in _SCHEMES
                ]
                operation["security"] = [{}, *ways]
                operation["responses"] |= {str(code): told for code, told in _responses((401, 403)).items()}
                operation["responses"]["401"]["headers"] = _CHALLENGED
            limited = (408, 429) if "requestBody" in operation else (429,)
            operation["responses"] |= {str(code): told for code, told in _responses(limited).items()}
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

_ABOUT = """\
Ask once, train right: `GET /recommend?task=image&size=medium&gpu=a100` answers with one explicit plan.

Every number carries its 80 % interval, its grade (measured > estimated > claimed) and its basis. Every
refusal is `application/problem+json`. Unknown fields, fields given twice and empty ones are refused, never
ignored. Every answer carries `X-Request-ID`, the caller's own where one was sent."""


def _route(
    answer: type[BaseModel] | None, refused: tuple[int, ...], extra: dict[str, Any], status: int = 200
) -> Route:
    good: dict[str, Any] = {"description": "The answer."}
    if answer is not None:
        good["model"] = answer
    responses = {status: good} | _responses(refused)
    return {"responses": responses, "openapi_extra": extra, "response_model": None}


def _responses(refused: Iterable[int]) -> dict[int | str, dict[str, Any]]:
    return {code: {"description": _REFUSALS[code], "content": _PROBLEM} for code in sorted(refused)}


def _created(route: Route, about: str, known: Mapping[str, Any] | None = None) -> Route:
    """`Location` of what was made; `known`: the same answer with 200 where it was there before."""
    location = {"Location": {"description": about, "schema": {"type": "string"}}}
    route["responses"][201]["headers"] = location
    if known is not None:
        route["responses"][200] = {**known, "headers": location}
    return route


def _json_body(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": shape}}}}


def _row_schema(table: str, told: tuple[str, ...], *, required: bool) -> dict[str, Any]:
    """The fields a person may write; blank texts are refused, null means "not known"."""
    made = ROW_MODELS[table].model_json_schema()
    properties = {name: _inline(shape, made.get("$defs", {})) for name, shape in made["properties"].items()}
    properties |= {name: TOLD[name].in_body() for name in told}
    shape: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        shape["required"] = made["required"]
    return shape


def _inline(shape: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(shape, dict):
        if "$ref" in shape:
            return _inline(known[shape["$ref"].rsplit("/", 1)[-1]], known)
        return {name: _inline(item, known) for name, item in shape.items()}
    return [_inline(item, known) for item in shape] if isinstance(shape, list) else shape


def _singular(table: str) -> str:
    names = {"strategies": "Strategy", "sizing": "Sizing"}
    return names.get(table, table.removesuffix("s").capitalize())
