"""Commands that ask or tell a server on another host; its problem documents become errors here."""

import http.client
import importlib.util
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from memory_service.client.config import DEFAULT_SERVER, api_key
from memory_service.errors import Refused, Unavailable, wrong_value
from memory_service.services.database.latest_state import Latest

TIMEOUT_SECONDS = 15.0
BETWEEN_SECONDS = 1.0
"""At most so often: sections of small devices come by the dozen."""

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
        metavar="URL",
        help="Ask this server instead of a database here; without the server's parts MEMORY_SERVER.",
    ),
]


def server_asked(given: str | None) -> str | None:
    """The server to ask; None where the answer is made here. An installation without the server's parts asks
    MEMORY_SERVER."""
    if given is None and importlib.util.find_spec("sqlalchemy") is None:
        given = os.environ.get("MEMORY_SERVER") or DEFAULT_SERVER
    return None if given is None else checked_url(given)


def get(server: str, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The server's JSON answer to a question; errors as of `post`."""
    return _sent(urllib.request.Request(f"{server}{path}?{urlencode(fields)}"), f"{server}{path}")  # noqa: S310


def post(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The server's JSON answer. Refused with its words, Unavailable when it cannot be reached or fails."""
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    return _sent(request, url)


def _sent(request: urllib.request.Request, url: str) -> dict[str, Any]:
    key = api_key(os.environ)
    if key is not None:  # never to where it redirects
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            document = _problem(error.read())
        if 400 <= error.code < 500 and document is not None:
            raise Refused(document, error.code) from None
        raise Unavailable(f"{url} answered {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(f"{url} does not answer as a memory-service: {error}") from None


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


def _problem(raw: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(raw)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
