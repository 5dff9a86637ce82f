"""How do pages and questions behave with much in the database? Fills one, at head and with seeds, in bulk.

    fill_small(database)                            some 40 runs with everything, two devices: to look at
    fill_big(database, runs=100_000, competitions=10_000)               to measure: as many of each
    fill_competitions(database, 10_000)                                 the latter's competitions alone
    fill_runs(url, 10_000)                          runs alike with 100 events each: to compare few with many

Competitions' sentences are recombined from the shipped descriptions, their vectors are random unit vectors:
searching costs what it would cost with real ones, and no hour is spent on encoding. Some runs are told as
real ones are, each its own way (`services.demo`) or all alike (`benchmarks.alike_runs`); the many
are copies of what those left (`benchmarks.copied_runs`).
"""

from __future__ import annotations

import datetime as dt
import random
import re
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.alike_runs import tell_alike
from benchmarks.copied_runs import copy_runs
from benchmarks.pretended_devices import CARDS, pretend_devices
from memory_service.schemas.rows import validate
from memory_service.services.database.transactions import Database
from memory_service.services.demo.made_up_runs import make_up_runs
from memory_service.store.queries import passages, rows

__all__ = ["COMPETITIONS", "RUNS", "fill", "fill_big", "fill_competitions", "fill_runs", "fill_small"]

COMPETITIONS = 10_000
RUNS = 100_000
PASSAGES = 4
ORIGINALS, ALIKE = 60, 60
"""Most runs that are told one by one, pretended and alike; the others are copies of them."""

WITH_EVENTS = 300
WITH_OBSERVATIONS = 20_000
"""Of the latest runs of `fill_big` what they told, and what they say of their device; of all what is left."""

EPOCHS_KEPT = 2
"""Of a copy's summary: what 100 000 runs take on the disk is not what is measured."""

_SEED = 7
_CHUNK = 500
_ENCODER = "all-MiniLM-L6-v2"


def fill(url: str) -> None:
    """Add competitions until there are `COMPETITIONS`."""
    with Database(url) as database:
        fill_competitions(database, COMPETITIONS)
        _settle(database)


def fill_small(database: Database, *, seed: int = _SEED, now: dt.datetime | None = None) -> None:
    """Two devices calibrated twice, 40 runs of the last four weeks that ended in every way, two that go on.
    About ten seconds."""
    now = now or dt.datetime.now(dt.UTC)
    with threadpool_limits(1):
        pretend_devices(database, seed, now)
        make_up_runs(database, 40, seed, now, every_seconds=15.0, running=2, cards=CARDS)


def fill_big(
    database: Database,
    *,
    runs: int = RUNS,
    competitions: int = COMPETITIONS,
    seed: int = _SEED,
    now: dt.datetime | None = None,
) -> None:
    """Fill up to so many competitions, and add devices and so many runs (40 or more)."""
    now = now or dt.datetime.now(dt.UTC)
    fill_competitions(database, competitions, seed)
    with threadpool_limits(1):
        pretend_devices(database, seed, now)
        told = min(ORIGINALS, runs // 4)
        originals = make_up_runs(database, told, seed, now, every_seconds=240.0, running=2, cards=CARDS)
    copy_runs(
        database,
        originals[:-2],
        runs - len(originals),
        seed,
        now,
        events=WITH_EVENTS,
        observations=WITH_OBSERVATIONS,
        epochs=EPOCHS_KEPT,
    )
    _settle(database)


def fill_runs(url: str, count: int) -> None:
    """Add runs that ended and are much alike until there are `count`, with all that each told."""
    now = dt.datetime.now(dt.UTC)
    with Database(url) as database:
        told = tell_alike(database, min(count, ALIKE), now)
        copy_runs(database, told, count - len(told), _SEED, now, events=count, observations=count)
        with database.write_untracked():
            pass  # leaves a connection behind that may write
        _settle(database)


def fill_competitions(database: Database, count: int, seed: int = _SEED) -> None:
    """Add competitions until there are so many."""
    draw = random.Random(seed)
    vectors = np.random.default_rng(seed)
    with database.read() as unit:
        shipped = rows.all_rows(unit.session, "competitions")
    sentences = [s for row in shipped for s in re.split(r"(?<=[.!?])\s+", row["description"]) if len(s) > 40]
    missing = count - len(shipped)
    with database.write() as writing, passages.many(writing.session):
        for start in range(0, missing, _CHUNK):
            made = [
                _competition(i, draw, shipped, sentences) for i in range(start, min(start + _CHUNK, missing))
            ]
            stored = [row | rows.bookkeeping("user", writing.now) for row, _ in made]
            rows.insert_all(writing.session, "competitions", stored)
            for row, texts in made:
                passages.replace(writing.session, row["slug"], [_passage(text, vectors) for text in texts])


def _settle(database: Database) -> None:
    """What a database does by itself within minutes of so many new rows, outside any transaction."""
    borrowed = database.engine.raw_connection()
    driver: Any = borrowed.driver_connection
    driver.rollback()
    if hasattr(driver, "set_autocommit"):
        driver.set_autocommit(True)
        driver.execute("VACUUM")
    driver.execute("ANALYZE")
    borrowed.invalidate()


def _competition(
    i: int, draw: random.Random, shipped: list[dict[str, Any]], sentences: list[str]
) -> tuple[dict[str, Any], list[str]]:
    like = draw.choice(shipped)
    texts = [" ".join(draw.sample(sentences, 3)) for _ in range(PASSAGES)]
    facts = {
        name: like[name] for name in ("task", "modality", "metric", "metric_family", "n_train", "n_classes")
    }
    row = facts | {"slug": f"synthetic-{i:05d}", "title": f"Synthetic {i}", "description": " ".join(texts)}
    return validate("competitions", row), texts


def _passage(text: str, vectors: np.random.Generator) -> passages.NewPassage:
    vector = vectors.standard_normal(384).astype(np.float32)
    return passages.NewPassage("description", text, vector / np.linalg.norm(vector), _ENCODER)
