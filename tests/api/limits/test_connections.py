"""Does one caller's too much, too deep or too slow cost the others little, and is it refused as described?"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPResponse

import anyio
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.connection import Connection, in_pieces, server_of
from memory_service.api.error_handlers import install
from memory_service.api.fair_share import FairShare
from memory_service.api.metrics import Metrics
from memory_service.api.request_middleware import Boundary
from memory_service.api.time_and_load_limits import HUNG_UP, Limits
from tests.conftest import free_port

SHORT = Limits(
    head_seconds=1.0, body_seconds=1.5, answer_seconds=60.0, reader_seconds=5.0, keep_seconds=3,
    head_bytes=20_000, connections=20, requests=3,
)  # fmt: skip
LONG = b"x" * 2**23
SAFE = {
    "x-content-type-options", "x-frame-options", "content-security-policy", "referrer-policy",
    "cache-control", "cross-origin-opener-policy", "cross-origin-resource-policy", "permissions-policy",
}  # fmt: skip


@dataclass(frozen=True)
class Listening:
    """A small application behind the real boundary and the real connections, with short limits."""

    port: int
    metrics: Metrics
    gate: threading.Event
    bytes_in_progress: Callable[[], int]
    requests_in_progress: Callable[[], int]

    @contextmanager
    def socket(self, said: bytes = b"") -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.sendall(said)
            yield sock


@pytest.fixture(scope="module")
def listening() -> Iterator[Listening]:
    with listening_with(SHORT) as made:
        yield made


def long_answers(app: FastAPI) -> None:
    """At once, when ten have asked, or in blocks."""

    @app.get("/long")
    def long() -> Response:
        return Response(LONG)

    came, all_came = list[int](), asyncio.Event()

    @app.get("/together")
    async def together() -> Response:
        came.append(1)
        if len(came) == 10:
            all_came.set()
        await all_came.wait()
        return Response(LONG)

    @app.get("/blocks")
    def blocks() -> Response:
        return StreamingResponse(LONG[: 2**21] for _ in range(4))


@contextmanager
def listening_with(limits: Limits, longest_body: int = 4 * 2**20) -> Iterator[Listening]:
    app, metrics, gate = FastAPI(openapi_url=None), Metrics(), threading.Event()
    install(app)

    @app.post("/takes")
    async def takes(request: Request) -> Response:
        return Response(str(len(await request.body())))

    @app.post("/heads")
    async def heads(request: Request) -> Response:
        await request.body()
        return Response(",".join(sorted(request.headers)))

    @app.get("/quick")
    def quick() -> Response:
        return Response("here")

    @app.get("/waits")
    def waits() -> Response:
        gate.wait(120)
        return Response("at last")

    @app.get("/streams")
    def streams() -> Response:
        return StreamingResponse(b"x" * 65_536 for _ in range(200))

    long_answers(app)

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("alive")

    shares: list[FairShare] = []

    def boundary(inner: ASGIApp) -> ASGIApp:
        shares.append(FairShare(inner, limits, longest_body))

        async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":  # as the authentication leaves it
                key = dict(scope["headers"]).get(b"x-key", b"").decode()
                scope["state"] |= {"key_id": key, "scopes": {"admin"}}
            await shares[-1](scope, receive, send)

        return Boundary(keyed, metrics=metrics, limits=limits)

    app.add_middleware(boundary)
    server = server_of(app, limits, port=0, log_level="critical")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield Listening(
        server.servers[0].sockets[0].getsockname()[1], metrics, gate, shares[-1].bytes.total,
        shares[-1].requests.total,
    )  # fmt: skip
    server.should_exit = server.force_exit = True
    thread.join(20)


def test_of_a_caller_who_hung_up_the_application_is_told():
    asked, told = threading.Event(), list[bool]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        hung_up = scope[HUNG_UP]
        told.append(hung_up())
        asked.set()
        for _ in range(1_000):
            if hung_up():
                break
            await anyio.sleep(0.01)
        told.append(hung_up())

    port = free_port()
    server = server_of(app, port=port, log_level="error", lifespan="off")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert asked.wait(60)
    wait_for(lambda: len(told) == 2)
    server.should_exit = True
    thread.join(60)
    assert told == [False, True]


def answer(sock: socket.socket, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """What the server says on this connection."""
    response = HTTPResponse(sock, method=method)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, response.read()


def until_closed(sock: socket.socket) -> bytes:
    """All that still comes."""
    pieces = []
    with suppress(ConnectionResetError):
        while piece := sock.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)


def rest_of(sock: socket.socket) -> int:
    """Bytes of `LONG` that still come."""
    size = 0
    with suppress(ConnectionResetError):
        while size < len(LONG) - 1 and (piece := sock.recv(65_536)):
            size += len(piece)
    return size


def wait_for(true: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def code(body: bytes) -> str:
    return str(json.loads(body)["type"]).rpartition(":")[2]


def test_a_body_that_trickles_in_is_refused_in_time_and_the_next_is_served(listening: Listening):
    began = time.monotonic()
    with listening.socket(b"POST /takes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n") as sock:
        sock.settimeout(0.3)
        told = b""
        while not told and time.monotonic() - began < 60:
            with suppress(TimeoutError):
                sock.sendall(b"x")
                told = sock.recv(65_536)
        sock.settimeout(60)
        told += until_closed(sock)
    assert 1.4 < time.monotonic() - began < 60
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()
    assert code(body) == "request-timeout"
    with listening.socket(b"POST /takes HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc") as sock:
        assert answer(sock)[::2] == (200, b"3")


@pytest.mark.parametrize(
    "trickled",
    [b"GET /quick HTTP/1.1\r\nHost: x\r\nX-A: ", b"", b"GET /quick?"],
    ids=["headers", "nothing", "line"],
)
def test_a_head_that_trickles_in_is_cut_off(listening: Listening, trickled: bytes):
    began = time.monotonic()
    with listening.socket(trickled) as sock:
        sock.settimeout(0.3)
        told = b""
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() - began < 60:
                if trickled:
                    sock.sendall(b"x")
                with suppress(TimeoutError):
                    piece = sock.recv(65_536)
                    told += piece
                    if not piece:
                        break
    assert 0.9 < time.monotonic() - began < 60
    assert told.startswith(b"HTTP/1.1 408 ") if trickled else told == b""


def test_a_body_that_nobody_reads_does_not_hold_a_connection(listening: Listening):
    """A GET is answered at once; what then trickles in restarts uvicorn's own timer with every byte."""
    with listening.socket(b"GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n") as sock:
        assert answer(sock)[0] == 200
        began = time.monotonic()
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() - began < 60:
                sock.sendall(b"x")
                time.sleep(0.2)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "head", [b"GET /quick?" + b"q" * 21_000 + b" HTTP/1.1\r\n", b"GET /quick HTTP/1.1\r\n"]
)
def test_a_head_over_the_limit_is_refused(listening: Listening, head: bytes):
    many = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 30) for n in range(700))
    with listening.socket(head + b"Host: x\r\n" + many + b"\r\n") as sock:
        status, headers, body = answer(sock)
    assert (status, code(body)) == (431, "head-too-large")
    assert headers.keys() >= SAFE


