"""How is a script run, killed and told of? `Forks` by the fork server, `plainly` by `python` itself."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.scripts.harness import fork_server

LIMIT_SECONDS = 120

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_THREAD_LIMIT"),
    "1",
)
"""The limit holds for boosted trees, too, which ask for every core: waiting threads spin."""


@dataclass(frozen=True)
class Ended:
    """status: the exit code, negative for a signal; seconds: from the start, without the server's imports;
    cpu_seconds: of processor time, with its loaders' workers."""

    status: int
    seconds: float
    log: str
    cpu_seconds: float = 0.0


Looks = tuple[Callable[[], bool], Callable[[], object]]


@contextlib.contextmanager
def standing_still(group: int) -> Iterator[None]:
    """A process group, of which the first process has stopped when this begins."""
    with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):  # it has ended just now
        os.killpg(group, signal.SIGSTOP)
        first = psutil.Process(group)
        while first.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(0.0002)
    yield
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGCONT)


class Forks:
    """The server starts at `start` or the first run; `close` ends it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._unread = b""

    def run(
        self,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str],
        before: str = "",
        kill_after: float | None = None,
        kill_when: Callable[[], bool] | None = None,
        looks: Looks | None = None,
        limit: int = LIMIT_SECONDS,
    ) -> Ended:
        """`python train.py *arguments` in `folder`, its output in `log.txt` there.

        before              Python text that is run in the child first: how a fault is put in
        kill_after, _when   SIGKILL to the whole process group, after so many seconds or when it says so
        looks               (when, look): whenever `when` says so, all processes stand still for `look`
        """
        log = folder / "log.txt"
        asked = {
            "script": str(folder / "train.py"),
            "arguments": arguments,
            "folder": str(folder),
            "environment": _environment(environment),
            "log": str(log),
            "before": before,
            "limit_seconds": limit + 30,
        }
        try:
            ended, answer, seconds = self._asked(asked, kill_after, kill_when, looks, limit)
        except BaseException:
            self._abandon()  # an answer that comes later is none of the next run's
            raise
        text = log.read_text("utf-8", "replace") if log.exists() else ""
        assert ended or kill_after is not None or kill_when is not None, (
            f"no end in {limit} s:\n{text[-4000:]}"
        )
        return Ended(answer["status"], seconds, text, answer["cpu_seconds"])

    def _asked(
        self,
        request: Mapping[str, Any],
        kill_after: float | None,
        kill_when: Callable[[], bool] | None,
        looks: Looks | None,
        limit: int,
    ) -> tuple[bool, dict[str, Any], float]:
        """(whether it ended by itself, the server's answer, seconds)."""
        pid = self._ask(request)
        started = time.monotonic()
        ended = False
        if looks is not None:
            when, look = looks
            while not (ended := self._readable(0.001)):
                if when():
                    with standing_still(pid):
                        look()
        elif kill_when is not None:
            while not ended and not kill_when():
                ended = self._readable(0.001)
        elif kill_after is not None:
            ended = self._readable(max(0.0, kill_after - (time.monotonic() - started)))
        else:
            ended = self._readable(limit)
        if not ended:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                os.killpg(pid, signal.SIGKILL)
        answer = self._answer(60)
        return ended, answer, time.monotonic() - started

    def _abandon(self) -> None:
        self.close()
        self._server, self._ready, self._unread = None, False, b""

    def close(self) -> None:
        if self._server is not None:
            with self._server:
                self._server.kill()  # a loader's worker of a failed test may keep its input open

    def start(self) -> None:
        """Begin to import; the first run waits for it."""
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", fork_server.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=os.environ | ONE_THREAD | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            )

    def _ask(self, request: Mapping[str, Any]) -> int:
        """The process id of the child."""
        self.start()
        if not self._ready:
            assert self._answer(300)["threads"] == 1
            self._ready = True
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        return int(self._answer(60)["pid"])

    def _readable(self, seconds: float) -> bool:
        """Whether a whole answer arrives within this time."""
        assert self._server is not None
        assert self._server.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._server.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, until - time.monotonic())):
                    return False
                piece = os.read(self._server.stdout.fileno(), 65536)
                assert piece, "the fork server died"
                self._unread += piece
        return True

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._readable(seconds), "the fork server does not answer"
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def plainly(
    folder: Path, *arguments: str, environment: Mapping[str, str], limit: int = 3 * LIMIT_SECONDS
) -> Ended:
    """`python train.py *arguments` as an agent starts it."""
    started = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        status = subprocess.run(
            [sys.executable, "train.py", *arguments],
            cwd=folder,
            env=_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=limit,
        ).returncode
    return Ended(status, time.monotonic() - started, (folder / "log.txt").read_text("utf-8", "replace"))


KEPT: Sequence[str] = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    return {**kept, **ONE_THREAD, **quiet, **own}
