"""The list of runs: facets, sparklines, advice, and where last week's minutes went."""

import datetime as dt
import threading
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cachetools import TTLCache

from memory_service.domain.monitoring.plausibility import silent_seconds
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.summary import Summary
from memory_service.domain.runs.wasted_minutes import PARTS
from memory_service.errors import unknown_name
from memory_service.schemas.runs import STATUSES
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.operations.export import table_export
from memory_service.services.pages.grid import PRESENTED, gridded
from memory_service.services.runs.outcome_evidence import metric_direction
from memory_service.services.runs.summaries import read_summary
from memory_service.services.runs.verdicts import gravest_advice, state_of
from memory_service.services.tables.file_formats import TableExport
from memory_service.services.tables.paging import parse_query, sort_names
from memory_service.services.tables.table_rows import list_requested, listed_columns, one_page
from memory_service.store.engine import read_object
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run, RunAdvice

WEEK_DAYS = 7
"""Today among them."""
MOST_RECENT = 1_000
"""Latest runs that facets count and the panel of last week adds up: read with every page of the list."""

MINUTES_BY = ("day", "cause", "gpu", "competition")
"""What last week's minutes are split by; the first is the usual one."""

WAITING = ("loader", "stalled", "idle")
"""Wasted minutes in which the GPU waited; the others were worked for nothing."""

FACETS = ("status", "competition", "model", "gpu", "wasted_on", "task", "device")

SILENT_MINUTES = 5.0
"""A running run without an event for so long has no signal: scripts report at least each minute."""

_MOST_GROUPS = 8
_MOST_VALUES = 40
_MOST_OF_CURVE = 24


