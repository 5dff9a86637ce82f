"""Calibrating a device of this host, with what is measured stored as it comes.

One calibration at a time on a host: another device's waits its turn as `queued`. Progress and sections are
reported as they come; only the end raises the knowledge revision.
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
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

from memory_service import __version__
from memory_service.domain.calibration.calibration import CalibrationStatus, Fingerprint, Measurement
from memory_service.errors import Conflict, InvalidInput, MemoryServiceError, Unavailable
from memory_service.measure.calibrate import command
from memory_service.schemas.calibrations import section_measurement
from memory_service.services.database.latest_state import Latest
from memory_service.services.database.transactions import Database, WriteTransaction
from memory_service.services.devices import calibrations
from memory_service.services.devices.devices import host_name, keep_device
from memory_service.services.tables.audit import SERVICE, note
from memory_service.store.queries import calibrations as store
from memory_service.store.tables import devices as tables

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


_END_WITHIN_SECONDS = 60.0
_STOP_WITHIN_SECONDS = 8.0
_QUEUE_SECONDS = 2.0
_KEEP_SECONDS = 0.3

OnReport = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A calibration of a device of this host: `name` as it is registered, `word` as the host calls it."""

    name: str
    fingerprint: Fingerprint
    word: str
    budget_seconds: float
    force: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A calibration that has its row; `new`: its device was registered with it."""

    id: str
    wanted: Wanted
    status: CalibrationStatus
    new: bool


def begin(database: Database, wanted: Wanted, who: str | None = None) -> Begun:
    """Register the device of this host if need be and give its calibration a row.

    Conflict when one of it runs already, or the name is another device's; InvalidInput when its GPU model is
    not known.
    """
    calibrations.settle(database)
    key = uuid.uuid4().hex
    try:
        with database.write() as transaction:
            status, new = _add_row(transaction, key, wanted, who)
    except Conflict as refusal:
        if not refusal.errors:  # of two who began at once, the database refused the second: report the first
            with database.read() as reading:
                calibrations.refuse_second(reading, wanted.name, wanted.fingerprint.uuid, who)
        raise
    return Begun(key, wanted, status, new)


def _add_row(
    transaction: WriteTransaction, key: str, wanted: Wanted, who: str | None
) -> tuple[CalibrationStatus, bool]:
    name, fingerprint, budget = wanted.name, wanted.fingerprint, wanted.budget_seconds
    device, new = keep_device(
        transaction, name, fingerprint, word=wanted.word, host=host_name(), who=who, looked_at=True
    )
    calibrations.end_those_of_others(transaction, name, who)
    calibrations.refuse_second(transaction, name, fingerprint.uuid, who)
    status: CalibrationStatus = "running"
    if any(map(_runs_here, store.active(transaction.session))):
        status = "queued"
    calibrations.add_row(
        transaction, key, device, fingerprint, status=status, contended=False, budget_seconds=budget,
        origin="local", runner=calibrations.runner_here(), version=__version__, started_at=transaction.now,
        who=who,
    )  # fmt: skip
    note(transaction, "calibrations", key, "create", f"of {name}, begun", who=who)
    return status, new


def carry_out(
    database: Database, begun: Begun, *, stop: Stop | None = None, on_report: OnReport | None = None
) -> Report:
    """Measure to the end and keep everything; the last report. `on_report` gets each report."""
    # A disk that is slow to acknowledge must hold up neither the benchmark nor the watch over its time.
    storage: Latest[Report] = Latest(lambda report: _keep(database, begun.id, report), _KEEP_SECONDS)
    last = Report(status="failed", why="it never began")
    try:
        for report in _reports(database, begun, stop or Stop()):
            last = report
            if report.status == "running":
                storage.put(report.copy())
            if on_report is not None:
                on_report(report)
    finally:
        storage.close(_END_WITHIN_SECONDS)
    _keep_end(database, begun.id, last)
    return last


class Calibrating:
    """The calibrations that this process runs, each in a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: dict[threading.Thread, Stop] = {}

    def start(self, wanted: Wanted, who: str | None = None) -> Begun:
        """Begin (see `begin`); returns at once."""
        begun, stop = begin(self._database, wanted, who), Stop()
        name = f"calibration-{begun.id[:8]}"
        thread = threading.Thread(target=self._run, args=(begun, stop), name=name, daemon=True)
        self._jobs = {job: stops for job, stops in self._jobs.items() if job.is_alive()} | {thread: stop}
        thread.start()
        return begun

    def stop(self, why: str = "the server was stopped") -> None:
        """End all of them; what was measured is kept."""
        for stop in self._jobs.values():
            stop.now(why)
        for thread in self._jobs:
            thread.join(_STOP_WITHIN_SECONDS)

    def _run(self, begun: Begun, stop: Stop) -> None:
        try:
            carry_out(self._database, begun, stop=stop)
        except Exception as error:  # noqa: BLE001 - the thread has no caller: the row says what happened
            _log.exception("calibration %s ended by a fault", begun.id)
            fault = Report(status="failed", why=f"a fault of the service: {type(error).__name__}")
            _keep_end(self._database, begun.id, fault)


