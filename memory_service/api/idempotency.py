"""`Idempotency-Key`: what makes something new is done once, however often it is told
(draft-ietf-httpapi-idempotency-key-header).

Answers are remembered for a day in this process, by caller; one that another process or the one before a
restart gave is not known. A run is the same then, too: its id follows from the key.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable

from cachetools import TTLCache
from fastapi import Request
from starlette.responses import Response

from memory_service.errors import Conflict, FieldError, InvalidInput

HEADER = "Idempotency-Key"
KEPT_SECONDS = 24 * 3600.0
KEPT_BYTES = 32 * 2**20

_FORM = re.compile(r'"?([\x21\x23-\x5b\x5d-\x7e]{1,255})"?')
_RUNS = uuid.UUID("6d656d73-0000-5000-8000-000000000000")

Answer = tuple[bytes, Response | None]
"""Digest of the request; its answer, None while that is being made."""


class Told:
    """What was answered under which key. For one event loop."""

    def __init__(self) -> None:
        self._answers: TTLCache[tuple[str, str], Answer] = TTLCache(
            KEPT_BYTES, KEPT_SECONDS, getsizeof=lambda one: 500 + (len(one[1].body) if one[1] else 0)
        )

    async def once(
        self, request: Request, key: str, raw: bytes, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer, made now or before. InvalidInput where the key stood for another request, Conflict
        where that is still under way. What was refused may be told anew."""
        place = (_caller(request), key)
        asked = f"{request.method} {request.scope['path']}?{request.scope['query_string']!r}".encode()
        digest = hashlib.blake2b(asked + b"\0" + raw, digest_size=16).digest()
        before = self._answers.get(place)
        if before is not None and before[0] != digest:
            message = "was sent with another request before; a new request needs a new key"
            raise InvalidInput(f"{HEADER} {message}", [FieldError(HEADER, message, key)])
        if before is not None and before[1] is None:
            raise Conflict(f"The request with this {HEADER} is being worked on; ask again in a moment")
        if before is not None and before[1] is not None:
            return before[1]
        self._answers[place] = digest, None
        try:
            answer = await do()
        except BaseException:
            self._answers.pop(place, None)
            raise
        self._answers.pop(place, None)
        if 200 <= answer.status_code < 300 and len(answer.body) < KEPT_BYTES // 8:
            self._answers[place] = digest, answer
        return answer


def key_of(request: Request) -> str | None:
    """The key that the request carries; InvalidInput for one that is none."""
    given = request.headers.get(HEADER)
    if given is None:
        return None
    found = _FORM.fullmatch(given.strip())
    if found is None:
        message = "must be 1 to 255 plain characters, in quotes or not"
        raise InvalidInput(f"{HEADER} {message}", [FieldError(HEADER, message, given[:80])])
    return found[1]


def run_id_of(request: Request) -> str | None:
    """The id of the run that a request with a key begins: of the same key always the same."""
    key = key_of(request)
    return None if key is None else str(uuid.uuid5(_RUNS, f"{_caller(request)} {key}"))


def _caller(request: Request) -> str:
    return str(request.scope["state"].get("key_id") or "")
