"""Several server processes behind one address, forked from one that has loaded everything."""

import contextlib
import ctypes
import errno
import gc
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from urllib.request import urlopen

from memory_service.cli.common.remote import UNREACHABLE
from memory_service.errors import Conflict, Unavailable

_log = logging.getLogger(__name__)

_PARENT_DEATH_SIGNAL = 1
"""Of Linux's prctl: a process whose parent was killed does not stay behind."""

_LOOK_SECONDS = 2.0
_SHORT_LIFE_SECONDS = 5.0
"""A process that ends sooner is not replaced at once."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that keeps an address which several processes may listen on; it does not listen itself. The
    system spreads connections over the processes. OSError where another program has the address."""
    if port:  # refused where another server has the address, which SO_REUSEPORT hides
        _at(host, port, socket.SO_REUSEADDR).close()
    return _at(host, port, socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def require_free(host: str, port: int) -> None:
    """Unavailable, with what to do, where nobody can listen on the address: before anything is loaded."""
    try:
        _at(host, port, socket.SO_REUSEADDR).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Unavailable(f"Cannot listen on {host}:{port}: {error.strerror}") from None
        there = f"Another program listens on {host}:{port}:"
        with contextlib.suppress(KeyError, TypeError, *UNREACHABLE):
            with urlopen(f"http://{host}:{port}/healthz", timeout=_LOOK_SECONDS) as answer:
                version = json.loads(answer.read())["version"]
            there = f"memory-service {version} runs already: open http://{host}:{port}, or"
        raise Conflict(f"{there} take another port (--port 8001, make serve PORT=8001)") from None


def _at(host: str, port: int, *options: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    own = socket.socket(family, kind, protocol)
    try:
        for option in options:
            own.setsockopt(socket.SOL_SOCKET, option, 1)
        own.bind(address)
    except OSError:
        own.close()
        raise
    return own


def run_workers(count: int, address: socket.socket, work: Callable[[int, socket.socket], None]) -> None:
    """Run so many processes until this one is signum to stop; one that dies is replaced.

    work   called in each process with its number, 0 first, and a socket of its own; the process ends with it
    """
    gc.collect()
    gc.freeze()  # a collection would write to the pages of every object, and share none of them any more
    numbers: dict[int, int] = {}
    since: dict[int, float] = {}
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for pid in numbers:
            os.kill(pid, signal.SIGTERM)

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    host, port = address.getsockname()[:2]
    missing = list(range(count))
    while numbers or not stopping:
        while missing and not stopping:
            number = missing.pop(0)
            pid = os.fork()
            if pid == 0:
                _become(number, host, port, work)
            numbers[pid], since[number] = number, time.monotonic()
        pid, status = os.wait()
        number = numbers.pop(pid)
        if not stopping:
            _log.error("server process %d ended by itself (%d); another one takes its place", number, status)
            if time.monotonic() - since[number] < _SHORT_LIFE_SECONDS:
                time.sleep(_SHORT_LIFE_SECONDS)
            missing.append(number)


def _become(number: int, host: str, port: int, work: Callable[[int, socket.socket], None]) -> None:
    """In the new process; never returns."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    code = 1
    try:
        with _at(host, port, socket.SO_REUSEADDR, socket.SO_REUSEPORT) as own:
            work(number, own)
        code = 0
    except BaseException:  # noqa: BLE001 - it is in the log; nothing of the parent may run here
        _log.exception("server process %d", number)
    finally:
        logging.shutdown()
        os._exit(code)
