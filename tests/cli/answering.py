"""A server that answers as a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, str, bytes]
"""Status, media type and body."""


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def answering(
    answer: Callable[[Asked], Answer], headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[Asked]]]:
    """The URL of a server on a free port of loopback, and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(
                Asked(self.path, {name.title(): value for name, value in self.headers.items()}, body)
            )
            status, media, said = answer(asked[-1])
            self.send_response(status)
            for name, value in {
                **(headers or {}),
                "Content-Type": media,
                "Content-Length": str(len(said)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()
