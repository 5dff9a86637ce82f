"""Calibrating a device of this host, with what is measured stored as it comes.

One calibration at a time on a host: another device's waits its turn as `queued`. Progress and sections are
reported as they come; only the end raises the knowledge revision.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memory_service import __version__
from memory_service.domain.calibration.calibration import CalibrationStatus, Fingerprint
from memory_service.errors import Conflict, MemoryServiceError, Unavailable
from memory_service.services.database.latest_state import Latest
from memory_service.services.database.transactions import Database, WriteTransaction
from memory_service.services.devices import calibrations
from memory_service.services.devices.benchmark import Report, Stop, benchmark
from memory_service.services.devices.devices import host_name, keep_device
from memory_service.services.tables.audit import SERVICE, note
from memory_service.store.queries import calibrations as store
from memory_service.store.tables import devices as tables

_END_WITHIN_SECONDS = 60.0
_STOP_WITHIN_SECONDS = 8.0
_QUEUE_SECONDS = 2.0
_KEEP_SECONDS = 0.3

OnReport = Callable[[Report], None]

_log = logging.getLogger(__name__)


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
