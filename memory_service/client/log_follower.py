"""Follows a growing log file, of a command that it launches or of another process; lines become events, and
lines that are not understood are stored and counted.

A launched script writes to the log file itself, so that nothing here can hold it up or break its pipe: if
this process is killed, the training goes on.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_service.client.run import Run
from memory_service.domain.logs.parser import Context, ParsedEvent, notes_of, read_log

BLOCK_BYTES = 1 << 20
MAX_UNPARSED_CHARS = 256 * 1024
"""Of lines that are not understood; what goes beyond stays in the log alone, and is counted."""


LEAST_APART_SECONDS = 1.0
"""Lines that come closer together were written at once: they say nothing of the time between them."""


class LogReader:
    """Reads the text of one log, piece by piece, into a run's events."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._context = Context()
        self._unparsed_chars = 0
        self.lines = self.understood = self.clipped_chars = self.dropped_lines = 0
        self.out_of_memory = self.error = False
        self._last_epoch: tuple[int, int, float, bool] | None = None
        """Fold, number, moment of its first line, whether it came at once with the one before."""

    def read(
        self, piece: bytes, *, final: bool = False, at: Callable[[float | None], float] | None = None
    ) -> None:
        """The next piece, its lines that are not understood as notes; `at` gives when a line was written
        from its own clock (None: it has none)."""
        reading = read_log(piece, self._context, final=final)
        self._context = reading.context
        self.lines += reading.lines
        self.understood += reading.understood
        self.clipped_chars += reading.clipped
        for event in reading.events:
            self._send(event, at)
        kept: list[str] = []
        for line in reading.unrecognized:
            if self._unparsed_chars + len(line) > MAX_UNPARSED_CHARS:
                self.dropped_lines += 1
                continue
            kept.append(line)
            self._unparsed_chars += len(line) + 1
        for note in notes_of(kept):
            self._run.note(**note)

    @property
    def ended_as(self) -> str:
        """The status of a run known only by its log."""
        if self.out_of_memory or self.error:
            return "out_of_memory" if self.out_of_memory else "crashed"
        at, of = self._context.epoch, self._context.epochs
        return "stopped" if of and at is not None and at < of - 1 else "completed"

    def send_counts(self) -> None:
        """Send how much of the log was understood."""
        text = f"log: {self.lines} lines, {self.understood} understood"
        left_out = {"lines not passed on": self.dropped_lines, "characters clipped": self.clipped_chars}
        text += "".join(f", {number} {what}" for what, number in left_out.items() if number)
        self._run.note(text)

    def _send(self, event: ParsedEvent, at: Callable[[float | None], float] | None) -> None:
        self.out_of_memory |= event.fields.get("out_of_memory") is True
        self.error |= event.fields.get("error") is True
        moment = time.time() if at is None else at(event.clock)
        fields = event.fields if event.kind != "epoch" else self._timed(event.fields, moment)
        self._run.event(event.kind, fields, None if at is None else moment)

    def _timed(self, fields: Mapping[str, Any], at: float) -> Mapping[str, Any]:
        """Of an epoch whose line gives no time: the time since the one before came, where that came alone."""
        fold, epoch, last = fields.get("fold", 1), fields["epoch"], self._last_epoch
        if last is not None and last[:2] == (fold, epoch):
            return fields
        seconds = at - last[2] if last is not None and last[:2] == (fold, epoch - 1) else None
        together = seconds is not None and seconds < LEAST_APART_SECONDS
        self._last_epoch = (fold, epoch, at, together)
        if seconds is None or together or (last is not None and last[3]) or "seconds" in fields:
            return fields
        return {**fields, "seconds": round(seconds, 3)}


class LogTail:
    """New bytes of a file that is being written; a rotated or truncated file is read from its start."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path, self._at = path, start
        self._inode: int | None = None

    def read(self, most: int = BLOCK_BYTES) -> bytes:
        """What was added, at most `most` bytes; b"" for nothing, and while there is no such file."""
        try:
            with self._path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_size < self._at or self._inode not in (None, facts.st_ino):
                    self._at = 0
                self._inode = facts.st_ino
                file.seek(self._at)
                piece = file.read(most)
        except OSError:
            return b""
        self._at += len(piece)
        return piece


def follow(
    path: Path, run: Run, *, idle_seconds: float, stop: Callable[[], bool], every_seconds: float = 0.5
) -> LogReader:
    """Read a log that another process writes until `stop()` or `idle_seconds` without new bytes.

    Lines that were there before are dated by their own clocks, the last of them at the file's last change.
    """
    reader, tail = LogReader(run), LogTail(path)
    size, written = _facts(path)
    if size:
        at = _dated(path, size, written)
        for piece in _pieces(tail, size):
            reader.read(piece, at=at)
    idle_since = time.monotonic()
    while not stop():
        piece = tail.read()
        if piece:
            idle_since = time.monotonic()
            reader.read(piece)
            continue
        if time.monotonic() - idle_since >= idle_seconds:
            break
        time.sleep(every_seconds)
    reader.read(b"", final=True)
    reader.send_counts()
    return reader


def _pieces(tail: LogTail, size: int) -> Iterator[bytes]:
    while size > 0 and (piece := tail.read(min(size, BLOCK_BYTES))):
        size -= len(piece)
        yield piece


def _dated(path: Path, size: int, written: float) -> Callable[[float | None], float]:
    """When a line was written, from its clock without a zone: the last one stands for `written`."""
    clocks: list[float] = []
    context = Context()
    for piece in _pieces(LogTail(path), size):
        reading = read_log(piece, context)
        context = reading.context
        found = [event.clock for event in reading.events if event.clock is not None]
        clocks = [min(clocks + found), max(clocks + found)] if clocks + found else []
    if not clocks:
        return lambda _: written
    shift = written - clocks[1]
    latest = [clocks[0]]

    def at(clock: float | None) -> float:
        if clock is not None:
            latest[0] = clock
        return min(latest[0] + shift, written)

    return at


def _facts(path: Path) -> tuple[int, float]:
    """(bytes, seconds since 1970 of the last change); (0, now) while there is no such file."""
    try:
        facts = path.stat()
    except OSError:
        return 0, time.time()
    return facts.st_size, facts.st_mtime


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
            if not _copy(tail, reader, show=show) and ended:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
                ended = True
        code = process.returncode
    with contextlib.suppress(Exception):
        reader.read(b"", final=True)
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
