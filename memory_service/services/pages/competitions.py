"""Pages of competitions: search, filters with counts, a map, and one competition."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.errors import wrong_value
from memory_service.recall.competition_map import pca_projection
from memory_service.recall.encoder import load_encoder
from memory_service.services.competitions.lessons import with_lessons
from memory_service.services.competitions.neighbours import recall
from memory_service.services.competitions.signals import ReadText, read_text
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.knowledge.outcomes import with_outcomes, with_tallies
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.run_list import bests_so_far, silent_minutes, took_minutes
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.paging import parse_query
from memory_service.store.queries import passages
from memory_service.store.queries import runs as run_store

FACETS = ("task", "modality", "size", "metric_family", "split")
"""What the list is narrowed by; each a filter of the table, too."""

LONGEST_SEARCH = 5_000
LEAST_SCORE, LEAST_OF_BEST = 0.05, 0.25
"""What is less like the text, or so much less than the most similar, is not shown."""

MOST_FOUND, MOST_NEIGHBOURS, MOST_RUNS, MOST_CURVES = 50, 8, 20, 12
MOST_ON_MAP = 1_500
"""Points a browser draws at once, and a page carries."""

_PAGING = ("sort", "limit", "cursor", "q")


def competitions_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices", "searched"}`.

    With `q` the items are the most alike, best first, with `score` and `why`; without, rows in order.
    choices   filter -> [[value, how many rows under the other filters]], most first
    """
    knowledge = knowledge_of(database)
    filters = {name: value for name, value in requested.items() if name not in _PAGING}
    q = requested.get("q", "").strip()
    if len(q) > LONGEST_SEARCH:
        raise wrong_value("q", f"must be at most {LONGEST_SEARCH} characters long")
    read = read_text(q, load_encoder().encoder) if q else None  # encoded before the transaction opens
    with database.read() as transaction:
        known = _known_in(transaction, knowledge)
        order = {"sort": "-year", **requested}
        query = parse_query("competitions", filters, *(order.get(name) for name in catalogue.PAGING_FIELDS))
        if read is None:
            page = catalogue.one_page(transaction, query)
        else:
            page = catalogue.Page(_found(transaction, knowledge, known, read, filters), None)
    narrowing = {name: value for name, value in filters.items() if name in FACETS}
    choices = _choices(known, narrowing)
    return {"items": page.items, "next": page.next, "choices": choices, "searched": q or None}


