"""Page of one run with its curves, verdicts and comparison."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.pages.run_list import MOST_MARKS, best_of_epochs, silent_minutes, took_so_far
from memory_service.services.planning.recommend import cached_plan
from memory_service.services.runs.outcome_evidence import metric_direction
from memory_service.services.runs.runs import run_page
from memory_service.services.tables.file_formats import TableExport
from memory_service.services.tables.table_rows import on_the_wire
from memory_service.store.engine import read_object
from memory_service.store.queries import runs

MOST_RAW = 2_000
"""Latest events that are read for the curves of memory: a page costs the same after a million."""

MOST_POINTS = 400


def one_run_page(database: Database, knowledge: Knowledge, run_id: str, now: dt.datetime) -> dict[str, Any]:
    """`GET /runs/{run_id}` with `curves`, `remarks`, `card`, `timetable` (of its plan, where that is kept),
    `took_minutes`, `silent_minutes`, `best_so_far` and `latest_metric` (of its epochs, else of the fits that
    its remarks score); NotFound.

    curves    `{"card": [{"minute", "driver_gib", "process_gib", "utilization_percent"}], "epochs": [...],
              "steps": [{"minute", "samples_per_second", "loader_wait_percent"}]}`: samples of the card are at
              most `MOST_POINTS` of the latest `MOST_RAW` events; epochs with `minute`, `fold`, losses, metric
              and peaks; steps are averages of epochs, then of ten seconds of the latest minutes
    remarks   notes and lines of the log that were not understood, oldest first:
              `{"minute", "text", "metric"}`
    card      `{"memory_gib", "usable_gib"}` of the card, None where it is not known
    """
    page = run_page(database, run_id)
    start = dt.datetime.fromisoformat(page["started_at"])
    with database.read() as transaction:
        raw = runs.latest_events(transaction.session, page["id"], MOST_RAW)[::-1]
        marks = runs.latest_events(transaction.session, page["id"], MOST_MARKS, marks=True)[::-1]
        run = runs.find(transaction.session, page["id"])
        direction = metric_direction(transaction, run, page["outcome"] or {}) if run else None
    plan = cached_plan(database, page["plan_id"]) if page["plan_id"] else None
    card = knowledge.gpus.get(page["device"]) or knowledge.gpus.get(page["gpu"])
    samples = [
        {"minute": minute, **{name: body.get(field) for name, field in _OF_CARD.items()}}
        for minute, kind, body in _parsed(raw, start)
        if kind == "gpu"
    ]
    epochs = [
        {"minute": _minute(epoch["at"], start) if epoch.get("at") else None, **epoch}
        for epoch in (page["outcome"] or {}).get("epochs", ())
    ]
    remarks = [
        {
            "minute": minute,
            "text": str(body.get("text") or body.get("message") or ""),
            "metric": body.get("metric"),
        }
        for minute, kind, body in _parsed(marks, start)
        if kind == "note"
    ]
    told = [each for each in epochs or remarks if each.get("metric") is not None]
    return on_the_wire(
        {
            **page,
            "took_minutes": took_so_far(page, (page["watch"] or {}).get("used_minutes"), now),
            "best_so_far": best_of_epochs(told, direction),
            "latest_metric": told[-1]["metric"] if told else None,
            "curves": {
                "card": _thinned(samples),
                "epochs": epochs,
                "steps": _steps(epochs, (page["watch"] or {}).get("stretches") or ()),
            },
            "remarks": [remark for remark in remarks if remark["text"]],
            "card": {"memory_gib": card.memory_gib, "usable_gib": card.usable_gib} if card else None,
            "silent_minutes": silent_minutes(page, raw[-1][2] if raw else None, now),
            "timetable": (plan or {}).get("timetable") or [],
        }
    )


def epochs_table(database: Database, requested: Mapping[str, str]) -> TableExport:
    """Epochs that are kept of the run `run_id`, one a row. NotFound."""
    page = run_page(database, requested["run_id"])
    epochs = (page["outcome"] or {}).get("epochs", ())
    rows = [{"run_id": page["id"], **epoch} for epoch in epochs]
    columns: dict[str, type[Any]] = {"run_id": str}
    for row in rows:
        columns |= {name: _KINDS.get(name, float) for name in row if name not in columns}
    return TableExport(columns, partial(iter, [rows]))


_KINDS: Mapping[str, type[Any]] = {
    **dict.fromkeys(("fold", "epoch", "batch_size", "samples", "steps"), int),
    **dict.fromkeys(("at", "metric_name"), str),
}

_OF_CARD = {
    "driver_gib": "used_gib", "process_gib": "process_gib", "utilization_percent": "utilization_percent"
}  # fmt: skip


def _steps(
    epochs: Sequence[Mapping[str, Any]], stretches: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Speed and waiting from the beginning on: epochs without validation, then stretches."""
    names = ("samples_per_second", "loader_wait_percent")
    latest = [
        {"minute": round(each["at_seconds"] / 60, 3), **{name: each[name] for name in names}}
        for each in stretches
        if any(each[name] is not None for name in names)
    ]
    before = latest[0]["minute"] if latest else float("inf")
    earlier = [
        {
            "minute": each["minute"],
            "samples_per_second": each["samples"] / seconds if each.get("samples") and seconds > 0 else None,
            "loader_wait_percent": each.get("loader_wait_percent"),
        }
        for each in epochs
        for seconds in [(each.get("seconds") or 0.0) - (each.get("valid_seconds") or 0.0)]
        if each["minute"] is not None and each["minute"] < before
    ]
    return sorted(earlier, key=lambda each: each["minute"]) + latest


def _parsed(
    events: Iterable[tuple[int, str, str]], start: dt.datetime
) -> Iterable[tuple[float, str, dict[str, Any]]]:
    for _, kind, text in events:
        if body := read_object(text):
            yield _minute(body["at"], start), kind, body


def _minute(at: str, start: dt.datetime) -> float:
    """Since the run began."""
    return round((dt.datetime.fromisoformat(at) - start).total_seconds() / 60, 3)


def _thinned(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `MOST_POINTS`, of each bucket the one where most memory is used: a peak is never left out."""
    if len(points) <= MOST_POINTS:
        return list(points)
    width = -(-len(points) // MOST_POINTS)
    buckets = (points[at : at + width] for at in range(0, len(points), width))
    return [max(bucket, key=lambda p: p["driver_gib"] or p["process_gib"] or 0.0) for bucket in buckets]
