"""What would a hundred thousand runs have left? Rows of some that were told, on other days, under ids and
competitions of their own.

The same seed and `now` give the same rows.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import select

from memory_service.domain.runs.advice_outcome import place_of
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.store.tables.knowledge import Base, Competition
from memory_service.store.tables.outcomes import Outcome
from memory_service.store.tables.runs import Observation, Run, RunAdvice, RunEvent, RunSummary

__all__ = ["copy_runs"]

DAYS = 120
_CHUNK = 5_000

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


def copy_runs(
    database: Database,
    ids: Sequence[str],
    count: int,
    seed: int,
    now: dt.datetime,
    *,
    events: int,
    observations: int,
    epochs: int | None = None,
) -> None:
    """Add `count` runs of the last 120 days like those of `ids`, which have ended.

    events, observations   of so many of the latest copies what was told (and said to it) is there too, and
                           what they say of their device
    epochs   of a copy's summary as it ended; None = all
    """
    draw = random.Random(f"copies {seed}")
    with database.read() as unit:
        slugs: dict[str | None, list[str]] = {}
        for slug, task in unit.session.execute(select(Competition.slug, Competition.task)):
            slugs.setdefault(task, []).append(slug)
        originals = [_original(database, unit, run_id, epochs) for run_id in ids]
    copies = _copies(draw, originals, slugs, count, now)
    later = {"observations": observations} | {
        entity.__tablename__: events for entity in (RunEvent, RunSummary, RunAdvice)
    }
    with (
        database.write_untracked() as telling
    ):  # thousands of rows into twenty trees cost more than making them anew
        for index in Base.metadata.tables[Run.__tablename__].indexes:
            index.drop(telling.session.connection())
    for start in range(0, count, _CHUNK):
        tables: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
        for place, (original, copy) in zip(range(start, min(start + _CHUNK, count)), copies, strict=False):
            for table, patterns in original.items():
                if place < count - later.get(table, count):
                    continue
                for pattern in patterns:
                    tables.setdefault(table, (pattern.columns, []))[1].append(pattern.copied(copy))
        with database.write_untracked() as telling:
            for table, (columns, made) in tables.items():
                marks = ", ".join([database.dialect.mark] * len(columns))
                into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
                telling.session.statements.many(into, made)
    with database.write_untracked() as telling:
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


def _original(
    database: Database, unit: ReadTransaction, run_id: str, epochs: int | None
) -> tuple[Run, Original]:
    run = unit.session.get_one(Run, run_id)
    summary = dict(run.summary)
    left_out = 0 if epochs is None else max(0, len(summary["epochs"]) - epochs)
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
    for entity in (Observation, RunSummary, RunEvent, RunAdvice):
        mine = select(entity).where(entity.run_id == run_id)
        found[entity.__tablename__] = list(unit.session.scalars(mine))
    return run, {
        table: [_Pattern(database, row, run) for row in mine] for table, mine in found.items() if mine
    }