def _found(
    transaction: ReadTransaction,
    knowledge: Knowledge,
    known: _Known,
    read: ReadText,
    filters: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Competitions whose name holds the words, then those alike by meaning, words and facts."""
    words = read.text.lower().replace("-", " ").split()
    names = known.names
    for word in words:
        names = [each for each in names if word in each[1]]
    named = [slug for slug, _ in names]
    most = 2 * MOST_FOUND if filters else MOST_FOUND
    hits = {hit.slug: hit for hit in recall(transaction, read=read, limit=most).hits}
    least = max((hit.score for hit in hits.values()), default=0.0) * LEAST_OF_BEST
    hits = {slug: hit for slug, hit in hits.items() if hit.score >= max(least, LEAST_SCORE)}
    out = []
    for slug in dict.fromkeys([*sorted(named, key=len)[:MOST_FOUND], *hits]):
        row = knowledge.competitions.get(slug)
        if row is None or any(
            str(row.get(name)) != value for name, value in filters.items() if name in FACETS
        ):
            continue
        hit = hits.get(slug)
        why = "its name" if slug in named else hit.why if hit else ""
        out.append({**row, "score": hit.score if hit else None, "why": why})
    return out[:MOST_FOUND]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is looked up in all competitions at once.

    facets   values of `FACETS` -> how many rows have them together
    names    [(slug, slug and title in small letters)]
    """

    facets: Mapping[tuple[Any, ...], int]
    names: Sequence[tuple[str, str]]


def _known_in(transaction: ReadTransaction, knowledge: Knowledge) -> _Known:
    """`_Known` of the latest state of the competitions."""
    rows = knowledge.competitions

    def make() -> _Known:
        facets = Counter(tuple(row.get(name) for name in FACETS) for row in rows.values())
        names = [(slug, f"{slug} {row['title']}".lower().replace("-", " ")) for slug, row in rows.items()]
        return _Known(facets, names)

    return transaction.caches.latest(_Known, rows, make)


def _choices(known: _Known, narrowing: Mapping[str, str]) -> dict[str, list[list[Any]]]:
    choices = {}
    for place, name in enumerate(FACETS):
        others = [(FACETS.index(other), value) for other, value in narrowing.items() if other != name]
        counts: Counter[Any] = Counter()
        for values, n in known.facets.items():
            if values[place] is not None and all(str(values[at]) == value for at, value in others):
                counts[values[place]] += n
        choices[name] = [[str(value), n] for value, n in counts.most_common()]
    return choices


def competition_page(database: Database, slug: str) -> dict[str, Any]:
    """`{"competition", "neighbours", "patterns", "runs", "more_runs", "curves", "history"}`; NotFound names
    the nearest slugs.

    competition   the row with `outcomes` and `runs`, as GET /competitions/{slug} has it
    runs          its latest, each with `silent_minutes`, `best_so_far` and `took_minutes` of the list of runs
    curves        of its latest runs: `{"run_id", "model", "points": [[minutes, best metric so far]]}`
    """
    with database.read() as transaction:
        near = recall(transaction, competition=slug, limit=MOST_NEIGHBOURS + 1)
        neighbours = with_lessons(transaction, near.hits)
        row = with_outcomes(transaction, "competitions", catalogue.get_row(transaction, "competitions", slug))
        patterns = with_tallies(
            transaction, catalogue.list_rows(transaction, "patterns", {"competition": slug}, None, 50).items
        )
        runs = catalogue.list_rows(transaction, "runs", {"competition": slug}, "-started_at", MOST_RUNS)
        running = [run["id"] for run in runs.items if run["status"] == "running"]
        last = run_store.last_event_bodies(transaction.session, running)
        bests = bests_so_far(transaction, running, row.get("metric_direction"))
        curves = [_curve(transaction, run, row.get("metric_direction")) for run in runs.items[:MOST_CURVES]]
        history = catalogue.history_of(transaction, "competitions", slug)
    now = dt.datetime.now(dt.UTC)
    return {
        "competition": row,
        "neighbours": [hit.as_dict() for hit in neighbours if hit.slug != slug][:MOST_NEIGHBOURS],
        "patterns": patterns,
        "runs": [
            {
                **run,
                "silent_minutes": silent_minutes(run, last.get(run["id"]), now),
                "best_so_far": bests.get(run["id"]),
                "took_minutes": took_minutes(run, now),
            }
            for run in runs.items
        ],
        "more_runs": runs.next is not None,
        "curves": [curve for curve in curves if curve is not None],
        "history": history,
    }


def _curve(
    transaction: ReadTransaction, run: Mapping[str, Any], direction: str | None
) -> dict[str, Any] | None:
    """Best validation metric of a run that ended, so far, over its minutes; None without two scored
    epochs."""
    whole = run_store.find(transaction.session, run["id"])
    epochs: Sequence[Mapping[str, Any]] = ((whole.summary if whole else None) or {}).get("epochs", ())
    start = np.datetime64(run["started_at"].rstrip("Z"))
    better = min if direction == "min" else max
    best, points = None, []
    for epoch in epochs:
        metric, at = epoch.get("metric"), epoch.get("at")
        if metric is None or at is None:
            continue
        best = metric if best is None else better(best, metric)
        minutes = float((np.datetime64(at.rstrip("Z")) - start) / np.timedelta64(1, "s")) / 60
        points.append([round(minutes, 3), best])
    if len(points) < 2:
        return None
    return {"run_id": run["id"], "model": run["model"], "gpu": run["device"] or run["gpu"], "points": points}


def competition_map(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"points": [{"slug", "title", "task", "x", "y"}], "left_out", "choices"}`: at most `MOST_ON_MAP`,
    evenly from all that match the filters; left_out: how many match and are not drawn."""
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        places = _places(transaction)
        listed = _known_in(transaction, knowledge)
    filters = {name: requested[name] for name in FACETS if name in requested}
    rows = [row for slug, row in knowledge.competitions.items() if slug in places]
    for name, value in filters.items():
        rows = [row for row in rows if str(row.get(name)) == value]
    step = max(1, -(-len(rows) // MOST_ON_MAP))
    points = [
        {name: row[name] for name in ("slug", "title", "task")}
        | {"x": places[row["slug"]][0], "y": places[row["slug"]][1]}
        for row in rows[::step]
    ]
    choices = _choices(listed, filters)
    return {"points": points, "left_out": len(rows) - len(points), "choices": choices}


def _places(transaction: ReadTransaction) -> dict[str, tuple[float, float]]:
    """Slug -> place on the map; made anew when competitions or their vectors changed."""
    snapshot = recall_snapshot(transaction)

    def make() -> dict[str, tuple[float, float]]:
        table = passages.all_vectors(transaction.session)
        tasks = {row["slug"]: row["task"] for row in snapshot.competitions}
        slugs, means = _means(table.competitions, table.vectors)
        flat = pca_projection(means, [tasks.get(slug) for slug in slugs])
        return {
            slug: (round(float(x), 4), round(float(y), 4)) for slug, (x, y) in zip(slugs, flat, strict=True)
        }

    return transaction.caches.latest(_places, snapshot.state, make)


def _means(owners: Sequence[str], vectors: NDArray[np.float32]) -> tuple[list[str], NDArray[np.float32]]:
    """One unit vector per competition: the direction of the mean of its passages."""
    slugs, index = np.unique(np.asarray(owners, dtype=object), return_inverse=True)
    sums = np.zeros((len(slugs), vectors.shape[1] if vectors.ndim == 2 else 0), dtype=np.float32)
    np.add.at(sums, index, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return [str(slug) for slug in slugs], sums / np.maximum(lengths, 1e-12)