def runs_page(database: Database, requested: Mapping[str, str], now: dt.datetime) -> dict[str, Any]:
    """`{"items", "next", "week", "live", "facets", "names", "groups", "heads"}`: rows with
    `advice` (the gravest that was not followed, else the last; None before the first), `curve` (metric by
    epoch, a list for each fold), `best_so_far` (of the epochs, else of scored fits; None where nobody says
    which way is better), `took_minutes`, `silent_minutes` (of a running one without a signal, else None),
    `metric` and `metric_direction` (of its competition). InvalidInput for a status that no run can have.

    week     of the latest runs begun since midnight (UTC) seven days ago that ended: `{"since", "filters",
             "runs", "minutes", "useful", "waiting", "lost", "by", "groups"}`; filters: what the query asks
             of their own fields; groups: `[{"name", "runs", "minutes", "useful", "waiting", "lost"}]` by
             day, cause, gpu or competition (`by=` of the query), the most minutes first
    live     whether one of the rows still runs
    groups, heads   as of `gridded`. What is searched (`q`), grouped, or in an order that no index has, are
             the latest `MOST_RECENT` runs; `matching`: how many of them
    facets   `{name: [[value, runs]]}` of the latest `MOST_RECENT` runs that the search and the other filters
             let through
    """
    fields = {name: text for name, text in requested.items() if name not in PRESENTED}
    by = fields.pop("by", MINUTES_BY[0])
    if "status" in fields and fields["status"] not in (*STATUSES, "running"):
        raise unknown_name("status", fields["status"], ("running", *STATUSES))
    since = (now - dt.timedelta(days=WEEK_DAYS - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    with database.read() as transaction:
        session = transaction.session
        grid = _grid(transaction, fields)
        page = grid["items"]
        running = [row["id"] for row in page if row["status"] == "running"]
        last = runs.last_event_bodies(session, running)
        extras = _extras(transaction, page, last)
        metrics = runs.competition_metrics(session, {row["competition"] for row in page} - {None})
        changed = runs.last_change(session)
        recent = transaction.caches.latest(runs.recent, changed, lambda: runs.recent(session, MOST_RECENT))
    items = [
        {
            **row,
            **extras[row["id"]],
            "took_minutes": took_so_far(row, extras[row["id"]]["used_minutes"], now),
            "silent_minutes": silent_minutes(row, last.get(row["id"]), now),
            **metrics.get(row["competition"], {"metric": None, "metric_direction": None}),
        }
        for row in page
    ]
    for item in items:
        item.pop("used_minutes")
        better = item.pop("direction")
        item["metric_direction"] = item["metric_direction"] or better
        item["best_so_far"] = _best_so_far(item.pop("reached"), item["metric_direction"])
    panel = database.caches.stored(
        _week,
        (changed, by, since, *sorted(fields.items())),
        lambda: {"week": _week(recent, fields, since, by), "facets": _facets(recent, fields)},
        64,
    )
    facets = grid.get("facets") or panel["facets"]
    return {**grid, "items": items, "live": bool(running), **panel, "facets": facets}


def runs_table(database: Database, requested: Mapping[str, str]) -> TableExport:
    """All rows of the list, for a file."""
    filters = dict(requested)
    if _is_indexed(filters):
        sort = filters.pop("sort", None)
        return table_export(database, "runs", filters, sort)
    with database.read() as transaction:
        found = _grid(transaction, filters, most=MOST_RECENT)["items"]
    return table_export(database, "runs", keys=[row["id"] for row in found])


def _is_indexed(fields: Mapping[str, str]) -> bool:
    sort = fields.get("sort", "-started_at").removeprefix("-")
    return sort in sort_names("runs") and not fields.keys() & {"q", "group"}


def _grid(transaction: ReadTransaction, fields: Mapping[str, str], most: int | None = None) -> dict[str, Any]:
    if _is_indexed(fields):
        page = list_requested(transaction, "runs", {"sort": "-started_at", **fields})
        found: dict[str, Any] = {"items": page.items, "next": page.next, "groups": {}, "heads": []}
    else:
        in_memory = (*_IN_MEMORY, *FACETS) if "q" in fields else _IN_MEMORY
        asked = {name: text for name, text in fields.items() if name in in_memory}
        others = {name: text for name, text in fields.items() if name not in in_memory}
        query = replace(parse_query("runs", others, "-started_at"), limit=MOST_RECENT)
        facets = {name: name for name in FACETS if "q" in fields}
        found = gridded(one_page(transaction, query).items, asked, "id", facets, most)
    return found | {"names": list(listed_columns("runs"))}


_IN_MEMORY = ("q", "group", "sort", "limit", "cursor")


def _week(
    recent: Sequence[runs.Recent], fields: Mapping[str, str], since: dt.datetime, by: str
) -> dict[str, Any]:
    passed = {name: text for name, text in fields.items() if name in runs.Recent._fields}
    of_these = [
        run for run in recent if all(str(getattr(run, name)) == text for name, text in passed.items())
    ]
    about = {"since": since.date().isoformat(), "by": by, "filters": list(passed.values())}
    return {**about, **_summed(of_these, since, by)}


Extra = dict[str, Any]
"""`advice`, `curve`, `reached`, `direction` (of scored fits) and `used_minutes` (None = not looked up) of a
run."""


@dataclass(eq=False)
class _Kept:
    """ended    (id, when it changed last) -> extra. Later runs may still follow its advice: it is looked at
                again after ten minutes
    running  (id, its latest event) -> extra. Advice also follows from silence: again after five seconds
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: TTLCache[Hashable, Extra] = field(default_factory=partial(TTLCache, 4_096, 600))
    running: TTLCache[Hashable, Extra] = field(default_factory=partial(TTLCache, 1_024, 5))


def _extras(
    transaction: ReadTransaction, rows: Sequence[Mapping[str, Any]], last: Mapping[str, str]
) -> dict[str, Extra]:
    """By id. last: body of the latest event of those that run."""
    kept = transaction.caches.of(_Kept)
    cache = {row["id"]: kept.running if row["status"] == "running" else kept.ended for row in rows}
    state = {row["id"]: last.get(row["id"], row["updated_at"]) for row in rows}
    with kept.lock:
        known = {key: extra for key in state if (extra := cache[key].get((key, state[key]))) is not None}
    new = [row["id"] for row in rows if row["id"] not in known]
    given = watched.advices(transaction.session, new)
    made = {
        run.id: _extra(transaction, run, given.get(run.id, ()))
        for run in runs.several(transaction.session, new)
    }
    with kept.lock:
        for key, extra in made.items():
            cache[key][key, state[key]] = extra
    return known | made


def _extra(transaction: ReadTransaction, run: Run, given: Sequence[RunAdvice]) -> Extra:
    advice, epochs, used = None, run.summary["epochs"] if run.summary else None, None
    if epochs is None or given or run.excluded == "late":
        summary = read_summary(transaction, run.id, run.started_at.timestamp())
        advice = gravest_advice(transaction, run, given, summary)
        epochs = _epochs_so_far(summary) if epochs is None else epochs
        used = RunView(state_of(transaction, run, summary)).used / 60.0
    fits = [] if epochs else scored_fits(transaction, run.id)
    better = metric_direction(transaction, run, {}) if fits else None
    reached = {"reached": _reached(epochs or fits), "direction": better}
    return {"advice": advice, "curve": _curve(epochs), **reached, "used_minutes": used}


MOST_MARKS = 300


def scored_fits(transaction: ReadTransaction, run_id: str) -> list[dict[str, Any]]:
    """Of a run that has no epochs the latest remarks with a score, a fit each."""
    marks = runs.latest_events(transaction.session, run_id, MOST_MARKS, marks=True)
    told = [read_object(body) or {} for _, kind, body in marks if kind == "note"]
    return [each for each in told if each.get("metric") is not None]


def took_so_far(row: Mapping[str, Any], used: float | None, now: dt.datetime) -> float:
    """As the run's page says, in the run's own time; of one that ended at least from its begin to its end."""
    if row["finished_at"] is None and used is not None:
        return float(used)
    return max(took_minutes(row, now), used or 0.0)


def bests_so_far(
    transaction: ReadTransaction, run_ids: Sequence[str], direction: str | None
) -> dict[str, float | None]:
    """Running run -> the best metric that it reported."""
    found = {
        run.id: read_summary(transaction, run.id, run.started_at.timestamp())
        for run in runs.several(transaction.session, run_ids)
    }
    return {key: _best_so_far(_reached(_epochs_so_far(one)), direction) for key, one in found.items()}


def best_of_epochs(epochs: Sequence[Mapping[str, Any]], direction: str | None) -> float | None:
    """The best metric of the epochs; None where nobody says which way is better."""
    return _best_so_far(_reached(epochs), direction)


def _epochs_so_far(summary: Summary) -> list[dict[str, Any]]:
    scored = [(fold, each) for (fold, _), each in sorted(summary.epochs.items()) if "metric" in each]
    return [{"fold": fold, "metric": epoch["metric"][2]} for fold, epoch in scored]


def _reached(epochs: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """The least and the greatest metric of the epochs."""
    values = [float(epoch["metric"]) for epoch in epochs if isinstance(epoch.get("metric"), int | float)]
    return (min(values), max(values)) if values else None


def _best_so_far(reached: tuple[float, float] | None, direction: str | None) -> float | None:
    return None if reached is None or direction is None else reached[direction == "max"]


def _curve(epochs: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Metric by epoch, a list for each fold, about `_MOST_OF_CURVE` values in all."""
    folds: dict[int, list[float]] = {}
    for epoch in epochs:
        if isinstance(epoch.get("metric"), int | float):
            folds.setdefault(epoch.get("fold") or 0, []).append(float(epoch["metric"]))
    step = -(-sum(map(len, folds.values())) // _MOST_OF_CURVE)
    return [values[:: max(1, step)] for values in folds.values()]


def _facets(recent: Sequence[runs.Recent], filters: Mapping[str, str]) -> dict[str, list[list[Any]]]:
    """Each facet's values, the most frequent first, of the runs that all other filters let through."""
    day = filters.get("started_at_min")
    wanted = {name: filters[name] for name in runs.Recent._fields if name in filters}
    counts: dict[str, Counter[Any]] = {name: Counter() for name in FACETS}
    for run in recent:
        if day and run.started_at.isoformat() < day:
            break
        missed = [name for name, value in wanted.items() if getattr(run, name) != value]
        for name in FACETS if not missed else missed if len(missed) == 1 else ():
            if name in counts:
                counts[name][getattr(run, name)] += 1
    return {name: [[v, n] for v, n in found.most_common(_MOST_VALUES) if v] for name, found in counts.items()}


def silent_minutes(row: Mapping[str, Any], last_body: str | None, now: dt.datetime) -> float | None:
    """Minutes since the latest event (the start, before the first) of a running run, past
    `SILENT_MINUTES`."""
    if row["status"] != "running":
        return None
    started, begun = _seconds(row["started_at"]), _seconds(row["created_at"])
    last_event = read_object(last_body)
    last = _seconds(last_event["at"]) if last_event else max(started, begun)
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


def _summed(recent: Sequence[runs.Recent], since: dt.datetime, by: str) -> dict[str, Any]:
    """Of no other `by` than `MINUTES_BY`: InvalidInput."""
    if by not in MINUTES_BY:
        raise unknown_name("by", by, MINUTES_BY)
    ended = [run for run in recent if run.started_at >= since and run.finished_at is not None]
    groups: dict[str, dict[str, float]] = {}
    total: dict[str, float] = {}
    for run in ended:
        whole = _minutes_of(run)
        _add(total, whole)
        for name, minutes in _groups_of(run, by, whole).items():
            _add(groups.setdefault(name, {}), minutes)
    rows = [{"name": name, **_rounded(minutes)} for name, minutes in groups.items()]
    rows.sort(key=lambda row: row["name"] if by == "day" else -row["minutes"])
    return {
        **_rounded(total),
        "groups": rows[:_MOST_GROUPS], "more": max(0, len(rows) - _MOST_GROUPS),
    }  # fmt: skip


def _add(into: dict[str, float], minutes: Mapping[str, float]) -> None:
    into["runs"] = into.get("runs", 0) + 1
    for name, value in minutes.items():
        into[name] = into.get(name, 0.0) + value


def _rounded(minutes: Mapping[str, float]) -> dict[str, Any]:
    parts = {name: round(minutes.get(name, 0.0), 2) for name in ("useful", "waiting", "lost")}
    return {"runs": minutes.get("runs", 0), **parts, "minutes": round(sum(parts.values()), 2)}


def _minutes_of(run: runs.Recent) -> dict[str, float]:
    wasted = {name: value for name, value in (run.waste or {}).items() if name in PARTS}
    took = (run.finished_at - run.started_at).total_seconds() / 60.0 if run.finished_at else 0.0
    waiting = sum(wasted.get(name, 0.0) for name in WAITING)
    lost = sum(wasted.values()) - waiting
    return {"useful": max(0.0, took - waiting - lost), "waiting": waiting, "lost": lost}


def _groups_of(run: runs.Recent, by: str, whole: Mapping[str, float]) -> dict[str, Mapping[str, float]]:
    """Group -> minutes of the run in it; whole: all of its minutes."""
    if by == "cause":
        wasted = {name: value for name, value in (run.waste or {}).items() if name in PARTS}
        return {part: {"waiting" if part in WAITING else "lost": value} for part, value in wasted.items()}
    named = {"day": run.started_at.date().isoformat(), "gpu": run.gpu, "competition": run.competition}
    return {named[by] or "no competition": whole}
