"""Ends a run that nobody finished: by an exception, a signal, or the end of the script."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Protocol

STATUSES = ("completed", "stopped", "out_of_memory", "timed_out", "crashed")

NO_MEMORY = (
    "out of memory", "outofmemory", "can't allocate memory", "cannot allocate memory", "bad_alloc",
    "status_alloc_failed", "resource exhausted: oom", "oom when allocating",
)  # fmt: skip
"""What torch (CUDA, MPS, processor), cuBLAS, cuDNN, boosted trees and TensorFlow say when memory is out."""


class Ending(Protocol):
    """What is known here of a run."""

    owner: int
    """The process that it belongs to."""

    def finish(self, status: str = ...) -> bool: ...
    def finish_by(self, error: BaseException | None) -> None: ...


def status_of(error: BaseException | None) -> str:
    """The status of a run that ended with this exception, or none."""
    if error is None or isinstance(error, GeneratorExit):
        return "completed"
    if isinstance(error, SystemExit):
        return "completed" if error.code in (None, 0) else "crashed"
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    return "out_of_memory" if _no_memory(error) else "crashed"


def _no_memory(error: BaseException) -> bool:
    """Whether the exception or one of its causes is out of memory."""
    cause: BaseException | None = error
    for _ in range(5):
        if cause is None:
            return False
        message = f"{type(cause).__name__}: {str(cause)[:2000]}".lower()
        if isinstance(cause, MemoryError) or any(words in message for words in NO_MEMORY):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


_running: set[Ending] = set()
_installed = False


def register(run: Ending) -> None:
    """End this run when the script exits or gets SIGTERM."""
    global _installed
    if not _running:
        with contextlib.suppress(ValueError, OSError):
            main = threading.current_thread() is threading.main_thread()
            if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _on_sigterm)
    _running.add(run)
    if not _installed:
        _installed = True
        atexit.register(_at_exit)


def unregister(run: Ending) -> None:
    _running.discard(run)
    if not _running:
        with contextlib.suppress(ValueError, OSError):
            if signal.getsignal(signal.SIGTERM) is _on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at_exit() -> None:
    """Finish open runs by the exception that ended the script, if any."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_running):
        run.finish_by(error)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Only where the script had no handler of its own; then end as if there were none."""
    del frame
    if os.getpid() in {run.owner for run in _running}:
        for run in list(_running):
            run.finish("stopped")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
