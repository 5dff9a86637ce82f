"""What a run that goes on has done so far, at bounded work."""

from dataclasses import asdict
from typing import Any

from memory_service.domain.monitoring.summary import KIB_PER_GIB, Summary
from memory_service.domain.runs.run_outcome import Peaks
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.runs.observations import read_outcome
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

ALL_READ = 3_000
"""Events of a run that are all read: some 15 ms."""

SAMPLES_READ, MARKS_READ = 1_000, 2_500
"""Of a longer one the latest samples, and the latest epochs, folds and notes."""


def outcome_so_far(transaction: ReadTransaction, run: Run, summary: Summary) -> dict[str, Any]:
    """The wire form of `domain.runs.run_outcome`. Of a run with more than `ALL_READ` events, `device`
    is of
    its latest samples, and epochs before the latest `MARKS_READ` are counted, not shown."""
    if summary.events <= ALL_READ or sum(summary.counts.values()) != summary.events:
        return read_outcome(transaction, run).as_dict()
    marks = runs.latest_events(transaction.session, run.id, MARKS_READ, marks=True)
    samples = runs.latest_events(transaction.session, run.id, SAMPLES_READ)
    reported = {one[0]: one for one in (*samples, *marks)}
    outcome = read_outcome(transaction, run, reported.values())
    shown = outcome.as_dict()
    done = shown["epochs_done"] if len(marks) < MARKS_READ else summary.counts.get("epoch", 0)
    driver = _gib(summary, "driver") if summary.shared_us is None else None
    peaks = outcome.peak | Peaks(_gib(summary, "peak_allocated"), _gib(summary, "reserved"), driver)
    return shown | {
        "epochs_done": done,
        "epochs_left_out": done - len(shown["epochs"]),
        "peak_memory_gib": asdict(peaks),
        "events": dict(sorted(summary.counts.items())),
        "last_event_after_seconds": summary.last_us / 1e6,
    }


def _gib(summary: Summary, kind: str) -> float | None:
    kib = summary.peaks.get(kind)
    return None if kib is None else kib / KIB_PER_GIB
