"""Strict reading of bodies and query strings: size (413), media type, encoding, repeated keys; nothing is
guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache
from itertools import chain
from math import isfinite
from typing import Annotated, Any, get_origin
from urllib.parse import unquote_to_bytes

import anyio
import anyio.to_thread
import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from memory_service.api.error_handlers import UnsupportedMediaType
from memory_service.api.fair_share import caller_of
from memory_service.api.idempotency import IdempotentAnswers, key_of
from memory_service.api.service import FewAtOnce
from memory_service.errors import FieldError, InvalidInput, MalformedBody, TooLarge, wrong_value
from memory_service.schemas.validation_errors import found_errors, refusal

MAX_FIELDS = 200
"""Members of one object, of a query or a body, where its model states no other number (`members_of`): each
unknown one is answered with the nearest names."""
LOOP_BYTES = 64 * 1024
"""A longer body is read and checked in a thread: other requests go on meanwhile."""
STRANGERS_BYTES = 16 * 1024
"""Of a body from somebody who showed no key: the form of the login page."""
LONGEST_IN_QUERY = 5_000
"""Characters of a text in a query string, where each may take twelve bytes; longer ones go into a body."""
MOST_VALUES = 400_000
"""Values of a body. Four megabytes of `[],` would be 1.4 million lists and a hundred megabytes of memory; the
longest body with a use, 10 000 questions, has a quarter of this."""
DRAINED_BYTES = 64 * 2**20
"""Of a body over the limit this much is read and thrown away, so that the caller gets to read the refusal."""

NO_MEMBERS: Mapping[str, int] = {}

_READ_BODY = {"POST", "PUT", "PATCH"}


class StrictRoute(APIRoute):
    """A route whose query and JSON body are checked by its models. What FastAPI would pass over is refused
    before: fields given twice or empty, text that is not UTF-8, a query where none is taken, a body over the
    limit, another media type, NaN, repeated keys."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        if self.body_field is not None:
            stated = self.body_field.field_info
            body: Any = Annotated[stated.annotation, stated]
            self._body: TypeAdapter[Any] = TypeAdapter(body)
        models = {
            "query": next((field.field_info.annotation for field in self.dependant.query_params), None),
            "body": self.body_field.field_info.annotation if self.body_field is not None else None,
        }

        async def handle(request: Request) -> Response:
            if models["query"] is None:
                no_query(request)
            else:
                _check_lengths(parse_query_string(request.scope["query_string"]))
            raw = b""
            if self.body_field is not None:
                check_media(request.headers.get("content-type", "application/json"))
            if _READ_BODY & (self.methods or set()):
                raw = request._body = await raw_body(request)

            async def answered() -> Response:
                try:
                    async with long_body(request) if len(raw) > LOOP_BYTES else nullcontext():
                        if self.body_field is not None:
                            checked = await self._checked_body(raw, models["body"])
                            request._body, request._json = b"{}", checked
                        return await answer(request)
                except RequestValidationError as error:
                    found = [{**one, "loc": one["loc"][1:]} for one in error.errors()]
                    place = error.errors()[0]["loc"][0]
                    raise refusal(found, models.get(place)) from None

            key = key_of(request) if self._makes_something else None
            if key is None:
                return await answered()
            answers: IdempotentAnswers = request.app.state.service.idempotent_answers
            return await answers.once(request, key, raw, answered)

        return handle

    @property
    def _makes_something(self) -> bool:
        """Whether sending it twice would make two."""
        return "POST" in (self.methods or ()) and (
            self.status_code == 201 or self.path.endswith(("/undo", "/rotate"))
        )

    async def _checked_body(self, raw: bytes, model: Any) -> Any:
        """The JSON of the body; of a long one what its model made of it, which FastAPI takes as it is."""
        if len(raw) <= LOOP_BYTES:
            return parse_json(raw, members_of(model))
        return await anyio.to_thread.run_sync(self._read, raw, model)

    def _read(self, raw: bytes, model: Any) -> Any:
        document = parse_json(raw, members_of(model))
        try:
            return self._body.validate_python(document, from_attributes=True)
        except ValidationError as error:
            raise refusal(found_errors(error), model) from None


def long_body(request: Request) -> AbstractAsyncContextManager[None]:
    """What few may hold at once, and a caller once: whoever works on a body of over `LOOP_BYTES`."""
    turns: FewAtOnce = request.app.state.service.long_bodies
    return turns.turn(caller_of(request.scope))