def test_a_head_of_very_many_fields_is_refused(listening: Listening):
    with listening.socket(b"GET /quick HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 3_000 + b"\r\n") as sock:
        status, _, body = answer(sock)
    assert (status, code(body)) == (431, "head-too-large")


def test_requests_that_are_sent_before_any_answer_are_bounded(listening: Listening):
    asked = b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /quick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    def answers(number: int) -> int:
        with listening.socket(number * asked + last) as sock:
            pieces = list[bytes]()
            with suppress(ConnectionResetError):
                pieces.extend(iter(lambda: sock.recv(2**16), b""))
        return b"".join(pieces).count(b"HTTP/1.1 200 OK")

    assert answers(3) == 4
    assert answers(2_000) < 50


IN_CHUNKS = b"POST /heads HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_fields_behind_a_body_are_no_headers(listening: Listening):
    """A key, an origin, an address there would come after everybody has looked."""
    with listening.socket(IN_CHUNKS + b"1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n") as sock:
        assert answer(sock)[::2] == (200, b"host,transfer-encoding")


@pytest.mark.parametrize("piece", [b"X-T: x\r\n", b"1;" + b"x" * 8], ids=["trailers", "size of a chunk"])
def test_what_is_neither_head_nor_body_is_bounded_too(listening: Listening, piece: bytes):
    with listening.socket(IN_CHUNKS + (b"0\r\n" if piece[:1] == b"X" else b"")) as sock:
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(100):
                sock.sendall(piece * 1_000)
        told = until_closed(sock)
    assert told.split(b" ", 2)[1:2] not in ([b"200"], [b"408"]), "cut off by its size, not by the time"


@pytest.mark.parametrize(("size", "taken"), [(1, False), (64, False), (4_096, True)])
def test_a_body_in_very_small_chunks_is_cut_off(listening: Listening, size: int, taken: bool):
    head = b"POST /takes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
    with listening.socket(head + 300 * chunk) as sock:
        with suppress(OSError):
            sock.sendall(b"0\r\n\r\n")
        assert (b"200 OK" in until_closed(sock)) == taken


def test_what_is_no_http_is_refused_as_a_document(listening: Listening):
    with listening.socket(b"\x16\x03\x01 this is no HTTP\r\n\r\n") as sock:
        status, headers, body = answer(sock)
    assert (status, code(body)) == (400, "malformed-request")
    assert headers.keys() >= SAFE


def test_a_reader_that_does_not_read_is_cut_off_and_one_that_does_gets_all(listening: Listening):
    with listening.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.sendall(b"GET /streams HTTP/1.1\r\nHost: x\r\n\r\n")
        slow = HTTPConnection("127.0.0.1", listening.port, timeout=60)
        slow.request("GET", "/streams")
        response, size = slow.getresponse(), 0
        while piece := response.read(2**20):
            size += len(piece)
            time.sleep(0.2)
        assert size == 200 * 65_536
        slow.close()
        wait_for(lambda: b'route="/streams",status="200"} 2.0' in listening.metrics.exposition(None, "ready"))


def test_requests_over_the_limit_are_told_to_come_back_and_the_others_are_served(listening: Listening):
    listening.gate.clear()

    def ask(_: int) -> tuple[int, str | None]:
        connection = HTTPConnection("127.0.0.1", listening.port, timeout=60)
        connection.request("GET", "/waits")
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, response.headers["Retry-After"]

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, n) for n in range(8)]
        while sum(future.done() for future in asked) < 5:
            time.sleep(0.01)
        listening.gate.set()
        told = sorted(future.result() for future in asked)
    assert [status for status, _ in told] == [200] * 3 + [503] * 5
    assert all(after is not None for status, after in told if status == 503)


