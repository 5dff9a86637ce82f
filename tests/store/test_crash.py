"""A process that is killed while it writes leaves no half row, and several processes write side by side."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

from memory_service.errors import Conflict
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries import passages
from memory_service.store.queries.passages import NewPassage
from tests.processes import PROCESSES
from tests.store.fakes import competition

PAIRS = 20
"""Rows that one transaction writes: all of them are there, or none."""


def write_for_ever(url: str, name: str, done: Connection) -> None:
    """Transactions of `PAIRS` competitions with a passage each, until killed; tells of each that is over."""
    database = Database(url)
    number = 0
    while True:
        with database.write() as unit:
            for place in range(PAIRS):
                slug = f"{name}-{number}-{place}"
                catalogue.create_row(unit, "competitions", competition(slug), who=name)
                passages.replace(unit.session, slug, [NewPassage("text", f"zebra {slug}")])
        number += 1
        done.send(number)


@pytest.mark.parametrize("attempt", range(3))
def test_kill_9_in_mid_write_leaves_no_half_write(
    database: Database, opened: Callable[[str], Database], attempt: int
) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    told, done = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=write_for_ever, args=(url, "w", done))
    process.start()
    done.close()
    for number in range(attempt + 1):
        assert told.recv() == number + 1
    time.sleep(random.Random(attempt).uniform(0.0, 0.1))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    told.close()
    survivor = opened(url)
    with survivor.write() as unit:
        catalogue.create_row(unit, "competitions", competition("after"), who="ada")
    with survivor.read() as unit:
        slugs: list[str] = []
        cursor = None
        while True:
            page = catalogue.list_rows(unit, "competitions", limit=500, cursor=cursor)
            slugs += [row["slug"] for row in page.items if row["slug"] != "after"]
            cursor = page.next
            if cursor is None:
                break
        assert len(slugs) % PAIRS == 0
        assert len(slugs) >= PAIRS * (attempt + 1), "what was committed is there"
        assert set(passages.of_competitions(unit.session)) == set(slugs)
        hits = passages.search_words(unit.session, "zebra", 10_000)
        assert {hit.competition for hit in hits} == set(slugs)
        for slug in slugs[::7]:
            assert len(catalogue.history_of(unit, "competitions", slug)) == 1
    assert databases.check(survivor).problems == ()
    assert survivor.knowledge_revision() == len(slugs) // PAIRS + 1


def _write_some(url: str, name: str, count: int) -> None:
    """Whoever counts up says which version was read, and tries again when it moved meanwhile."""
    database = Database(url)
    done = 0
    while done < count:
        try:
            with database.write() as unit:
                row = catalogue.get_row(unit, "competitions", "shared")
                change = {"n_train": row["n_train"] + 1}
                catalogue.update_row(
                    unit,
                    "competitions",
                    "shared",
                    change,
                    who=name,
                    why="counted",
                    expected_version=row["version"],
                )
                catalogue.create_row(unit, "competitions", competition(f"{name}-{done}"), who=name)
            done += 1
        except Conflict:
            continue
    database.close()


def test_processes_write_side_by_side_and_lose_nothing(database: Database) -> None:
    with database.write() as unit:
        catalogue.create_row(unit, "competitions", competition("shared", n_train=0), who="ada")
    url = database.engine.url.render_as_string(hide_password=False)
    processes = [PROCESSES.Process(target=_write_some, args=(url, f"p{n}", 15)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with database.read() as unit:
        assert catalogue.get_row(unit, "competitions", "shared")["n_train"] == 45
        assert len(catalogue.list_rows(unit, "competitions", limit=500).items) == 46
        assert len(catalogue.history_of(unit, "competitions", "shared")) == 46
    assert database.knowledge_revision() == 46
