"""Time limits of a connection (head, body, slow readers) and the limit on open connections."""

import asyncio
import logging
import re
import socket
from collections import Counter
from collections.abc import Callable
from heapq import nsmallest
from time import monotonic
from typing import Any
from weakref import ref

import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from memory_service.api.request_middleware import with_safe_headers
from memory_service.api.security.rate_limits import network_of
from memory_service.api.time_and_load_limits import HUNG_UP, Limits
from memory_service.error_document import problem

_LOOKS_EVERY_SECONDS = 1.0
_PIECE_BYTES = 64 * 1024
_ANSWERED = "memory_service.answered"
_KEY = re.compile("msk_[0-9A-Za-z_]+")
MOST_FIELDS, MOST_PIPELINED = 200, 4
"""Header fields of a request; requests that are read before the first one is answered."""
FREE_CHUNKS, LEAST_OF_A_CHUNK = 256, 128
"""Behind so many chunks of a body their mean must be so many bytes: each costs the loop as much as 64 KiB."""
ROOM_SHARE = 32
"""Where connections are too many, one in so many is closed at a time."""
_SPARE_SECONDS = 5.0
"""The boundary refuses a late body first, as a document; what it does not read is cut off here."""


def server_of(
    app: Any, limits: Limits | None = None, stopping: Callable[[], None] | None = None, **options: Any
) -> uvicorn.Server:
    """A server of the application whose connections keep the limits. `stopping` is called when it was asked
    to stop, before it waits for the answers that are under way."""
    kept = limits or Limits()

    class Limited(Connection):
        limits = kept

    config = uvicorn.Config(
        in_pieces(app),
        http=Limited,
        ws="none",
        timeout_keep_alive=kept.keep_seconds,
        server_header=False,
        **options,
    )
    logging.getLogger("uvicorn.access").addFilter(_without_keys)
    for logger in ("uvicorn.error", "asyncio"):
        logging.getLogger(logger).addFilter(OneOfMany())
    return Server(config, stopping)


def in_pieces(app: Any) -> Any:
    """The application, whose long bodies are written as fast as they are read: of an answer that nobody reads
    the connection holds two pieces. It counts as answered before its last body is read."""

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        last: list[Any] = []

        async def pieces(message: Any) -> None:
            body = message["body"]
            for end in range(_PIECE_BYTES, len(body) + _PIECE_BYTES, _PIECE_BYTES):
                more = end < len(body) or message.get("more_body", False)
                await send({**message, "body": body[end - _PIECE_BYTES : end], "more_body": more})

        async def sent(message: Any) -> None:
            if len(message.get("body", b"")) <= _PIECE_BYTES:
                await send(message)
            elif message.get("more_body"):
                await pieces(message)
            else:
                last.append(message)

        async def rest() -> None:
            scope[_ANSWERED] = True
            for message in last:
                await pieces(message)

        try:
            await app(scope, receive, sent)
        except Exception:
            if last:  # what fails behind the answer takes none of it
                await rest()
            raise
        await rest()

    return answered


