"""Content negotiation and serialisation of answers: JSON, Markdown or Python."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import anyio.to_thread
import orjson
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from memory_service.api.error_handlers import NotAcceptable
from memory_service.api.fair_share import caller_of
from memory_service.api.service import server_of, service_of
from memory_service.domain.common.quoted_text import as_markdown
from memory_service.domain.common.sentences import sentence
from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.services.planning.plan_script import blend_script, plan_script

_JSON, _MARKDOWN, _SCRIPT = "application/json", "text/markdown", "text/x-python"
_BLEND = "text/x-python-blend"

_OFFERED = {
    "*/*": _JSON, "application/*": _JSON, _JSON: _JSON, "text/*": _MARKDOWN, _MARKDOWN: _MARKDOWN,
    _SCRIPT: _SCRIPT, _BLEND: _BLEND,
}  # fmt: skip
"""What a media range of the `Accept` header gets."""

_OF_WORDS = {name: form for name, form in _OFFERED.items() if form in (_JSON, _MARKDOWN)}


def as_bytes(data: Any) -> bytes:
    """JSON in UTF-8; NaN and infinity, which JSON has not, become null."""
    return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)


def json_answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(as_bytes(data), status, headers, media_type="application/json")


def file_of(request: Request, pieces: Iterable[bytes], media: str) -> Response:
    """A file that is streamed; each piece is made in its caller's turn."""
    turns = service_of(request).files

    async def made() -> AsyncIterator[bytes]:
        left = iter(pieces)
        while True:
            async with turns.turn(caller_of(request.scope)):
                piece = await anyio.to_thread.run_sync(next, left, None)
            if piece is None:
                return
            yield piece

    return StreamingResponse(made(), media_type=media)


def told(request: Request, data: Any, words: Callable[[Any], str]) -> Response:
    """The answer as JSON, or in words where Markdown is preferred; NotAcceptable for other forms."""
    if accepted_form(request, _OF_WORDS) == _JSON:
        return json_answer(data)
    return Response(as_markdown(words(data)) + "\n", media_type=_MARKDOWN)


def plan_answer(request: Request, body: bytes, form: str, single: bool | None = None) -> bytes:
    """The JSON of a plan in the form that was asked for; NoScript where that is a script and there is none
    for it.

    single   a script that needs no package
    """
    if form == _JSON:
        return body
    plan = orjson.loads(body)
    if form == _SCRIPT:
        return plan_script(plan, server_of(request), single=bool(single)).encode()
    if form == _BLEND:
        return blend_script(plan).encode()
    script = plan.get("links", {}).get("script")
    begin = str(sentence("next-by-http", script=f"script GET {script}; " if script else ""))
    return (plan_markdown(plan) + (begin if plan["feasible"] else "")).encode()


def accepted_form(request: Request, offered: Mapping[str, str] = _OFFERED) -> str:
    """`application/json`, or another form that is `offered` where the caller prefers it (of a plan
    `text/markdown` or `text/x-python`); NotAcceptable where none is admitted."""
    asked = asked_form(request.scope["headers"])
    return _JSON if asked is None else _preferred(asked.decode("latin-1"), offered)


def asked_form(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The `Accept` header; None where JSON, or anything, is what it asks for."""
    for name, value in headers:
        if name == b"accept" and value not in (b"*/*", b"application/json"):
            return value
    return None


def _preferred(accept: str, offered: Mapping[str, str]) -> str:
    best: tuple[float, str] | None = None
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((_weight(p) for p in parameters if p.replace(" ", "").startswith("q=")), 1.0)
        if media in offered and weight > (best[0] if best else 0.0):
            best = (weight, offered[media])
    if best is None:
        forms = " or ".join(dict.fromkeys(offered.values()))
        raise NotAcceptable(f"{accept[:100]!r} is not offered; ask for {forms}")
    return best[1]


def _weight(parameter: str) -> float:
    try:
        return float(parameter.partition("=")[2])
    except ValueError:
        return 0.0