def test_an_answer_that_takes_too_long_ends_as_one_that_may_be_asked_again():
    began = time.monotonic()
    with (
        listening_with(replace(SHORT, answer_seconds=1.0)) as listening,
        listening.socket(b"GET /waits HTTP/1.1\r\nHost: x\r\n\r\n") as sock,
    ):
        status, headers, body = answer(sock)
        listening.gate.set()
    assert (status, code(body)) == (503, "too-slow")
    assert "retry-after" in headers
    assert time.monotonic() - began > 0.9


def test_bodies_in_progress_have_a_budget_and_one_key_a_quarter_of_it():
    limits = replace(Limits(), body_bytes=40_000)
    whole = b"POST /takes HTTP/1.1\r\nHost: x\r\nX-Key: %s\r\nContent-Length: 10000\r\n\r\n"

    def status_of(listening: Listening, key: bytes) -> int:
        with listening.socket(whole % key + b"x" * 10_000) as sock:
            return answer(sock)[0]

    with listening_with(limits, longest_body=8_000) as listening, ExitStack() as stack:
        for _ in range(1):
            stack.enter_context(listening.socket(whole % b"one" + b"x" * 9_000))
        wait_for(lambda: listening.bytes_in_progress() >= 8_000)
        assert status_of(listening, b"one") == 503
        assert status_of(listening, b"two") == 200
        for key in (b"two", b"three", b"four", b"five"):
            stack.enter_context(listening.socket(whole % key + b"x" * 9_000))
        wait_for(lambda: listening.bytes_in_progress() >= 40_000)
        assert status_of(listening, b"six") == 503
        stack.close()
        wait_for(lambda: listening.bytes_in_progress() == 0)
        assert status_of(listening, b"one") == 200