def _check_lengths(query: Mapping[str, str]) -> None:
    message = f"must be at most {LONGEST_IN_QUERY} characters here; POST takes longer ones"
    errors = [FieldError(name, message, text) for name, text in query.items() if len(text) > LONGEST_IN_QUERY]
    if errors:
        raise InvalidInput(f"{errors[0].field} {message}", errors)


def parse_query_string(raw: bytes) -> dict[str, str]:
    """Field -> text of a query string. InvalidInput for a field given twice or empty, and for text that is
    not UTF-8."""
    out: dict[str, str] = {}
    parts = raw.split(b"&") if raw else []
    if len(parts) > MAX_FIELDS:
        raise InvalidInput(f"A question has at most {MAX_FIELDS} fields, not {len(parts)}")
    for part in parts:
        if not part:
            continue
        name_raw, _, value_raw = part.partition(b"=")
        name = _decoded(name_raw, "a field's name")
        value = _decoded(value_raw, name)
        if name in out:
            raise _refused(name, "is given twice; give it once", value)
        if value == "":
            raise _refused(name, "is empty; leave it out or give a value", "")
        _check_text(name, value)
        out[name] = value
    return out


def no_query(request: Request) -> None:
    """InvalidInput when a route that takes no query is given one."""
    if request.scope["query_string"]:
        for name in parse_query_string(request.scope["query_string"]):
            raise _refused(name, "is not a field of this route", None)


async def raw_body(request: Request) -> bytes:
    """The body as it is, whatever it is called. TooLarge while it streams in; UnsupportedMediaType where it
    is compressed. Of somebody without a key it is short."""
    coding = _header(request, b"content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise UnsupportedMediaType(f"The body must not be compressed (Content-Encoding: {coding[:40]})")
    most: int = request.app.state.service.settings.max_body_bytes
    return await _limited(request, most if request.state.scopes else min(most, STRANGERS_BYTES))


async def event_object(request: Request) -> dict[str, Any]:
    """The JSON object of the body, where a literal NaN or infinity (JSON has neither, Python's writer writes
    them) is taken for the text "nan", "inf" or "-inf": the loss that diverged is what must not be lost."""
    check_media(_header(request, b"content-type", "application/json"))
    raw = await raw_body(request)
    if len(raw) <= LOOP_BYTES:
        return _event_object(raw)
    async with long_body(request):
        return await anyio.to_thread.run_sync(_event_object, raw)


def _event_object(raw: bytes) -> dict[str, Any]:
    try:
        document = parse_json(raw)
    except MalformedBody:
        raise
    except InvalidInput as refused:
        document = parse_json(_with_texts_for_constants(raw, refused))
    return _object(document)


@cache
def members_of(model: Any) -> Mapping[str, int]:
    """Field of a body's model that is a mapping -> how many members it may have, as the model states it."""
    fields = getattr(model, "model_fields", {})
    return {
        name: stated.max_length
        for name, field in fields.items() if get_origin(field.annotation) is dict
        for stated in field.metadata if hasattr(stated, "max_length")
    }  # fmt: skip


def parse_json(raw: bytes, members: Mapping[str, int] = NO_MEMBERS) -> Any:
    """The JSON of a body; members: as `members_of` gives them. TooLarge for too many values, MalformedBody
    for what is not JSON; InvalidInput for NaN, infinity, half surrogates, NUL, repeated keys and objects of
    too many members."""
    if len(raw) > MOST_VALUES and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MOST_VALUES:
        raise TooLarge(f"The body holds more than {MOST_VALUES} values; send it in pieces")
    try:
        document = orjson.loads(raw)
        written = orjson.dumps(document)
    except orjson.JSONDecodeError as error:
        raise _why_not(raw, error) from None
    except TypeError:  # it reads 1024 levels and writes 254
        raise InvalidInput("The body is nested deeper than 254 levels") from None
    # Colons stand behind keys and inside texts: written anew there are as many, unless a key was given twice
    # or a text was escaped. Looking at every pair takes ten times longer.
    colons = written.count(b":")
    if colons > MAX_FIELDS:
        check_members(document, members)
    if b"\\u" in raw or raw.count(b":") != colons:
        json.loads(raw, object_pairs_hook=_unique)
        check_texts(document)
    return document


def check_members(document: Any, members: Mapping[str, int] = NO_MEMBERS) -> int:
    """How many values a document holds; InvalidInput for an object of over `MAX_FIELDS` members, or of over
    those that its field may have."""
    if members and document.__class__ is dict:  # those that its model lets be large count as lists
        document = {
            name: [*value.values()]
            if value.__class__ is dict and len(value) <= members.get(name, 0)
            else value
            for name, value in document.items()
        }
    level, values = [document], 0
    while not _CONTAINERS.isdisjoint(map(type, level)):
        objects = [value for value in level if value.__class__ is dict]
        if objects and len(longest := max(objects, key=len)) > MAX_FIELDS:
            message = f"An object has at most {MAX_FIELDS} members, not {len(longest)}"
            raise InvalidInput(message, [FieldError(next(iter(longest))[:80], "is one of too many")])
        lists = [value for value in level if value.__class__ is list]
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(lists)]
        values += len(level)
    return values