def _reports(database: Database, begun: Begun, stop: Stop) -> Iterator[Report]:
    """Those of the benchmark, once the calibrations that began before on this host have ended."""
    while begun.status == "queued" and _is_behind(database, begun.id):
        if stop.why is not None:
            yield Report(status="failed", why=stop.why)
            return
        _keep(database, begun.id, Report(status="queued"))
        time.sleep(_QUEUE_SECONDS)
    yield Report()
    wanted = begun.wanted
    kind, budget = wanted.fingerprint.kind, wanted.budget_seconds
    yield from benchmark(wanted.word, kind, budget, force=wanted.force, stop=stop)


def _is_behind(database: Database, key: str) -> bool:
    calibrations.settle(database)
    with database.read() as transaction:
        for row in store.active(transaction.session):
            if row.id == key:
                return False
            if _runs_here(row):
                return True
    return False


def _runs_here(row: tables.Calibration) -> bool:
    return row.runner is not None and row.runner.startswith(f"{host_name()}/")


def _keep(database: Database, key: str, report: Report) -> bool:
    """What was measured so far and a sign of life. If the database is busy, the next report is stored
    instead."""
    try:
        with database.write_untracked() as transaction:
            row = store.calibration(transaction.session, key, to_change=True)
            if row is not None and calibrations.may_go_on(row):
                _take_in(row, report)
                if row.status == "queued" != report.status:  # waiting is not measuring
                    row.started_at = transaction.now
                row.status, row.why, row.ended_at = report.status, None, None
                row.seconds, row.heartbeat_at = None, transaction.now
    except MemoryServiceError as error:
        _log.warning("progress of calibration %s was not kept: %s", key, error.detail)
    return True


def _keep_end(database: Database, key: str, report: Report) -> None:
    """The end, tried again while the database does not answer."""
    until = time.monotonic() + _END_WITHIN_SECONDS
    while True:
        try:
            check = calibrations.check_of(database, key, report.sections)
            with database.write() as transaction:
                row = store.calibration(transaction.session, key, to_change=True)
                if row is not None and calibrations.may_go_on(row):
                    _take_in(row, report)
                    calibrations.finish(
                        transaction, row, report.status, report.why, transaction.now, check, who=SERVICE
                    )
        except Unavailable as error:
            if time.monotonic() > until:
                _log.error("the end of calibration %s was not kept: %s", key, error.detail)
                return
            time.sleep(1.0)
        else:
            return


def _take_in(row: tables.Calibration, report: Report) -> None:
    row.sections = {name: found.as_dict() for name, found in report.sections.items()}
    row.missing, row.measured = dict(report.missing), len(report.sections)
    row.progress, row.doing = report.progress, report.doing
    row.contended = report.contended