def test_who_holds_all_connections_and_says_nothing_makes_room(listening: Listening):
    time.sleep(0.2)  # those of the tests before have ended
    silent = [socket.create_connection(("127.0.0.1", listening.port), timeout=60) for _ in range(20)]
    asking = [b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n" for _ in range(5)]
    with ThreadPoolExecutor(3) as pool:  # as many requests as may be in progress

        def ask(said: bytes) -> int:
            with listening.socket(said) as sock:
                return answer(sock)[0]

        assert list(pool.map(ask, asking)) == [200] * 5
    assert until_closed(silent[0]) == b"", "the oldest went first"
    for sock in silent:
        sock.close()


def test_the_address_with_most_connections_makes_room_first(listening: Listening):
    time.sleep(0.2)
    other = socket.create_connection(
        ("127.0.0.1", listening.port), timeout=60, source_address=("127.0.0.2", 0)
    )
    many = [socket.create_connection(("127.0.0.1", listening.port), timeout=60) for _ in range(22)]
    assert until_closed(many[0]) == b""
    other.sendall(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer(other)[0] == 200
    for sock in (other, *many):
        sock.close()


def test_a_withheld_body_takes_no_turn_and_makes_room(listening: Listening):
    time.sleep(0.2)  # those of the tests before have ended
    withheld = b"POST /takes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"
    opened = [socket.create_connection(("127.0.0.1", listening.port), timeout=60) for _ in range(20)]
    for sock in opened:
        sock.sendall(withheld)
    time.sleep(0.3)  # their heads are read: seven times as many as may be in progress
    for _ in range(5):
        with listening.socket(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n") as sock:
            assert answer(sock)[0] == 200
    assert until_closed(opened[0]) == b"", "the oldest went first"
    opened[-1].sendall(b"y" * 9)
    assert answer(opened[-1])[0] == 200, "a body that arrives is taken"
    for sock in opened:
        sock.close()


def test_withheld_bodies_make_room_before_a_connection_that_is_kept_open(
    listening: Listening,
):
    withheld = b"POST /takes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"
    with ExitStack() as stack:
        kept = HTTPConnection("127.0.0.1", listening.port, timeout=60)
        stack.callback(kept.close)
        kept.request("GET", "/quick")
        assert kept.getresponse().read() == b"here"
        sock = kept.sock
        for _ in range(SHORT.connections + 3):
            stack.enter_context(listening.socket(withheld))
        kept.request("GET", "/quick")
        assert kept.getresponse().read() == b"here"
        assert kept.sock is sock, "the same connection"


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (replace(SHORT, unread=6), b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n"),
        (replace(SHORT, connections=6), b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n"),
        (replace(SHORT, connections=6), b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ],
    ids=["unread", "over the limit of connections", "asked to be closed"],
)
def test_of_answers_that_nobody_reads_only_some_are_kept(limits: Limits, asked: bytes):
    with listening_with(replace(limits, reader_seconds=600.0)) as listening, ExitStack() as stack:
        opened = []
        for _ in range(10):
            opened.append(sock := socket.socket())
            stack.callback(sock.close)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sock.settimeout(60)
            sock.connect(("127.0.0.1", listening.port))
            sock.sendall(asked)
            head = b""
            while not head.endswith(b"\r\n\r\nx"):  # its body is being sent
                head += sock.recv(1)
        for sock in opened:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        whole = [rest_of(sock) == len(LONG) - 1 for sock in opened]
    assert 4 <= sum(whole) <= 7
    assert not whole[0], "the oldest goes first"
    assert whole[-1]


def test_of_answers_that_begin_at_once_no_more_are_kept():
    limits = replace(SHORT, unread=6, requests=20, reader_seconds=600.0)
    with listening_with(limits) as listening, ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(10)]
        for sock in opened:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sock.settimeout(60)
            sock.connect(("127.0.0.1", listening.port))
            sock.sendall(b"GET /together HTTP/1.1\r\nHost: x\r\n\r\n")
        assert opened[-1].recv(1) == b"H"
        wait_for(lambda: listening.requests_in_progress() == 0)
        for sock in opened:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        whole = [rest_of(sock) >= len(LONG) - 1 for sock in opened]
    assert sum(whole) == 6


@pytest.mark.parametrize("path", ["/long", "/blocks"])
def test_of_an_answer_that_nobody_reads_a_connection_holds_little_and_a_reader_gets_all(
    path: str, monkeypatch: pytest.MonkeyPatch
):
    left: list[int] = []
    pause = Connection.pause_writing

    def paused(connection: Connection) -> None:
        pause(connection)
        left.append(connection.transport.get_write_buffer_size())

    monkeypatch.setattr(Connection, "pause_writing", paused)
    with listening_with(replace(SHORT, reader_seconds=600.0)) as listening, listening.socket() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        wait_for(lambda: bool(left))
        assert answer(sock)[2] == LONG
    assert max(left) < 200_000


def test_what_fails_behind_a_long_answer_takes_none_of_it():
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": LONG})
        raise OSError

    async def keep(message: Message) -> None:
        sent.append(message)

    with pytest.raises(OSError):
        anyio.run(in_pieces(app), {}, None, keep)
    assert b"".join(message["body"] for message in sent) == LONG
    assert not sent[-1]["more_body"]


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
def test_who_asks_for_another_protocol_gets_the_answer_and_no_line_of_the_log(
    listening: Listening, upgrade: str, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "warning", said.append)
    asked = f"GET /quick HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n"
    with listening.socket(asked.encode()) as sock:
        assert answer(sock)[2] == b"here"
    assert said == []


def test_one_caller_leaves_requests_to_others_and_health_is_always_answered():
    limits = replace(Limits(), requests=4, requests_of_one=2)
    waits = b"GET /waits HTTP/1.1\r\nHost: x\r\nX-Key: %s\r\n\r\n"

    with listening_with(limits) as listening, ExitStack() as stack:

        def status_of(path: bytes, key: bytes) -> int:
            with listening.socket(b"GET %s HTTP/1.1\r\nHost: x\r\nX-Key: %s\r\n\r\n" % (path, key)) as sock:
                return answer(sock)[0]

        for _ in range(2):
            stack.enter_context(listening.socket(waits % b"one"))
        wait_for(lambda: listening.requests_in_progress() == 2)
        assert status_of(b"/quick", b"one") == 503
        assert status_of(b"/quick", b"two") == 200
        for _ in range(2):
            stack.enter_context(listening.socket(waits % b"two"))
        wait_for(lambda: listening.requests_in_progress() == 4)
        assert status_of(b"/quick", b"three") == 503
        assert status_of(b"/healthz", b"three") == 200
        listening.gate.set()
        wait_for(lambda: listening.requests_in_progress() == 0)
        assert status_of(b"/quick", b"one") == 200


def test_connections_over_the_limit_are_refused_while_all_are_being_answered():
    asked = b"GET /waits HTTP/1.1\r\nHost: x\r\n\r\n"
    with listening_with(replace(SHORT, requests=20)) as listening:
        opened = [socket.create_connection(("127.0.0.1", listening.port), timeout=60) for _ in range(20)]
        for sock in opened:
            sock.sendall(asked)
        wait_for(lambda: listening.requests_in_progress() == 20)
        more = [socket.create_connection(("127.0.0.1", listening.port), timeout=60) for _ in range(3)]
        refused = [text for text in (until_closed(sock) for sock in more) if text]
        listening.gate.set()
        for sock in (*opened, *more):
            sock.close()
        served_again(listening)
    assert len(refused) == 3
    for text in refused:
        head, _, body = text.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert code(body) == "too-busy"
        assert b"retry-after" in head.lower()


def served_again(listening: Listening) -> None:
    for _ in range(100):
        with listening.socket(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n") as sock:
            if answer(sock)[0] == 200:
                return
        time.sleep(0.05)
    pytest.fail("it never served again")


def test_a_caller_who_hangs_up_is_no_failure_of_the_service(listening: Listening):
    with listening.socket(b"POST /takes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nxx"):
        pass
    wait_for(lambda: b'status="499"' in listening.metrics.exposition(None, "ready"))
    assert b'status="500"' not in listening.metrics.exposition(None, "ready")


def test_the_limits_leave_room_for_what_is_promised():
    limits = Limits()
    assert limits.requests > limits.requests_of_one >= 200  # docs/methods/performance.md: 200 clients at once
    assert limits.connections > limits.requests
    assert replace(limits, keep_seconds=5).keep_seconds < limits.keep_seconds
