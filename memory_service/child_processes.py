"""Work whose cost nobody can tell beforehand, done in child processes with limits of time and memory.

A child stays for the next call, and is killed where a call takes too long: no thread of the server is lost
to it, and Python's lock is held in the child alone. A child that nobody needed for a while ends by itself.
"""

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import Empty, LifoQueue
from typing import Any, TypeVar

from memory_service.errors import Unavailable

IDLE_SECONDS = 300.0

Result = TypeVar("Result")


class TooCostly(Exception):
    """The work was ended: it took too long, or too much memory."""


class Workers:
    """Up to `processes` children; up to `waiting` calls wait for one, each for at most `seconds`. A call may
    take `seconds` and a child `mib` of memory of its own (where the system can limit it)."""

    def __init__(self, about: str, *, processes: int, waiting: int, seconds: float, mib: int) -> None:
        self.about, self.seconds, self.mib = about, seconds, mib
        self._places = threading.BoundedSemaphore(processes + waiting)
        self._children: LifoQueue[_Child | None] = LifoQueue()
        for _ in range(processes):
            self._children.put(None)

    def run(self, function: Callable[..., Result], *args: Any, **named: Any) -> Result:
        """`function(...)`, with what it raises; both must be importable and picklable. Unavailable where too
        many wait; TooCostly where it was ended."""
        if not self._places.acquire(blocking=False):
            raise Unavailable(f"too many wait for {self.about}; ask again in a moment")
        try:
            try:
                child = self._children.get(timeout=self.seconds)
            except Empty:
                raise Unavailable(f"{self.about} takes long for others; ask again in a moment") from None
            try:
                child = child if child is not None and child.alive() else _Child(self.mib, self.seconds)
                result: Result = child.call(self.seconds, (function, args, named))
            except TooCostly:
                child = None
                raise
            finally:
                self._children.put(child)
            return result
        finally:
            self._places.release()


class _Child:
    def __init__(self, mib: int, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, mib, seconds), daemon=True)
        self._process.start()
        other.close()

    def alive(self) -> bool:
        """Whether it waits for work; one that ended by itself is buried."""
        if self._process.is_alive() and not self._pipe.closed and not self._pipe.poll():
            return True
        self._end()
        return False

    def call(self, seconds: float, work: Any) -> Any:
        try:
            self._pipe.send(work)
            answer: tuple[bool, Any] | None = self._pipe.recv() if self._pipe.poll(seconds) else None
        except (EOFError, OSError):
            self._end()
            raise TooCostly("took more memory or time than a process may") from None
        except BaseException:  # whoever asked gives up: no answer of this call may reach the next one
            self._end()
            raise
        if answer is None:
            self._end()
            raise TooCostly(f"took over {seconds:g} s")
        good, result = answer
        if not good:
            if isinstance(result, MemoryError):
                self._end()
                raise TooCostly("took more memory than a process may")
            raise result
        return result

    def _end(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, mib: int, seconds: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    os.nice(10)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (mib * 2**20, mib * 2**20))
    with contextlib.suppress(EOFError, OSError):
        while pipe.poll(IDLE_SECONDS):
            function, args, named = pipe.recv()
            _limit_processor(4 * seconds)
            try:
                answer: tuple[bool, Any] = True, function(*args, **named)
            except Exception as error:  # noqa: BLE001 - raised again where it was asked for
                answer = False, error
            pipe.send(answer)


def _limit_processor(seconds: float) -> None:
    """The parent ends it long before; this is for a child whose parent was killed."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
