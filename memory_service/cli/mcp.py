"""`memory-service mcp`: the service as tools of an agent on this machine, over its standard input and
output."""

import base64
import json
import sys
import threading
import urllib.error
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, BinaryIO

from memory_service.cli.common.databases import DatabaseUrl
from memory_service.cli.common.remote import (
    MOST_ANSWER_BYTES,
    UNREACHABLE,
    ServerUrl,
    object_in,
    opened,
    ours,
    server_asked,
)
from memory_service.errors import InvalidInput, no_server


def mcp(database: DatabaseUrl = None, server: ServerUrl = None) -> None:
    """Speak MCP over stdio, for an agent that starts this command itself.

    With --server, or MEMORY_SERVER and no --database, it passes everything on to that server, and needs the
    light package alone.

    The embedded database is made, upgraded and seeded, as `serve` does it; stdout carries the protocol and
    nothing else, logs go to stderr. A running server offers the same over HTTP at /mcp.
    """
    from memory_service.cli.common.output import log_to_stderr, stderr

    if sys.stdin is None or sys.stdout is None:
        raise InvalidInput("MCP is spoken over standard input and output, and one of them is closed")
    if (asked := server_asked(server, database)) is not None:
        stderr.print(f"MCP of {asked}, passed on", highlight=False, markup=False)
        Relay(asked, sys.stdin.buffer, sys.stdout.buffer).run()
        return
    from memory_service.settings import load_settings

    settings = load_settings(database_url=database)
    log_to_stderr(settings.log_level)
    from memory_service.mcp.server import serve_stdio

    serve_stdio(settings)


_AT_ONCE = 8
_LONGEST_SECONDS = 300.0
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_NOT_JSON, _AWAY = -32700, -32000


class Relay:
    """Sends what `reading` says, line by line, and writes the answers to `writing` as they come."""

    def __init__(self, server: str, reading: Iterable[bytes], writing: BinaryIO) -> None:
        self._url, self._reading, self._writing = f"{server}/mcp", reading, writing
        self._headers: dict[str, str] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Until the input ends and what it asked is answered."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for line in filter(bytes.strip, self._reading):
                message = object_in(line)
                if message is None:
                    self._refuse({"id": None}, "This line is no message of MCP: no JSON object", _NOT_JSON)
                elif "id" in message and message.get("method") != "initialize":
                    pool.submit(self._answer, message)
                else:  # what comes next builds on it
                    self._answer(message)

    def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            for answer in self._asked(message):
                result = answer.get("result")
                if message.get("method") == "initialize" and isinstance(result, dict):
                    self._headers["MCP-Protocol-Version"] = str(result.get("protocolVersion"))
                self._write(answer)
        except urllib.error.HTTPError as error:
            with error:
                document = object_in(error.read(MOST_ANSWER_BYTES)) or {}
            detail = str(ours(error, document).get("detail") or f"{self._url} answered {error.code}")
            own = document.get("error") if "jsonrpc" in document else None
            self._refuse(message, detail + " (MEMORY_API_KEY)" * (error.code in (401, 403)), error=own)
        except UNREACHABLE as error:
            self._refuse(message, no_server(self._url, error).detail)

    def _asked(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        headers = _headers(message) | self._headers
        with opened(self._url, json.dumps(message).encode(), headers, _LONGEST_SECONDS) as reply:
            if session := reply.headers.get("Mcp-Session-Id"):
                self._headers["Mcp-Session-Id"] = session
            if reply.headers.get_content_type() == "text/event-stream":
                yield from _events(reply)
            elif body := reply.read(MOST_ANSWER_BYTES).strip():
                yield _message(body)

    def _refuse(self, message: Mapping[str, Any], detail: str, code: int = _AWAY, error: Any = None) -> None:
        if "id" in message:  # a notification has no answer
            error = error or {"code": code, "message": detail}
            self._write({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _write(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._writing.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
            self._writing.flush()


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Those that repeat what a message says, as the newer protocol wants it."""
    method, params = message.get("method"), message.get("params") or {}
    repeated = {"Mcp-Method": method, "Mcp-Name": params.get(_NAMED.get(str(method)))}
    repeated["MCP-Protocol-Version"] = (params.get("_meta") or {}).get(_VERSION)
    out = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for name, value in repeated.items():
        if isinstance(value, str):
            plain = value.isascii() and value.isprintable() and value == value.strip()
            out[name] = value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="
    return out


def _message(raw: bytes) -> dict[str, Any]:
    message = object_in(raw)
    if message is None:
        raise ValueError("its answer is no message of MCP")
    return message


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The messages of a stream of server-sent events."""
    data: list[bytes] = []
    for line in chain(lines, (b"",)):
        if line.startswith(b"data:"):
            data.append(line[5:])
        elif data and not line.strip():
            yield _message(b"".join(data))
            data = []
