"""Launches a command with its output in a log file, follows the log, samples its process tree, and ends as it
ended.

The script writes to the log file itself, so that nothing here can hold it up or break its pipe: if this
process is killed, the training goes on.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memory_service.client.log_follower import LogReader, LogTail
from memory_service.client.run import Run

LOOK_EVERY_S = 0.2
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def launch(
    command: Sequence[str], log: Path, begin: Callable[[int], Run], *, show: bool = True
) -> tuple[int, LogReader, Run]:
    """Run a command to its end; (exit code, the log's reader, the run); 128 + N where signal N ended it.

    begin   makes the run from the process id. show: copy the output to stdout
    OSError where the command cannot be started or the log cannot be written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": os.environ.get("PYTHONUNBUFFERED") or "1"}
    with log.open("ab") as out:
        start = out.tell()
        process = subprocess.Popen(  # noqa: S603 - the command is what the caller came to run
            list(command), stdout=out, stderr=subprocess.STDOUT, env=environment
        )
    with _forwarding(process):
        run = begin(process.pid)
        reader, tail = LogReader(run), LogTail(log, start)
        ended = False
        while True:
            if _copy(tail, reader, show=show):
                reader.send_unparsed()
            elif ended:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
                ended = True
        code = process.returncode
    with contextlib.suppress(Exception):
        reader.read(b"", final=True)
        reader.send_unparsed()
        reader.send_counts()
        run.finish(ended_as(code, reader))
    return (code if code >= 0 else 128 - code), reader, run


def ended_as(code: int, reader: LogReader) -> str:
    """The status of a run whose process ended with this code (negative: by a signal)."""
    if code == 0:
        return "completed"
    if reader.out_of_memory:
        return "out_of_memory"
    if -code in FORWARDED or code - 128 in FORWARDED:
        return "stopped"
    return "timed_out" if code == 124 else "crashed"  # 124: coreutils' timeout


def _copy(tail: LogTail, reader: LogReader, *, show: bool) -> bool:
    """Whether there was something new."""
    piece = tail.read()
    if not piece:
        return False
    if show:
        try:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        except (OSError, ValueError):
            _mute()
    with contextlib.suppress(Exception):
        reader.read(piece)
    return True


def _mute() -> None:
    """Nobody reads the output any more (`| head`): writing to it must not change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Passes signals on to the process. A terminal's Ctrl-C reaches it anyway."""
    before: dict[int, Any] = {}

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            if number != signal.SIGINT or sys.stdin is None or not sys.stdin.isatty():
                process.send_signal(number)

    for number in FORWARDED:
        with contextlib.suppress(ValueError):  # not in the main thread
            before[number] = signal.signal(number, pass_on)
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
