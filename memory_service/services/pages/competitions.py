"""Pages of competitions: search, filters with counts, a map, and one competition."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.errors import InvalidInput, wrong_value
from memory_service.recall.encoder import load_encoder
from memory_service.recall.structure import pca_projection
from memory_service.services.competitions.signals import ReadText, read_text
from memory_service.services.competitions.similar import recall, with_lessons
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.knowledge.outcomes import with_outcomes, with_tallies
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.grid import gridded
from memory_service.services.pages.run_list import bests_so_far, silent_minutes, took_minutes
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.file_formats import TableExport
from memory_service.store.queries import passages
from memory_service.store.queries import runs as run_store

FACETS = ("task", "modality", "size", "metric_family", "split")
"""What the list is narrowed by; each a filter of the table, too."""

LONGEST_SEARCH = 5_000
LEAST_SCORE, LEAST_OF_BEST = 0.05, 0.25
"""What is less like the text, or so much less than the most similar, is not shown."""

MOST_FOUND, MOST_NEIGHBOURS, MOST_RUNS, MOST_CURVES = 50, 8, 20, 12
_MINUTE = np.timedelta64(60, "s")
MOST_ON_MAP = 1_500
"""Points a browser draws at once, and a page carries."""


def rows(database: Database, asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """The newest first; with `q` the most alike, best first, with `score` and `why`."""
    q = asked.get("q", "").strip()
    if len(q) > LONGEST_SEARCH:
        raise wrong_value("q", f"must be at most {LONGEST_SEARCH} characters long")
    read = read_text(q, load_encoder().encoder) if q else None  # encoded before the transaction opens
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        if read is not None:
            return _found(transaction, knowledge, read, narrowed=any(name in asked for name in FACETS))
        every = catalogue.every_row(transaction, "competitions")
        return transaction.caches.latest(rows, every, lambda: sorted(every, key=_newest))


def _newest(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return -(row["year"] or 0), row["slug"]


def searched(_: Database, asked: Mapping[str, str], __: Mapping[str, Any]) -> dict[str, Any]:
    """`{"searched"}`: the words that were searched for, or None."""
    return {"searched": asked.get("q", "").strip() or None}


def _found(
    transaction: ReadTransaction, knowledge: Knowledge, read: ReadText, narrowed: bool
) -> list[dict[str, Any]]:
    """Competitions whose name holds the words, then those alike by meaning, words and facts."""
    words = read.text.lower().replace("-", " ").split()
    names = _names_in(transaction, knowledge)
    for word in words:
        names = [each for each in names if word in each[1]]
    named = [slug for slug, _ in names]
    most = 2 * MOST_FOUND if narrowed else MOST_FOUND
    hits = {hit.slug: hit for hit in recall(transaction, read=read, limit=most).hits}
    least = max((hit.score for hit in hits.values()), default=0.0) * LEAST_OF_BEST
    hits = {slug: hit for slug, hit in hits.items() if hit.score >= max(least, LEAST_SCORE)}
    out = []
    for slug in dict.fromkeys([*sorted(named, key=len)[:MOST_FOUND], *hits]):
        row = knowledge.competitions.get(slug)
        if row is None:
            continue
        hit = hits.get(slug)
        why = "its name" if slug in named else hit.why if hit else ""
        out.append({**row, "score": hit.score if hit else None, "why": why})
    return out


def _names_in(transaction: ReadTransaction, knowledge: Knowledge) -> Sequence[tuple[str, str]]:
    """[(slug, slug and title in small letters)]."""
    known = knowledge.competitions

    def make() -> Sequence[tuple[str, str]]:
        return [(slug, f"{slug} {row['title']}".lower().replace("-", " ")) for slug, row in known.items()]

    return transaction.caches.latest(_names_in, known, make)


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
    scored = [one for one in epochs if one.get("metric") is not None and one.get("at") is not None]
    bests = accumulate((one["metric"] for one in scored), min if direction == "min" else max)
    ends = [np.datetime64(one["at"].rstrip("Z")) for one in scored]
    points = [[round(float((end - start) / _MINUTE), 3), best] for end, best in zip(ends, bests, strict=True)]
    if len(points) < 2:
        return None
    return {"run_id": run["id"], "model": run["model"], "gpu": run["device"] or run["gpu"], "points": points}


def competition_map(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"points": [{"slug", "title", "task", "x", "y"}], "left_out", "facets"}`: at most `MOST_ON_MAP`,
    evenly from all that match the filters; left_out: how many match and are not drawn."""
    known = knowledge_of(database).competitions
    with database.read() as transaction:
        places = _places(transaction)
    asked = {name: requested[name] for name in FACETS if name in requested}
    placed = [row for slug, row in known.items() if slug in places]
    grid = gridded(placed, asked, "slug", {name: name for name in FACETS}, len(known) + 1)
    found = grid["items"]
    points = [
        {name: row[name] for name in ("slug", "title", "task")}
        | {"x": places[row["slug"]][0], "y": places[row["slug"]][1]}
        for row in found[:: max(1, -(-len(found) // MOST_ON_MAP))]
    ]
    return {"points": points, "left_out": len(found) - len(points), "facets": grid["facets"]}


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


FACTS = (
    "task", "modality", "metric", "metric_direction", "n_train", "n_test", "n_classes", "image_size",
    "dataset_gb", "domain", "label_structure", "split", "group_by", "teams", "code_competition",
    "inference_limit_hours", "year",
)  # fmt: skip
RECIPE = ("competition", "rank", "families", "techniques", "validation", "what_mattered", "score")
MOST_COMPARED = 4


def compare_page(database: Database, asked: Mapping[str, str]) -> dict[str, Any]:
    """`{"competitions", "lines"}` of two to four competitions (`slug=` for each), or `{"solutions", "lines"}`
    of as many solutions (`solution=`): a line is `{"part", "name", "values", "differs"}`, values in order.

    competitions   `{"slug", "title", "solutions", "runs", "pitfalls"}`; solutions: how many winners are known
    lines          facts; then families, techniques and splits of the winners, as shares of those that say
                   any, the most used first; then the scores of the best ranks
    """
    name, what = ("solution", "solutions") if "solution" in asked else ("slug", "competitions")
    slugs = list(dict.fromkeys(part for part in asked.get(name, "").split(",") if part))
    if not 2 <= len(slugs) <= MOST_COMPARED:
        raise InvalidInput(f"Tick two to {MOST_COMPARED} {what} to compare; {len(slugs)} were given")
    if what == "solutions":
        with database.read() as transaction:
            told = [catalogue.get_row(transaction, what, key) for key in slugs]
        lines = [_line("recipe", field, [row[field] or None for row in told]) for field in RECIPE]
        return {what: told, "lines": lines}
    with database.read() as transaction:
        rows = [catalogue.get_row(transaction, what, slug) for slug in slugs]
        found = [with_outcomes(transaction, what, row) for row in rows]
    lines = [_line("facts", name, [row[name] for row in found]) for name in FACTS]
    for part, of in _RECIPE.items():
        shares = [_shares(row["solutions"], of) for row in found]
        most = {name: sum(one.get(name, 0.0) for one in shares) for some in shares for name in some}
        lines += [
            _line(part, name, [one.get(name, 0.0) if one else None for one in shares])
            for name in sorted(most, key=lambda name: (-most[name], name))
        ]
    best = [{s["rank"]: s["score"] for s in row["solutions"] if s["score"]} for row in found]
    lines += [
        _line("scores", f"rank {rank}", [one.get(rank) for one in best])
        for rank in sorted({rank for one in best for rank in one})[:5]
    ]
    told = [
        {name: row[name] for name in ("slug", "title", "pitfalls", "metric")}
        | {"solutions": len(row["solutions"]), "runs": row["runs"]["runs"]}
        for row in found
    ]
    return {
        "competitions": told,
        "lines": [line for line in lines if any(v is not None for v in line["values"])],
    }


def compare_table(database: Database, asked: Mapping[str, str]) -> TableExport:
    """The lines of the page, for a file."""
    page = compare_page(database, asked)
    slugs = [one["id"] for one in page.get("solutions", ())] or [one["slug"] for one in page["competitions"]]
    rows = [{**line, **dict(zip(slugs, line["values"], strict=True))} for line in page["lines"]]
    values = dict.fromkeys(slugs, object)
    kinds: Mapping[str, type[Any]] = {"part": str, "name": str, **values, "differs": bool}
    return TableExport(kinds, lambda: iter([rows]))


_RECIPE: Mapping[str, Callable[[Mapping[str, Any]], Sequence[str]]] = {
    "families": lambda one: one["families"] or (),
    "techniques": lambda one: one["techniques"] or (),
    "split": lambda one: [s for s in [(one["validation"] or {}).get("split")] if s not in (None, "unknown")],
}
"""What winners are compared by -> what a solution says of it."""


def _shares(
    solutions: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], Sequence[str]]
) -> dict[str, float]:
    """Name -> share of the solutions that say any."""
    said = [set(of(one)) for one in solutions if of(one)]
    counts = Counter(name for names in said for name in names)
    return {name: round(n / len(said), 4) for name, n in counts.items()}


def _line(part: str, name: str, values: list[Any]) -> dict[str, Any]:
    return {"part": part, "name": name, "values": values, "differs": any(v != values[0] for v in values)}
