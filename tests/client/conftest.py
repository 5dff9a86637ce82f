"""A real service on a free port over a seeded SQLite database, and a small one that answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from memory_service.app import create_app
from memory_service.services.database.transactions import Database
from memory_service.services.runs.runs import run_page
from memory_service.settings import load_settings
from memory_service.store.queries import runs as run_store
from tests.conftest import Servers


@dataclass
class Service:
    """The service in this process."""

    database_url: str
    port: int = 0
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        app = create_app(load_settings(database_url=self.database_url, seed_on_start=False))
        config = uvicorn.Config(app, port=self.port, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        until = time.monotonic() + 120
        while not self._server.started:
            assert time.monotonic() < until
            time.sleep(0.02)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(60)

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """What the database has, in the order of seq."""
        database = Database(self.database_url)
        try:
            with database.read() as unit:
                rows = run_store.events_of(unit.session, run_id)
        finally:
            database.close()
        return [{"seq": seq, "kind": kind, **json.loads(body)} for seq, kind, body in rows]

    def page(self, run_id: str) -> dict[str, Any]:
        database = Database(self.database_url)
        try:
            return run_page(database, run_id)
        finally:
            database.close()


@pytest.fixture(scope="package")
def _service(servers: Servers) -> Iterator[Service]:
    url = servers.new("sqlite", "seeded")
    service = Service(url)
    service.start()
    yield service
    service.stop()
    servers.drop(url)


@pytest.fixture
def service(_service: Service, home: Path) -> Service:
    """The real service, running."""
    return _service


Answer = tuple[int, dict[str, str], Any]


@dataclass
class Scripted:
    """Takes what it is sent; `answer` may say otherwise: (path, body) -> (status, headers, body) or None."""

    answer: Callable[[str, dict[str, Any]], Answer | None] = lambda path, body: None
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    repeated: int = 0
    url: str = ""
    handler: type[BaseHTTPRequestHandler] = BaseHTTPRequestHandler
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen, on the port of before if there was one."""
        self._server = ThreadingHTTPServer(("127.0.0.1", int(self.url.rpartition(":")[2] or 0)), self.handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Nobody listens any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, path: str, body: dict[str, Any]) -> Answer:
        self.times.append(time.monotonic())
        told = self.answer(path, body)
        if told is not None:
            return told
        if path == "/runs":
            self.begun[body["run_id"]] = body
            return 201, {}, {"run_id": body["run_id"]}
        if path.endswith("/finish"):
            self.ends.append(body)
            return 200, {}, {"id": path.split("/")[2]}
        for event in body["events"]:
            self.repeated += event["seq"] in self.events
            self.events[event["seq"]] = event
        return 200, {}, {"accepted": len(body["events"]), "duplicates": 0, "verdict": VERDICT}


VERDICT = {
    "action": "raise_batch",
    "set": {"batch_size": 256},
    "why": "Fill is 34 %.",
    "rule": "R23",
    "severity": "warning",
    "eta_minutes": {"value": 3.0, "low": 2.5, "high": 4.0},
    "budget_used_percent": 10.0,
}


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.headers.append(dict(self.headers))
            status, headers, answer = script.take(self.path, body)
            if status >= 400 and "Content-Type" not in headers:
                headers = {**headers, "Content-Type": "application/problem+json"}
                answer = {"type": "urn:memory-service:problem:told", **answer}
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    script.handler = Handler
    script.start()
    yield script
    script.stop()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spools go into the test's own folder; nobody listens at the server that is set."""
    for name in ("MEMORY_API_KEY", "MEMORY_MODE", "MEMORY_SPOOL_MIB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMORY_FLUSH_SECONDS", "60")  # for a machine that stalls
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMORY_SERVER", "http://127.0.0.1:9")
    return tmp_path / "home"


def spools(home: Path) -> list[Path]:
    return sorted((home / "spool").glob("*"))
