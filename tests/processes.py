"""Processes of their own for tests, forked from one that has imported what they run: a new one imports for
two to four seconds of a processor. tests/cli and tests/mcp start `python -m memory_service` itself."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

__all__ = ["PROCESSES", "Command"]

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["memory_service.app", "memory_service.cli", "tests.store.test_crash", "tests.store.test_migrations"]
)


class Command:
    """`memory-service *words` in a process of its own; what it says goes into `log`. before: Python text that
    is run in it first."""

    def __init__(self, *words: str, log: Path, before: str = "", **setting: str) -> None:
        self._process = PROCESSES.Process(target=_run, args=(words, os.environ | setting, str(log), before))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        ended = self._process.exitcode
        assert ended is not None, f"it goes on after {seconds} s"
        return ended

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def _run(words: tuple[str, ...], environment: Mapping[str, str], log: str, before: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    faulthandler.enable()  # SIGABRT: where its threads are
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(before, {"__name__": "before"})
    sys.argv = ["memory-service", *words]
    from memory_service.cli import main

    main()
