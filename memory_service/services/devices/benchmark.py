"""The timed benchmark, run on this host in a process of its own that cannot outlive its caller.

Its lines of JSON come in by a thread; whoever iterates gets a report whenever something was said, and every
few seconds besides, so that a heartbeat can be kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

from memory_service.domain.calibration.calibration import CalibrationStatus, Measurement
from memory_service.errors import InvalidInput
from memory_service.measure.calibrate import command
from memory_service.schemas.calibrations import section_measurement

PULSE_SECONDS = 3.0
"""The longest silence between two reports."""

LATEST = 1.1
"""Of the budget: then the benchmark is killed, whatever it is doing."""

_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 1.0
"""To end by itself after its input closed."""
_LONGEST_LINE = 1_000_000
_LONGEST_WHY = 300
_ENDS: Mapping[str, CalibrationStatus] = {"done": "done", "timed_out": "timed_out"}

_log = logging.getLogger(__name__)


@dataclass
class Report:
    """Where a benchmark stands. `status` is "running" until the last report."""

    sections: dict[str, Measurement] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    progress: float = 0.0
    doing: str | None = None
    contended: bool = False
    status: CalibrationStatus = "running"
    why: str | None = None
    self_check: Mapping[str, Any] | None = None
    seconds: float = 0.0

    def copy(self) -> Report:
        """As it is now, unchanged by what comes."""
        return replace(self, sections=dict(self.sections), missing=dict(self.missing))


class Stop:
    """A request to end early, with its reason."""

    def __init__(self) -> None:
        self.why: str | None = None

    def now(self, why: str) -> None:
        """Ask; the first reason holds."""
        self.why = self.why or why


def benchmark(
    word: str, kind: str, budget_seconds: float, *, force: bool = False, stop: Stop | None = None
) -> Iterator[Report]:
    """Run it; always the same report, growing, the last one ended ("done", "failed" or "timed_out")."""
    report, began, stop = Report(), time.monotonic(), stop or Stop()
    lines: queue.Queue[bytes | None] = queue.Queue()
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter and a device word that was checked
                command(word, budget_seconds, force=force),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,  # a Ctrl-C is for the caller, who ends it in order
            )
        except OSError as error:
            report.status, report.why = "failed", f"the benchmark could not be started: {error}"
            yield report
            return
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        reported = began
        try:
            while report.status == "running":
                news = _listen(lines, report, kind)
                report.seconds = round(now_after(began), 3)
                if news is None:
                    break
                if stop.why is not None:
                    report.status, report.why = "failed", stop.why
                elif report.seconds >= LATEST * budget_seconds:
                    report.status, report.why = "timed_out", _out_of_time(report, budget_seconds)
                if report.status == "running" and (news or now_after(reported) >= PULSE_SECONDS):
                    reported = time.monotonic()
                    yield report
        finally:
            _end(process, 0.0 if report.status == "timed_out" else _GRACE_SECONDS)
            reader.join(_GRACE_SECONDS)
        if report.status == "running":
            report.status, report.why = "failed", _died(process, complaints)
        report.doing = None
        yield report


def now_after(moment: float) -> float:
    """Seconds since."""
    return time.monotonic() - moment


def _read(stream: IO[bytes] | None, lines: queue.Queue[bytes | None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while stream is not None and (line := stream.readline(_LONGEST_LINE)):
            lines.put(line)
    lines.put(None)


def _listen(lines: queue.Queue[bytes | None], report: Report, kind: str) -> bool | None:
    """Take in what was said; False when nothing was, None when nothing more will be."""
    news = False
    with contextlib.suppress(queue.Empty):
        line = lines.get(timeout=_LOOK_SECONDS)
        while report.status == "running":
            if line is None:
                return None
            news = True
            _take(line, report, kind)
            line = lines.get_nowait()
    return news


def _take(line: bytes, report: Report, kind: str) -> None:
    try:
        message = json.loads(line)
        _apply(message["event"], message, report, kind)
    except (ValueError, TypeError, KeyError, AttributeError):
        _log.warning("the benchmark said what is no event: %r", line[:200])


def _apply(event: str, message: Mapping[str, Any], report: Report, kind: str) -> None:
    if event == "section":
        try:
            report.sections[message["name"]] = section_measurement(
                kind, message["name"], message["measurement"]
            )
        except InvalidInput as refusal:
            report.missing[message["name"]] = f"what was measured cannot be: {refusal.errors[0].message}"
    elif event == "missing":
        report.missing[message["name"]] = str(message["why"])[:_LONGEST_WHY]
    elif event == "progress":
        report.progress = min(1.0, max(0.0, message["done"] / max(message["of"], 1)))
        report.doing = str(message["doing"])[:_LONGEST_WHY]
    elif event == "contended":
        report.contended = True
    elif event == "end":
        ended: CalibrationStatus = _ENDS.get(message["status"], "failed")
        report.status, report.why = ended, message.get("why")
        report.self_check = message.get("self_check")
        report.progress = 1.0 if ended == "done" else report.progress


def _out_of_time(report: Report, budget_seconds: float) -> str:
    doing = f" while measuring {report.doing}" if report.doing else ""
    return f"the budget of {budget_seconds:g} s ended{doing}; {len(report.sections)} figures are kept"


def _died(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> str:
    complaints.seek(0)
    message = complaints.read()[-4_000:].decode("utf-8", "replace").strip().splitlines()
    code = process.returncode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    return f"the benchmark's process {how}" + (f": {message[-1][:_LONGEST_WHY]}" if message else "")


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Closing its input asks it to end; what is left of its group after that is killed."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
