"""Work whose cost nobody can tell beforehand, done in child processes with limits of time and memory.

A child stays for the next call, and is killed where a call takes too long: no thread of the server is lost
to it, and Python's lock is held in the child alone. A child that nobody needed for a while ends by itself.
"""

import contextlib
import itertools
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from memory_service.errors import Unavailable

IDLE_SECONDS = 300.0
_MOST_CALLERS = 64

Result = TypeVar("Result")

ASIDE: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("aside", default=nullcontext)
"""What whoever waits for a child holds others may have meanwhile."""


class TooCostly(Exception):
    """The work was ended: it took too long, or too much memory."""


def _nobody() -> str | None:
    return None


class Workers:
    """Up to `processes` children; up to `waiting` calls wait for one, each for at most `seconds`. A call may
    take `seconds` and a child `mib` of memory of its own (where the system can limit it).

    `caller` names who calls, None where nobody can tell. Each takes one child at a time and half of the
    places to wait; who waits for the first time has a place, and of those who wait goes first whose latest
    turn is longest ago: however many fill all, another is next."""

    def __init__(
        self,
        about: str,
        *,
        processes: int,
        waiting: int,
        seconds: float,
        mib: int,
        caller: Callable[[], str | None] = _nobody,
    ) -> None:
        self.about, self.seconds, self.mib, self.caller = about, seconds, mib, caller
        self._most_waiting = waiting
        self._changed = threading.Condition()
        self._idle: list[_Child | None] = [None] * processes
        self._working: list[str] = []
        self._waiting: list[_Call] = []
        self._turns: dict[str, int] = {}
        self._turn = itertools.count(1)

    def run(self, function: Callable[..., Result], *args: Any, **named: Any) -> Result:
        """`function(...)`, with what it raises; both must be importable and picklable. Unavailable where too
        many wait; TooCostly where it was ended."""
        with ASIDE.get()():
            return self._run(function, args, named)

    def _run(self, function: Callable[..., Result], args: tuple[Any, ...], named: dict[str, Any]) -> Result:
        call = _Call(self.caller())
        child = self._take(call)
        try:
            child = child if child is not None and child.alive() else _Child(self.mib, self.seconds)
            result: Result = child.call(self.seconds, (function, args, named))
        except TooCostly:
            child = None
            raise
        finally:
            with self._changed:
                self._idle.append(child)
                if call.caller is not None:
                    self._working.remove(call.caller)
                self._changed.notify_all()
        return result

    def _take(self, call: "_Call") -> "_Child | None":
        """An idle child, the last used first; None in the place of one that is yet to be made."""
        with self._changed:
            if not self._may_begin(call):
                self._check_places(call)
                self._waiting.append(call)
                try:
                    if not self._changed.wait_for(lambda: self._may_begin(call), 2.0 * self.seconds):
                        raise Unavailable(f"{self.about} takes long for others; ask again in a moment")
                finally:
                    self._waiting.remove(call)
            if call.caller is not None:
                self._working.append(call.caller)
                self._turns.pop(call.caller, None)
                self._turns[call.caller] = next(self._turn)
                if len(self._turns) > _MOST_CALLERS:
                    del self._turns[next(iter(self._turns))]
            return self._idle.pop()

    def _may_begin(self, call: "_Call") -> bool:
        """Whether a child is there for it and nobody else who waits should have that."""
        if not self._idle or call.caller in self._working:
            return False
        ready = [each for each in self._waiting if each.caller not in self._working]
        return not ready or min(ready, key=lambda each: self._turns.get(each.caller or "", 0)) is call

    def _check_places(self, call: "_Call") -> None:
        own = sum(each.caller == call.caller is not None for each in self._waiting)
        first = call.caller is not None and not own and len(self._waiting) < _MOST_CALLERS
        if (len(self._waiting) >= self._most_waiting and not first) or (
            own and 2 * own >= self._most_waiting
        ):
            raise Unavailable(f"too many wait for {self.about}; ask again in a moment")


@dataclass(eq=False, slots=True)
class _Call:
    caller: str | None


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
