"""Commands that ask or tell a server on another host; its problem documents become errors here. What anybody
else on the way answers refuses nothing."""

import http.client
import importlib.util
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from memory_service.client.config import DEFAULT_SERVER, api_key
from memory_service.client.delivery.http import OUR_PROBLEMS, PROBLEM
from memory_service.errors import MemoryServiceError, Refused, Unavailable, no_server, wrong_value
from memory_service.services.database.latest_state import Latest

TIMEOUT_SECONDS = 15.0
WITHIN_SECONDS = 45.0
"""For a whole answer: one that drips keeps every operation of its socket short of `TIMEOUT_SECONDS`."""

UNREACHABLE = (OSError, ValueError, http.client.HTTPException)
BETWEEN_SECONDS = 1.0
"""At most so often: sections of small devices come by the dozen."""

MOST_ANSWER_BYTES = 2**26
_LONGEST_PAUSE_SECONDS = 8.0


def checked_url(server: str) -> str:
    """`http://host:port` without a slash at its end; InvalidInput otherwise."""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = "must be the URL of a memory-service, such as http://127.0.0.1:8000"
        raise wrong_value("server", message, server)
    return server.rstrip("/")


ServerUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Ask this server, else that of MEMORY_SERVER, instead of a database here."
    ),
]


def server_asked(
    given: str | None, database: str | None = None, *, light: str | None = DEFAULT_SERVER
) -> str | None:
    """The server to ask: `--server`, else MEMORY_SERVER where no `--database` is given; None where the answer
    is made here. A light installation, which makes none, asks `light` in the end."""
    if given is None and database is None:
        given = os.environ.get("MEMORY_SERVER") or (light if is_light() else None)
    return None if given is None else checked_url(given)


def is_light() -> bool:
    """Whether what keeps a database is not installed."""
    return importlib.util.find_spec("sqlalchemy") is None


def get(server: str, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The server's JSON answer to a question; errors as of `post`."""
    return _sent(f"{server}{path}?{urlencode(fields)}", None, "")


def post(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The server's JSON answer. Refused with its words, Unavailable when it cannot be reached or fails."""
    return _sent(url, json.dumps(body).encode(), "application/json")


def post_text(url: str, content: bytes, fields: Mapping[str, str]) -> dict[str, Any]:
    """The server's JSON answer to a file, with `fields` beside it; errors as of `post`."""
    return _sent(f"{url}?{urlencode(fields)}", content, "text/plain")


def opened(url: str, body: bytes | None, headers: Mapping[str, str], seconds: float) -> Any:
    """The server's response to close; HTTPError and `UNREACHABLE` as they come."""
    request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - the scheme was checked
    key = api_key(os.environ)
    if key is not None:  # never to where it redirects
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    return urllib.request.urlopen(request, timeout=seconds)  # noqa: S310


def _sent(url: str, body: bytes | None, media: str) -> dict[str, Any]:
    found: list[dict[str, Any] | Exception] = []

    def ask() -> None:
        try:
            found.append(_answered(url, body, media))
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            found.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WITHIN_SECONDS)
    if not found:
        raise Unavailable(f"{url.partition('?')[0]} gave no whole answer within {WITHIN_SECONDS:g} s")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def _answered(url: str, body: bytes | None, media: str) -> dict[str, Any]:
    at = url.partition("?")[0]
    try:
        with opened(url, body, {"Content-Type": media} if media else {}, TIMEOUT_SECONDS) as answer:
            document = object_in(answer.read(MOST_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise _refusal(at, error) from None
    except UNREACHABLE as error:
        raise no_server(at, error) from None
    if document is None:
        raise no_server(at, "no JSON object of at most 64 MiB")
    return document


def _refusal(at: str, error: urllib.error.HTTPError) -> MemoryServiceError:
    with error:
        document = ours(error, object_in(error.read(MOST_ANSWER_BYTES)) or {})
    if 400 <= error.code < 500 and document:
        with suppress(AttributeError, TypeError):  # its errors are no list of objects
            return Refused(document, error.code)
    return Unavailable(f"{at} answered {error.code}")


class Reporter:
    """Sends the latest state without blocking; stops once `refused`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._latest: Latest[Mapping[str, Any]] = Latest(self._send, BETWEEN_SECONDS)
        self.refused: Refused | None = None

    def report(self, body: Mapping[str, Any]) -> None:
        """Send this soon, instead of what was not sent yet."""
        self._latest.put(body)

    def finish(self, body: Mapping[str, Any], within_seconds: float) -> dict[str, Any]:
        """Send the last state, retrying for `within_seconds`. Refused or Unavailable."""
        self._latest.close(TIMEOUT_SECONDS)
        until, pause = time.monotonic() + within_seconds, 0.5
        while True:
            try:
                return post(self._url, body)
            except Unavailable:
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, 2.0 * pause)

    def _send(self, body: Mapping[str, Any]) -> bool:
        try:
            post(self._url, body)
        except Refused as refusal:
            self.refused = refusal
        except Unavailable:
            pass  # the next state says all that this one did
        return self.refused is None


def ours(error: urllib.error.HTTPError, document: dict[str, Any]) -> dict[str, Any]:
    """The document where it is a problem document of a memory-service, else an empty one."""
    is_problem = error.headers.get_content_type() == PROBLEM
    return document if is_problem and str(document.get("type")).startswith(OUR_PROBLEMS) else {}


def object_in(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that a text is; None for anything else."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
