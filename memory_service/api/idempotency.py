"""`Idempotency-Key`: what makes something new is done once, however often it is sent
(draft-ietf-httpapi-idempotency-key-header).

Answers are kept in the database for a day, by caller, so that a restart and other servers know them. Those
that hold an API key stay in this process, since no database holds one.
"""

import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from cachetools import TTLCache
from fastapi import Request
from starlette.responses import Response

from memory_service.errors import Conflict, wrong_value
from memory_service.services.access import idempotent_answers as stored
from memory_service.services.database.transactions import Database

HEADER = "Idempotency-Key"
MOST_SECRETS = 1_000

_FORM = re.compile(r'"?([\x21\x23-\x5b\x5d-\x7e]{1,255})"?')
_RUNS = uuid.UUID("6d656d73-0000-5000-8000-000000000000")
_WITH_SECRETS = "/keys"


class IdempotentAnswers:
    """What was answered under which key."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret: TTLCache[tuple[str, str], Response] = TTLCache(
            MOST_SECRETS, stored.KEPT.total_seconds()
        )

    async def once(
        self, request: Request, key: str, raw: bytes, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer, made now or before. InvalidInput where the key stood for another request, Conflict
        where that is still under way, or its answer is not kept. What was refused may be sent again."""
        caller = _caller(request)
        asked = f"{request.method} {request.scope['path']}?{request.scope['query_string']!r}".encode()
        digest = hashlib.blake2b(asked + b"\0" + raw, digest_size=16).hexdigest()
        before = await anyio.to_thread.run_sync(stored.claim, self._database, caller, key, digest)
        if before is not None:
            return self._again(caller, key, before, digest)
        answer: Response | None = None
        try:
            answer = await do()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(caller, key, request, answer)
        return answer

    def _again(self, caller: str, key: str, before: stored.IdempotentAnswer, digest: str) -> Response:
        if before.digest != digest:
            message = "was sent with another request before; a new request needs a new key"
            raise wrong_value(HEADER, message, key)
        if before.status is None:
            raise Conflict(f"The request with this {HEADER} is being worked on; ask again in a moment")
        if before.body is not None:
            return Response(before.body, before.status, before.headers or {})
        secret = self._secret.get((caller, key))
        if secret is None:
            raise Conflict(
                f"The request with this {HEADER} was done by another process; its answer holds a secret, "
                "which is stored nowhere: rotate the key"
            )
        return secret

    async def _end(self, caller: str, key: str, request: Request, answer: Response | None) -> None:
        if answer is None or not 200 <= answer.status_code < 300:
            await anyio.to_thread.run_sync(stored.release, self._database, caller, key)
            return
        body: str | None = bytes(answer.body).decode()
        if request.scope["path"].startswith(_WITH_SECRETS):
            self._secret[caller, key], body = answer, None
        own = answer.headers
        headers = {name: own[name] for name in ("content-type", "location") if name in own}
        await anyio.to_thread.run_sync(
            stored.keep, self._database, caller, key, answer.status_code, headers, body
        )


def key_of(request: Request) -> str | None:
    """The key that the request carries; InvalidInput for one that is none."""
    given = request.headers.get(HEADER)
    if given is None:
        return None
    found = _FORM.fullmatch(given.strip())
    if found is None:
        raise wrong_value(HEADER, "must be 1 to 255 plain characters, in quotes or not", given[:80])
    return found[1]


def run_id_of(request: Request) -> str | None:
    """The id of the run that a request with a key begins: of the same key always the same."""
    key = key_of(request)
    return None if key is None else str(uuid.uuid5(_RUNS, f"{_caller(request)} {key}"))


def _caller(request: Request) -> str:
    return str(request.scope["state"].get("key_id") or "")
