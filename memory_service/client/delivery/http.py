"""One HTTP request and its outcome: done, try again later, or refused for good; never an exception.

Only a problem document of this service refuses for good: a proxy on the way answers for itself.
"""

import contextlib
import importlib
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

NO_KEY = 401
"""Tried again with the key that is set by then: what was reported is worth more than a key that expired."""
CONNECT_S, READ_S = 3.0, 30.0
MOST_RETRY_AFTER_S = 300.0
MOST_ANSWER_BYTES = 2**20
PROBLEM, OUR_PROBLEMS = "application/problem+json", "urn:memory-service:problem:"
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
LATER = (404, 405, 408, 425, 429)
"""Not now, or not this server yet: tried again, as every 5xx is (507: its disk is full)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """outcome: "done", "later" (with the seconds the server asked to wait, if it did) or "refused".

    status   0 where no answer of this service came
    """

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

    def __init__(self, server: str, key: str | None = None, trace: Mapping[str, str] | None = None) -> None:
        """trace: headers of `trace_headers`, sent with every request."""
        self.server = server
        self._key = key
        self._trace = trace or {}
        self._client: Any = None
        self._socket: Any = None

    def post(
        self, path: str, body: bytes, seconds: float = READ_S, accept: str = "application/json"
    ) -> Reply:
        """POST JSON; answers within `seconds` and the time to connect."""
        cut = threading.Timer(CONNECT_S + seconds, self._cut)  # a server may drip headers for ever
        cut.daemon = True
        try:
            cut.start()
            import httpx2

            if self._client is None:
                self._client = self._make_client(httpx2)
            limits = httpx2.Timeout(seconds, connect=min(CONNECT_S, seconds))
            until = time.monotonic() + CONNECT_S + seconds
            wanted = {**_HEADERS, "Accept": accept}
            more = {"headers": wanted, "timeout": limits, "extensions": {"trace": self._traced}}
            sent = self._client.stream("POST", path, content=body, **more)
            with sent as answer:
                status, headers, content = answer.status_code, answer.headers, b""
                for piece in answer.iter_raw():
                    content += piece
                    if len(content) > MOST_ANSWER_BYTES or time.monotonic() > until:
                        return Reply("later", why="its answer is too long or takes too long")
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the training goes on
            reached = type(error).__name__ not in ("ConnectError", "ConnectTimeout")
            return Reply("later", why=f"{type(error).__name__}: {error}"[:300], reached=reached)
        finally:
            cut.cancel()
        content_json, wait = _json(content), _retry_seconds(headers.get("Retry-After"))
        if 200 <= status < 300:
            text = content.decode("utf-8", "replace")
            return Reply("done", status, content_json, one_line(text), text=text)
        if status < 400:
            content = f"it redirects to {headers.get('Location')}: set MEMORY_SERVER to that".encode()
        why = one_line(f"{status} {content_json.get('detail') or content[:600].decode('utf-8', 'replace')}")
        if status == NO_KEY:
            return Reply("later", status, content_json, f"{why} (MEMORY_API_KEY)", reached=False)
        ours = headers.get("Content-Type", "").startswith(PROBLEM)
        ours = ours and str(content_json.get("type")).startswith(OUR_PROBLEMS)
        if not ours:
            return Reply("later", why=f"{why} (not an answer of a memory-service)", retry_after=wait)
        if status >= 500 or status in LATER:
            return Reply("later", status, content_json, why, wait)
        return Reply("refused", status, content_json, why)

    def _traced(self, name: str, info: Mapping[str, Any]) -> None:
        """Keep the socket of the connection, as httpx tells of each of its steps."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")

    def _cut(self) -> None:
        """End what waits at the connection."""
        with contextlib.suppress(Exception):  # it is closed already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _make_client(self, httpx2: Any) -> Any:
        """Reading the certificates takes longer than everything else; without TLS they are not needed, and a
        redirect, which could lead to where they are, is not followed."""
        parts = urlsplit(self.server)
        tls = parts.scheme == "https"
        is_local = (parts.hostname or "").lower() in ("127.0.0.1", "localhost", "::1")
        headers = dict(self._trace)
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return httpx2.Client(
            base_url=self.server, headers=headers, trust_env=not is_local, follow_redirects=tls, verify=tls
        )

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # it is being given up
                client.close()


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the OpenTelemetry context that is active in this thread; empty
    without one. A process that did not import OpenTelemetry has none, and does not import it here."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        with contextlib.suppress(Exception):  # never the training's problem
            module = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
            module.TraceContextTextMapPropagator().inject(headers)
    return headers


def one_line(text: str, most: int = 300) -> str:
    """What a server said, fit for a log: one line without signs that steer a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text[: 4 * most].split()))[:most]


def _json(content: bytes) -> Mapping[str, Any]:
    try:
        content_json = json.loads(content)
    except (ValueError, RecursionError):
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


Door = Callable[[str, Mapping[str, Any] | None], Mapping[str, Any]]
"""POST of a body to a path of the service, GET where there is none; its answer, or MemoryServiceError."""