class Server(uvicorn.Server):
    """uvicorn's own notifies the application only when every answer has ended: one that goes on
    would never."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self.stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.stopping is not None:
            self.stopping()
        await super().shutdown(sockets)


class OneOfMany(logging.Filter):
    """Anybody can send what is no HTTP, or hang up, as often as they like: one line of the log in ten
    seconds."""

    _MESSAGES = ("Invalid HTTP request received.", "socket.send() raised exception.")
    _EVERY_SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._latest = dict.fromkeys(self._MESSAGES, -self._EVERY_SECONDS)

    def filter(self, record: logging.LogRecord) -> bool:
        now = monotonic()
        if now - self._latest.get(record.msg, -self._EVERY_SECONDS) < self._EVERY_SECONDS:
            return False
        if record.msg in self._latest:
            self._latest[record.msg] = now
        return True


def _without_keys(record: logging.LogRecord) -> bool:
    """A key that somebody put into a URL is not read, and need not be kept either."""
    if isinstance(record.args, tuple):
        record.args = tuple(_KEY.sub("msk_…", a) if isinstance(a, str) else a for a in record.args)
    return True


class Connection(HttpToolsProtocol):
    """uvicorn's own, which has no end for a head, for a body that nobody reads and for a reader, and takes
    heads of any length."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._since: float | None = self.loop.time()
        self._head = True
        self._bytes = 0
        self._left = 0
        self._read_at: float | None = None
        self._fields = self._chunks = self._of_body = 0
        super().connection_made(transport)
        self._look_again = self.loop.call_later(_LOOKS_EVERY_SECONDS, self._look)
        self._opened = self.loop.time()
        self._address = network_of(self.client[0] if self.client else "")
        if len(self.connections) > self.limits.connections and not self._make_room():
            self._refuse(503, "too-busy", f"{self.limits.connections} connections are open", b"2")

    def _make_room(self) -> bool:
        """Close some connections of the address that has most of them, unless enough are closing: the oldest
        on which nothing is asked, or the oldest whose body has not arrived, of which that address has more.
        Some: the search is made once for so many new ones."""
        known: set[Connection] = self.connections  # type: ignore[assignment]
        others = [one for one in known if one is not self and one._is_open]
        if len(others) < self.limits.connections:
            return True
        opened = Counter(one._address for one in others)
        waiting = [one for one in others if one._waits or one._lacks_body]
        if not waiting:
            return False
        kinds = Counter((one._address, one._waits) for one in waiting)

        def worth(one: Connection) -> tuple[float, ...]:
            return -opened[one._address], -kinds[one._address, one._waits], not one._waits, one._opened

        address = min(waiting, key=worth)._address
        oldest = nsmallest(max(1, len(others) // ROOM_SHARE), waiting, worth)
        for one in oldest:
            if one._address == address:
                one.transport.abort()  # `close` would wait for who does not read
        return True

    @property
    def _is_open(self) -> bool:
        return not self.transport.is_closing() or self.transport.get_write_buffer_size() > 0

    @property
    def _waits(self) -> bool:
        """No head is complete, and no answer is being given, but what is left to be read of one."""
        cycle: Any = self.cycle
        return self._head and (cycle is None or cycle.response_complete or _ANSWERED in cycle.scope)

    @property
    def _lacks_body(self) -> bool:
        """A head is complete, and its body is not."""
        return not self._head and self._since is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_again.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._since is None:
            self._since = self.loop.time()
        self._bytes += len(data)
        super().data_received(data)
        if self._bytes > self.limits.head_bytes and not self.transport.is_closing():
            self._refuse_head()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests before the answer of the first")
        self._since = self.loop.time()
        self._head = True
        self._fields = self._chunks = self._of_body = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            self._refuse(431, "head-too-large", f"There are over {MOST_FIELDS} header fields")
            raise ValueError("too many fields")  # the rest is not read
        if self._head:  # a field behind the body comes after a proxy and the authentication have looked
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = False
        if self._bytes > self.limits.head_bytes:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self.limits.head_bytes:
                self._refuse_head()
                return
        super().on_headers_complete()
        cycle = ref(self.cycle)  # it holds the scope
        scope: Any = self.scope
        scope[HUNG_UP] = lambda: (of := cycle()) is None or of.disconnected

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > FREE_CHUNKS and self._of_body < LEAST_OF_A_CHUNK * self._chunks:
            self._refuse(
                400, "malformed-request", f"The body comes in chunks of under {LEAST_OF_A_CHUNK} bytes"
            )
            raise ValueError("chunks too small")  # the rest is not read

    def on_body(self, body: bytes) -> None:
        self._bytes = 0  # of head, sizes of chunks and trailers since
        self._of_body += len(body)
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._since = None
        self._head = True
        self._bytes = 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Of those with an answer that nobody reads, as long as it is, only some are kept."""
        super().pause_writing()
        known: set[Connection] = self.connections  # type: ignore[assignment]
        unread = [one for one in known if one.flow.write_paused and one._is_open]
        of = Counter(one._address for one in unread)
        too_many = len(unread) - self.limits.unread
        for one in nsmallest(too_many, unread, lambda one: (-of[one._address], one._opened)):
            one.transport.abort()

    def resume_writing(self) -> None:
        self._read_at = None
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Anybody can ask for a WebSocket, as often as they like: no line of the log says so."""

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "malformed-request", msg)

    def _look(self) -> None:
        """Once a second: is anything overdue?"""
        now = self.loop.time()
        self._look_again = self.loop.call_later(_LOOKS_EVERY_SECONDS, self._look)
        if self._overdue_reader(now):
            self.transport.abort()
        elif self._since is not None and not self.transport.is_closing():
            waited = now - self._since
            if self._head and waited > self.limits.head_seconds:
                if self._bytes:
                    self._refuse(408, "request-timeout", "The request did not arrive in time")
                else:
                    self.transport.close()
            elif waited > self.limits.body_seconds + _SPARE_SECONDS:
                self.transport.abort()

    def _overdue_reader(self, now: float) -> bool:
        left = self.transport.get_write_buffer_size()
        if left == 0:
            self._read_at = None
        elif self._read_at is None or left <= self._left - _PIECE_BYTES:
            self._read_at, self._left = now, left
        return self._read_at is not None and now - self._read_at > self.limits.reader_seconds

    def _refuse_head(self) -> None:
        most = self.limits.head_bytes
        self._refuse(431, "head-too-large", f"Request line and headers are over the limit of {most} bytes")

    def _refuse(self, status: int, code: str, detail: str, retry_after: bytes = b"") -> None:
        """Answer here, since no application has been asked, and close. Where an answer is still being given,
        only close."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()
            return
        body = orjson.dumps(problem(code, "The request was refused", status, detail))
        headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
        headers += [(b"retry-after", retry_after)] if retry_after else []
        headers = with_safe_headers([*headers, (b"connection", b"close")], self.scheme or "http")
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()
