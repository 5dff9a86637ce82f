"""Pages of runs: the list, last week's minutes, and one run with its curves, verdicts and comparison."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from memory_service.domain.monitoring.clock import silent_seconds
from memory_service.domain.runs.wasted_minutes import PARTS
from memory_service.errors import unknown_name
from memory_service.schemas import runs as requests
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.runs.runs import run_page
from memory_service.services.tables.file_formats import TableExport
from memory_service.services.tables.table_rows import list_requested, on_the_wire
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs

STATUSES = ("running", *requests.STATUSES)

WEEK_DAYS = 7
MOST_OF_WEEK = 1_000
"""Latest runs that the panel of last week sums up: it is read with every page of the list."""

MOST_RAW = 2_000
"""Latest events that are read for the curves of memory: a page costs the same after a million."""

MOST_POINTS = 400
MOST_MARKS = 300


MINUTES_BY = ("cause", "day", "gpu", "competition")
"""What last week's minutes are split by; the first is the usual one."""

SILENT_MINUTES = 5.0
"""A running run without an event for so long has no signal: scripts report at least each minute."""

_MOST_GROUPS = 8


def runs_page(database: Database, requested: Mapping[str, str], now: dt.datetime) -> dict[str, Any]:
    """`{"items", "next", "week", "live"}`: rows with `verdict` (the last one, None before the first),
    `took_minutes`, `silent_minutes` (of a running one without a signal, else None), `metric` and
    `metric_direction` (of its competition).

    week   of the latest runs begun since midnight (UTC) seven days ago that ended: `{"since", "runs",
           "minutes", "useful", "by", "groups"}`; groups: `[{"name", "runs", "minutes", "wasted": {part:
           minutes}}]` by cause, day, gpu or competition (`by=` of the query), the most minutes first
    live   whether one of the rows still runs
    """
    fields = dict(requested)
    by = fields.pop("by", MINUTES_BY[0])
    since = (now - dt.timedelta(days=WEEK_DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
    with database.read() as transaction:
        session = transaction.session
        page = list_requested(transaction, "runs", {"sort": "-started_at", **fields})
        reported = watched.last_advices(session, [row["id"] for row in page.items])
        running = [row["id"] for row in page.items if row["status"] == "running"]
        last = runs.last_event_bodies(session, running)
        metrics = runs.competition_metrics(session, {row["competition"] for row in page.items} - {None})
        week = runs.minutes_since(session, since, MOST_OF_WEEK)
    items = [
        {
            **row,
            "verdict": _brief(reported.get(row["id"])),
            "took_minutes": took_minutes(row, now),
            "silent_minutes": silent_minutes(row, last.get(row["id"]), now),
            **metrics.get(row["competition"], {"metric": None, "metric_direction": None}),
        }
        for row in page.items
    ]
    return {
        "items": items,
        "next": page.next,
        "week": {"since": since.date().isoformat(), "by": by, **_summed(week, by)},
        "live": bool(running),
    }


def silent_minutes(row: Mapping[str, Any], last_body: str | None, now: dt.datetime) -> float | None:
    """Minutes since the latest event (the start, before the first) of a running run, past
    `SILENT_MINUTES`."""
    if row["status"] != "running":
        return None
    started, begun = _seconds(row["started_at"]), _seconds(row["created_at"])
    last = _seconds(orjson.loads(last_body)["at"]) if last_body else max(started, begun)
    silent = silent_seconds(last, started, begun, now.timestamp()) / 60.0
    return round(silent, 1) if silent > SILENT_MINUTES else None


def _seconds(at: str) -> float:
    return dt.datetime.fromisoformat(at).timestamp()


def took_minutes(row: Mapping[str, Any], now: dt.datetime) -> float:
    """Minutes from a run's begin to its end, however it ended; while it goes on, until its latest event."""
    begun = dt.datetime.fromisoformat(row["started_at"])
    if row["finished_at"] is not None:
        until = dt.datetime.fromisoformat(row["finished_at"])
    else:
        begun, until = max(begun, dt.datetime.fromisoformat(row["created_at"])), now
    return max(0.0, (until - begun).total_seconds() / 60.0)


def _brief(advice: Any) -> dict[str, Any] | None:
    if advice is None:
        return None
    names = ("action", "rule", "severity", "at_seconds")
    return {name: getattr(advice, name) for name in names}


def _summed(found: Sequence[runs.Minutes], by: str) -> dict[str, Any]:
    """Of no other `by` than `MINUTES_BY`: InvalidInput."""
    if by not in MINUTES_BY:
        raise unknown_name("by", by, MINUTES_BY)
    groups: dict[str, dict[str, Any]] = {}
    total = useful = 0.0
    for run in found:
        minutes = max(0.0, (run.finished_at - run.started_at).total_seconds() / 60.0)
        wasted = {name: value for name, value in (run.waste or {}).items() if name in PARTS}
        left = max(0.0, minutes - sum(wasted.values()))
        total, useful = total + minutes, useful + left
        for name, parts in _groups_of(run, by, wasted).items():
            group = groups.setdefault(name, {"name": name, "runs": 0, "minutes": 0.0, "wasted": {}})
            group["runs"] += 1
            group["minutes"] += sum(parts.values()) if by == "cause" else minutes
            for part, value in parts.items():
                group["wasted"][part] = group["wasted"].get(part, 0.0) + value
    ordered = sorted(groups.values(), key=lambda group: group["name"] if by == "day" else -group["minutes"])
    return {
        "runs": len(found), "minutes": round(total, 2), "useful": round(useful, 2),
        "groups": ordered[:_MOST_GROUPS], "more": max(0, len(ordered) - _MOST_GROUPS),
    }  # fmt: skip


def _groups_of(run: runs.Minutes, by: str, wasted: Mapping[str, float]) -> dict[str, Mapping[str, float]]:
    """Group -> minutes of the run wasted in it, by part."""
    if by == "cause":
        return {part: {part: value} for part, value in wasted.items()}
    named = {"day": run.started_at.date().isoformat(), "gpu": run.gpu, "competition": run.competition}
    return {named[by] or "no competition": wasted}


def one_run_page(database: Database, knowledge: Knowledge, run_id: str, now: dt.datetime) -> dict[str, Any]:
    """`GET /runs/{run_id}` with `curves`, `remarks`, `card` and `silent_minutes`; NotFound.

    curves    `{"card": [{"minute", "driver_gib", "process_gib", "utilization_percent"}], "epochs": [...],
              "steps": [{"minute", "samples_per_second", "loader_wait_percent"}]}`: samples of the card are at
              most `MOST_POINTS` of the latest `MOST_RAW` events; epochs with `minute`, `fold`, losses, metric
              and peaks; steps are averages of epochs, then of ten seconds of the latest minutes
    remarks   notes and lines of the log that were not understood, oldest first: `{"minute", "text"}`
    card      `{"memory_gib", "usable_gib"}` of the card, None where it is not known
    """
    page = run_page(database, run_id)
    start = dt.datetime.fromisoformat(page["started_at"])
    with database.read() as transaction:
        raw = runs.latest_events(transaction.session, page["id"], MOST_RAW)[::-1]
        marks = runs.latest_marks(transaction.session, page["id"], MOST_MARKS)[::-1]
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
        {"minute": minute, "text": str(body.get("text") or body.get("message") or "")}
        for minute, kind, body in _parsed(marks, start)
        if kind == "note"
    ]
    return on_the_wire(
        {
            **page,
            "curves": {
                "card": _thinned(samples),
                "epochs": epochs,
                "steps": _steps(epochs, (page["watch"] or {}).get("stretches") or ()),
            },
            "remarks": [remark for remark in remarks if remark["text"]],
            "card": {"memory_gib": card.memory_gib, "usable_gib": card.usable_gib} if card else None,
            "silent_minutes": silent_minutes(page, raw[-1][2] if raw else None, now),
        }
    )


def epochs_table(database: Database, run_id: str) -> TableExport:
    """Epochs that are kept of a run, one a row. NotFound."""
    page = run_page(database, run_id)
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
    """Speed and waiting from the beginning on: epochs as far as no shorter stretches are kept."""
    latest = [
        {
            "minute": round(each["at_seconds"] / 60, 3),
            "samples_per_second": each["samples_per_second"],
            "loader_wait_percent": each["loader_wait_percent"],
        }
        for each in stretches
    ]
    before = latest[0]["minute"] if latest else float("inf")
    earlier = [
        {
            "minute": each["minute"],
            "samples_per_second": each["samples"] / each["seconds"]
            if each.get("samples") and each.get("seconds")
            else None,
            "loader_wait_percent": each.get("loader_wait_percent"),
        }
        for each in epochs
        if each["minute"] is not None and each["minute"] < before
    ]
    return sorted(earlier, key=lambda each: each["minute"]) + latest


def _parsed(
    events: Iterable[tuple[int, str, str]], start: dt.datetime
) -> Iterable[tuple[float, str, dict[str, Any]]]:
    for _, kind, text in events:
        body = orjson.loads(text)
        yield _minute(body["at"], start), kind, body


def _minute(at: str, start: dt.datetime) -> float:
    """Since the run began."""
    return round((dt.datetime.fromisoformat(at) - start).total_seconds() / 60, 3)


def _thinned(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `MOST_POINTS`, of each stretch the one where most memory is used: a peak is never left out."""
    if len(points) <= MOST_POINTS:
        return list(points)
    width = -(-len(points) // MOST_POINTS)
    stretches = (points[at : at + width] for at in range(0, len(points), width))
    return [max(stretch, key=lambda p: p["driver_gib"] or p["process_gib"] or 0.0) for stretch in stretches]
