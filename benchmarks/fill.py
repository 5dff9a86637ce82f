"""How do pages and questions behave with much in the database? Fills one, at head and with seeds, in bulk.

    fill_small(database)                            some 40 runs with everything, two devices: to look at
    fill_big(database, runs=100_000, competitions=10_000)               to measure: as many of each
    fill_competitions(database, 10_000)                                 the latter's competitions alone

Competitions' sentences are recombined from the shipped descriptions, their vectors are random unit vectors:
searching costs what it would cost with real ones, and no hour is spent on encoding. Runs are pretended
(`benchmarks.pretended_runs`); the many of `fill_big` are copies of some such runs on other days, with ids and
competitions of their own. Of the latest the events and what they say of their device are there too, of the
others what their end left.
The same seed and `now` give the same rows.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from sqlalchemy import select
from threadpoolctl import threadpool_limits

from benchmarks.pretended_runs import pretend_devices, pretend_runs
from memory_service.domain.run_evidence import place_of
from memory_service.services.rows import validate
from memory_service.services.unit import Database, ReadUnit
from memory_service.store import passages, rows
from memory_service.store.outcome_tables import Outcome
from memory_service.store.run_tables import Observation, Run, RunEvent, RunSummary
from memory_service.store.tables import Base, Competition

__all__ = ["COMPETITIONS", "RUNS", "fill", "fill_big", "fill_competitions", "fill_small"]

COMPETITIONS = 10_000
RUNS = 100_000
PASSAGES = 4
ORIGINALS = 60
"""Most runs that are told one by one; the others are copies of them."""

DAYS = 120
WITH_EVENTS = 300
WITH_OBSERVATIONS = 20_000
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
        pretend_runs(database, 40, seed, now, every_seconds=15.0, running=2)


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
        originals = pretend_runs(database, told, seed, now, every_seconds=240.0, running=2)
    _copy_runs(database, originals[:-2], runs - len(originals), seed, now)
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


_RUN, _SLUG, _DAY, _NEXT = "@run@", "@slug@", "@day@", "@next-day@"


@dataclass(frozen=True, slots=True)
class _Copy:
    """What a copy has of its own."""

    run_id: str
    slug: str
    days: dt.timedelta
    day: str
    next_day: str

    def text(self, pattern: str) -> str:
        return (
            pattern.replace(_DAY, self.day)
            .replace(_RUN, self.run_id)
            .replace(_SLUG, self.slug)
            .replace(_NEXT, self.next_day)
        )


class _Pattern:
    """A row of a run that copies are made of: what names the run, its competition or its day is replaced."""

    def __init__(self, database: Database, row: Base, run: Run) -> None:
        self.values: list[tuple[str, Any]] = []
        self.columns = tuple(c.name for c in row.__table__.columns)
        self._day = run.started_at.date()
        self._known = ((run.id, _RUN), (run.competition or _SLUG, _SLUG))
        for column in row.__table__.columns:
            value = getattr(row, column.name)
            store: Callable[[Any], Any] = column.type.bind_processor(database.engine.dialect) or _as_it_is
            if value is None or isinstance(value, bool | int | float):
                self.values.append(("same", value))
            elif isinstance(value, dt.datetime):
                self.values.append(("time", (value, store)))
            else:
                told = value if isinstance(value, str) else orjson.dumps(value).decode()
                self.values.append(("text", self._pattern(told)))

    def _pattern(self, told: str) -> str:
        following = self._day + dt.timedelta(days=1)
        for known, mark in (*self._known, (str(self._day), _DAY), (str(following), _NEXT)):
            told = told.replace(known, mark)
        return told

    def copied(self, copy: _Copy) -> tuple[Any, ...]:
        made = []
        for kind, value in self.values:
            if kind == "text":
                made.append(copy.text(value) if "@" in value else value)
            elif kind == "time":
                moment, store = value
                made.append(store(moment + copy.days))
            else:
                made.append(value)
        return tuple(made)


def _as_it_is(value: Any) -> Any:
    return value


def _copy_runs(database: Database, ids: list[str], count: int, seed: int, now: dt.datetime) -> None:
    draw = random.Random(f"copies {seed}")
    with database.read() as unit:
        slugs: dict[str | None, list[str]] = {}
        for slug, task in unit.session.execute(select(Competition.slug, Competition.task)):
            slugs.setdefault(task, []).append(slug)
        originals = [_original(database, unit, run_id) for run_id in ids]
    copies = _copies(draw, originals, slugs, count, now)
    later = {"observations": WITH_OBSERVATIONS, "run_summaries": WITH_EVENTS, "run_events": WITH_EVENTS}
    with database.tell() as telling:  # thousands of rows into twenty trees cost more than making them anew
        for index in Base.metadata.tables[Run.__tablename__].indexes:
            index.drop(telling.session.connection())
    for start in range(0, count, _CHUNK * 10):
        tables: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
        for place, (original, copy) in zip(
            range(start, min(start + _CHUNK * 10, count)), copies, strict=False
        ):
            for table, patterns in original.items():
                if place < count - later.get(table, count):
                    continue
                for pattern in patterns:
                    tables.setdefault(table, (pattern.columns, []))[1].append(pattern.copied(copy))
        with database.tell() as telling:
            for table, (columns, made) in tables.items():
                database.dialect.insert_new(telling.session.statements, table, columns, made)
    with database.tell() as telling:
        for index in Base.metadata.tables[Run.__tablename__].indexes:
            index.create(telling.session.connection())


Original = Mapping[str, list[_Pattern]]


def _copies(
    draw: random.Random, originals: list[tuple[Run, Original]], slugs: Mapping[str | None, list[str]],
    count: int, now: dt.datetime,
) -> Iterator[tuple[Original, _Copy]]:  # fmt: skip
    """One a run, the oldest first."""
    for number in range(count):
        run, original = originals[draw.randrange(len(originals))]
        day = now.date() - dt.timedelta(days=1 + (count - 1 - number) * DAYS // count)
        days = day - run.started_at.date()
        slug = draw.choice(slugs[run.task])
        run_id = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        yield original, _Copy(run_id, slug, days, str(day), str(day + dt.timedelta(days=1)))


def _original(database: Database, unit: ReadUnit, run_id: str) -> tuple[Run, Original]:
    run = unit.session.get_one(Run, run_id)
    summary = dict(run.summary)
    left_out = max(0, len(summary["epochs"]) - EPOCHS_KEPT)
    summary |= {
        "epochs": summary["epochs"][left_out:], "epochs_left_out": summary["epochs_left_out"] + left_out
    }  # fmt: skip
    row = {c.name: getattr(run, c.name) for c in Run.__table__.columns}
    outcome = unit.session.get_one(Outcome, run_id)
    place = place_of(_SLUG, run.task, run.n_train)
    kept = {c.name: getattr(outcome, c.name) for c in Outcome.__table__.columns}
    found: dict[str, list[Base]] = {
        "runs": [Run(**row | {"summary": summary, "watch": None})],
        "outcomes": [Outcome(**kept | {"place": place})],
    }
    for entity in (Observation, RunSummary, RunEvent):
        mine = select(entity).where(entity.run_id == run_id)
        found[entity.__tablename__] = list(unit.session.scalars(mine))
    return run, {
        table: [_Pattern(database, row, run) for row in mine] for table, mine in found.items() if mine
    }
