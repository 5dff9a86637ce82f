"""A request of Starlette's TestClient in one call of its loop: its own transport makes eighteen, to hand over
an answer piece by piece, which takes longer than most answers. Here the whole answer is read first."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import anyio
import httpx2

__all__ = ["handle_request"]

PORTS = {"http": 80, "https": 443}


async def _answered(app: Any, scope: dict[str, Any], body: bytes) -> tuple[dict[str, Any], Exception | None]:
    """(status_code, headers and content, as far as they came; what the application raised)."""
    got: dict[str, Any] = {"content": b""}
    over, parts = anyio.Event(), [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert "status_code" not in got, "answered twice"
            got["status_code"], got["headers"] = message["status"], message.get("headers", [])
        else:
            assert message["type"] == "http.response.body"
            assert "status_code" in got
            assert not over.is_set(), "more after the last piece"
            got["content"] += message.get("body", b"")
            if not message.get("more_body"):
                over.set()

    try:
        await app(scope, receive, send)
    except Exception as error:  # noqa: BLE001 - the client decides whether its test sees it
        return got, error
    return got, None


def handle_request(transport: Any, request: httpx2.Request) -> httpx2.Response:
    """Stands for `_TestClientTransport.handle_request`."""
    url = request.url
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": unquote(url.path),
        "raw_path": url.raw_path.partition(b"?")[0],
        "root_path": transport.root_path,
        "scheme": url.scheme,
        "query_string": url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": transport.client,
        "server": [url.host, url.port or PORTS[url.scheme]],
        "state": transport.app_state.copy(),
    }
    with transport.portal_factory() as portal:
        got, error = portal.call(_answered, transport.app, scope, request.read())
    if error is not None and transport.raise_server_exceptions:
        raise error
    if "status_code" not in got:
        assert not transport.raise_server_exceptions, "no answer"
        got = {"status_code": 500}
    if request.method == "HEAD":
        got["content"] = b""
    return httpx2.Response(**got, request=request)