_CONTAINERS = frozenset((dict, list))


def check_media(media: str) -> None:
    """UnsupportedMediaType for anything but JSON in UTF-8."""
    kind, _, parameters = media.partition(";")
    kind = kind.strip().lower()
    charset = parameters.lower().replace('"', "").replace(" ", "")
    if kind != "application/json" or ("charset=" in charset and "charset=utf-8" not in charset):
        raise UnsupportedMediaType(f"The body must be application/json in UTF-8, not {media[:100]!r}")


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        detail = "The body must be a JSON object"
        raise wrong_value("", "must be an object", _kind(document), detail=detail)
    return document


def _with_texts_for_constants(raw: bytes, refused: InvalidInput) -> bytes:
    texts = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
    try:
        document = json.loads(
            raw, parse_constant=texts.__getitem__, parse_float=_number_or_text, object_pairs_hook=_unique
        )
        return orjson.dumps(document)
    except (TypeError, ValueError, RecursionError):  # half a surrogate pair, over 64 bits, too deep
        raise refused from None


def _number_or_text(digits: str) -> float | str:
    """1e999 is infinite as a float, which JSON cannot say."""
    number = float(digits)
    return number if isfinite(number) else "inf" if number > 0 else "-inf"


def _header(request: Request, name: bytes, default: str) -> str:
    """As `request.headers.get` does, for what comes thousands of times a second."""
    for key, value in request.scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return default


async def _limited(request: Request, limit: int) -> bytes:
    declared = _header(request, b"content-length", "")
    over = declared.isdigit() and int(declared[:20]) > limit
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            over = True
            pieces.clear()
        if over and size > DRAINED_BYTES:
            break
        if not over:
            pieces.append(piece)
    if over:
        setting = " without a key" if limit == STRANGERS_BYTES else " (MEMORY_MAX_BODY_BYTES)"
        raise TooLarge(f"The body is over the limit of {limit} bytes{setting}")
    return b"".join(pieces)


def _decoded(raw: bytes, field: str) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(field, "is not UTF-8", raw[:80].decode("ascii", "replace")) from None


def _check_text(field: str, text: str) -> None:
    if "\x00" in text or "\x00" in field:
        raise _refused(field, "must not hold a NUL character", text)


def check_texts(document: Any) -> None:
    """InvalidInput for a NUL in any text or key of a JSON document: no database of ours keeps one."""
    pending = [("", document)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            _check_text(name, value)
        elif isinstance(value, dict):
            for key, item in value.items():
                _check_text(key, key)
                pending.append((f"{name}.{key}" if name else key, item))
        elif isinstance(value, list):
            pending.extend(
                (f"{name}[{i}]", item) for i, item in enumerate(value) if isinstance(item, str | dict | list)
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise _refused(twice, "is given twice; give it once", None)
    return out


def _why_not(raw: bytes, error: orjson.JSONDecodeError) -> InvalidInput:
    """Python's reader takes NaN, infinity and half surrogates: what only it takes is JSON with a wrong
    value."""
    if "depth limit" in str(error):
        return MalformedBody("The body is nested deeper than anything that is read (1024 levels)")
    constants: list[str] = []
    try:
        json.loads(raw.decode("utf-8"), parse_constant=constants.append)
    except (ValueError, RecursionError):
        return MalformedBody(f"The body is not valid JSON: {error}")
    if constants:
        message = f"{constants[0]} is not a number that can be used"
        return InvalidInput(message, [FieldError("", message, constants[0])])
    return InvalidInput(f"The body holds a value that cannot be used: {error}")


def _refused(field: str, message: str, given: Any) -> InvalidInput:
    return InvalidInput(f"{field[:80]} {message}", [FieldError(field, message, given)])


def _kind(document: Any) -> str:
    names: Mapping[type, str] = {list: "an array", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(document), "a number")
