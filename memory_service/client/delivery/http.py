"""One HTTP request and its outcome: done, try again later, or refused for good; never an exception."""

import contextlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

NO_KEY = 401
"""Tried again with the key that is set by then: what was reported is worth more than a key that expired."""
CONNECT_S, READ_S = 3.0, 30.0
MOST_RETRY_AFTER_S = 300.0
_JSON_BODY = {"Content-Type": "application/json"}
LATER = (404, 405, 408, 425, 429)
"""Not now, or not this server yet: tried again, as every 5xx is (507: its disk is full)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """outcome: "done", "later" (with the seconds the server asked to wait, if it did) or "refused"."""

    outcome: Literal["done", "later", "refused"]
    status: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    retry_after: float | None = None
    text: str = ""
    reached: bool = True
    """False where nobody listened, or nobody may: then trying again at once is of no use."""


class Wire:
    """One kept connection to one server."""

    def __init__(self, server: str, key: str | None = None) -> None:
        self.server = server
        self._key = key
        self._client: Any = None

    def post(
        self, path: str, body: bytes, seconds: float = READ_S, accept: str = "application/json"
    ) -> Reply:
        """POST JSON; answers within `seconds` and the time to connect."""
        try:
            import httpx2

            if self._client is None:
                self._client = self._make_client(httpx2)
            limits = httpx2.Timeout(seconds, connect=min(CONNECT_S, seconds))
            answer = self._client.post(
                path, content=body, headers={**_JSON_BODY, "Accept": accept}, timeout=limits
            )
            status, content = answer.status_code, answer.content
            wait = _retry_seconds(answer.headers.get("Retry-After"))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the training goes on
            reached = type(error).__name__ not in ("ConnectError", "ConnectTimeout")
            return Reply("later", why=f"{type(error).__name__}: {error}"[:300], reached=reached)
        content_json = _json(content)
        if 200 <= status < 300:
            return Reply("done", status, content_json, text=content.decode("utf-8", "replace"))
        if status < 400:
            content = f"it redirects to {answer.headers.get('Location')}: set MEMORY_SERVER to that".encode()
        why = f"{status} {content_json.get('detail') or content[:200].decode('utf-8', 'replace')}"
        if status == NO_KEY:
            return Reply("later", status, content_json, f"{why} (MEMORY_API_KEY)", reached=False)
        if status >= 500 or status in LATER:
            return Reply("later", status, content_json, why, wait)
        return Reply("refused", status, content_json, why)

    def _make_client(self, httpx2: Any) -> Any:
        """Reading the certificates takes longer than everything else; without TLS they are not needed, and a
        redirect, which could lead to where they are, is not followed."""
        parts = urlsplit(self.server)
        tls = parts.scheme == "https"
        is_local = (parts.hostname or "").lower() in ("127.0.0.1", "localhost", "::1")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return httpx2.Client(
            base_url=self.server, headers=headers, trust_env=not is_local, follow_redirects=tls, verify=tls
        )

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # it is being given up
                client.close()


def _json(content: bytes) -> Mapping[str, Any]:
    try:
        content_json = json.loads(content)
    except ValueError:
        return {}
    return content_json if isinstance(content_json, dict) else {}


def _retry_seconds(header: str | None) -> float | None:
    """Seconds, or an HTTP date."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        import email.utils

        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), MOST_RETRY_AFTER_S)
